package eval

import (
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestMadeTexts measures the rule of dedup on short texts in five scripts, with two sets of each
// kind. It counts the near-duplicates it finds and the distinct pages of one template it
// confuses. With NEARDUP_LONG and -v it logs the rows of docs/quality.md, including the rows of
// simhash.
func TestMadeTexts(t *testing.T) {
	if testenv.Race {
		t.Skip("TestCompare also evaluates documents in parallel")
	}
	const k = 7
	families, classes, seeds := 6, 150, 5
	methods := []fingerprint.Method{fingerprint.MethodMinHash}
	if testenv.Long() {
		families, classes, seeds = 15, 400, 20
		methods = append(methods, fingerprint.MethodSimhash)
	}
	for _, made := range []struct {
		name                  string
		texts                 func(seed uint64) []madeText
		precision, recall, f1 float64 // minimum
		falsePairsPerBillion  float64 // maximum
	}{
		{"short texts", func(seed uint64) []madeText {
			return shortTexts(t, seed, families)
		}, 0.99, 0.78, 0.87, 10_000},
		{"one template", func(seed uint64) []madeText {
			return references(t, seed, classes)
		}, 0.98, 0.7, 0.82, 60_000},
	} {
		for set := uint64(1); set <= 2; set++ {
			texts := made.texts(set)
			labels := labelsOf(texts)
			for _, method := range methods {
				name, report := measureTexts(t, texts, labels, method, seeds, k)
				got := report.Default
				t.Logf("%s, set %d, %s: %d texts, %d positive pairs: precision %.3f ±%.3f, "+
					"recall %.3f ±%.3f, F1 %.3f ±%.3f, %.0f false pairs per billion",
					made.name, set, name,
					report.Documents, report.Positive, got.Precision, got.Deviation.Precision,
					got.Recall, got.Deviation.Recall, got.F1, got.Deviation.F1,
					got.FalsePairsPerBillion)
				if method == fingerprint.MethodMinHash &&
					(got.Precision < made.precision || got.Recall < made.recall ||
						got.F1 < made.f1 || got.FalsePairsPerBillion > made.falsePairsPerBillion) {
					t.Errorf("%s, set %d: want at least precision %v, recall %v and F1 %v, at "+
						"most %v false pairs per billion", made.name, set, made.precision,
						made.recall, made.f1, made.falsePairsPerBillion)
				}
			}
		}
	}
}

// measureTexts scores the default rule of an index for the fingerprints of a method.
func measureTexts(
	t *testing.T, texts []madeText, labels []Pair,
	method fingerprint.Method, seeds, k int,
) (analyzer string, _ *Report) {
	t.Helper()
	docs := make([]*Document, len(texts))
	for i, text := range texts {
		docs[i] = &Document{ID: text.ID, tokens: digestOf(fingerprint.Tokens(text.Text))}
	}
	for seed := range seeds {
		a, err := fingerprint.NewAnalyzer(fingerprint.Options{Method: method, Seed: uint64(seed)})
		must(t, err)
		if seed == 0 {
			analyzer = a.Name()
		}
		for i, text := range texts {
			docs[i].Signatures = append(docs[i].Signatures, a.Text(text.Text))
		}
	}
	labelled, err := Label(docs, labels)
	must(t, err)
	return analyzer, measured(t, labelled, match.Default(k))
}

// measured returns the result of Measure.
func measured(t *testing.T, l *Labelled, rule match.Rule) *Report {
	t.Helper()
	report, err := l.Measure(t.Context(), rule, 0)
	must(t, err)
	return report
}
