package eval

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/sitegen"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// noRace skips a test under the race detector, since TestCompare also evaluates documents in
// parallel.
func noRace(t *testing.T) {
	t.Helper()
	if testenv.Race {
		t.Skip("TestCompare also evaluates documents in parallel")
	}
}

// measureTexts scores the default rule for texts.
func measureTexts(t *testing.T, texts []madeText, labels []Pair, seeds, k int) *Report {
	t.Helper()
	docs := make([]*Document, len(texts))
	for i, text := range texts {
		docs[i] = &Document{ID: text.ID, tokens: digestOf(fingerprint.Tokens(text.Text))}
	}
	for seed := range seeds {
		a, err := fingerprint.NewAnalyzer(fingerprint.Options{Seed: uint64(seed)})
		must(t, err)
		for i, text := range texts {
			docs[i].Signatures = append(docs[i].Signatures, a.Text(text.Text))
		}
	}
	labelled, err := Label(docs, labels)
	must(t, err)
	return measured(t, labelled, match.Default(k))
}

// measured returns the result of Measure.
func measured(t *testing.T, l *Labelled, rule match.Rule) *Report {
	t.Helper()
	report, err := l.Measure(t.Context(), rule, 0)
	must(t, err)
	got := report.Default
	t.Logf("%d documents, %d positive pairs: precision %.3f ±%.3f, recall %.3f ±%.3f, F1 %.3f "+
		"±%.3f, %.0f false pairs per billion", report.Documents, report.Positive, got.Precision,
		got.Deviation.Precision, got.Recall, got.Deviation.Recall, got.F1, got.Deviation.F1,
		got.FalsePairsPerBillion)
	return report
}

// TestMadeTexts measures the default rule on short texts in five scripts, and on longer pages of
// one template, with two sets of each.
func TestMadeTexts(t *testing.T) {
	noRace(t)
	families, classes, seeds := 6, 150, 5
	if testenv.Long() {
		families, classes, seeds = 15, 400, 20
	}
	for set := uint64(1); set <= 2; set++ {
		for _, made := range []struct {
			name                                    string
			texts                                   []madeText
			precision, recall, falsePairsPerBillion float64 // two minimums and a maximum
		}{
			{"short texts", shortTexts(t, set, families), 0.99, 0.78, 10_000},
			{"one template", references(t, set, classes), 0.98, 0.7, 60_000},
		} {
			report := measureTexts(t, made.texts, labelsOf(made.texts), seeds, 7)
			got := report.Default
			if report.Positive < 300 || got.Precision < made.precision ||
				got.Recall < made.recall || got.FalsePairsPerBillion > made.falsePairsPerBillion {
				t.Errorf("set %d: %+v of %d positive pairs, want at least %+v", set, got,
					report.Positive, made)
			}
		}
	}
}

// TestGenerate tests that each distinct page has one near-duplicate and that the rule of dedup
// finds nine of ten.
func TestGenerate(t *testing.T) {
	noRace(t)
	signer, err := page.NewSigner(page.Visible, fingerprint.Options{})
	must(t, err)
	for _, kind := range sitegen.Kinds {
		labelled, err := Generate(kind, 1, false, []*page.Signer{signer})
		must(t, err)
		if labelled.Positive != labelled.Documents/2 ||
			labelled.Between+int(labelled.Identical) != 0 {
			t.Errorf("%s: %+v, want half as many positive pairs as documents, and no pair that "+
				"is left out", kind, labelled.Numbers)
		}
		report := measured(t, labelled, match.Default(7))
		if report.Default.Recall < 0.9 || report.Crawl.Distinct != report.Crawl.Duplicates {
			t.Errorf("%s: recall %.3f, want at least 0.9; %+v", kind,
				report.Default.Recall, report.Crawl)
		}
	}
}

// sentences returns the distinct sentences of real legal pages in English.
func sentences(t *testing.T) (all []string) {
	r, err := corpus.New([]string{testgen.Shared(t, "revisions/docs.jsonl.gz")}, corpus.Options{})
	must(t, err)
	seen := make(map[string]bool)
	for raw, err := range r.RawRecords(t.Context()) {
		must(t, err)
		text := string(raw.Parse().Content)
		if strings.Count(text, " the ") < 10 {
			continue
		}
		for s := range strings.FieldsFuncSeq(text, func(r rune) bool {
			return r == '.' || r == '\n'
		}) {
			if s = strings.TrimSpace(s); len(strings.Fields(s)) > 6 && !seen[s] {
				seen[s] = true
				all = append(all, s)
			}
		}
	}
	return all
}

// TestTextsOfOneSubject measures different texts of 1,500 words, made of sentences from one
// collection. At most 200 pairs per billion may match by the rule of dedup. With NEARDUP_LONG it
// counts them over a billion pairs.
func TestTextsOfOneSubject(t *testing.T) {
	noRace(t)
	bank := sentences(t)
	rng := rand.New(rand.NewPCG(7, 7))
	var texts []madeText
	for i := range testenv.Number(800, 800, 800, 20_000) {
		var text strings.Builder
		for words := 0; words < 1500; {
			s := bank[rng.IntN(len(bank))]
			words += len(strings.Fields(s))
			text.WriteString(s + ". ")
		}
		texts = append(texts, madeText{strconv.Itoa(i), text.String()})
	}
	got := measureTexts(t, texts, nil, testenv.Number(1, 1, 1, 5), 6).Default
	// The short form has a third of a million pairs, so a single match may be chance.
	if got.FalsePairsPerBillion > 200 && got.FalsePairs > 1 {
		t.Errorf("%.1f false pairs", got.FalsePairs)
	}
}
