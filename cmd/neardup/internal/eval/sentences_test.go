package eval

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// sentences returns the distinct sentences of real legal pages in English.
func sentences(t *testing.T) []string {
	r, err := corpus.New([]string{testgen.Shared(t, "revisions/docs.jsonl.gz")}, corpus.Options{})
	must(t, err)
	var all []string
	seen := make(map[string]bool)
	for raw, err := range r.RawRecords(t.Context()) {
		must(t, err)
		text := string(raw.Parse().Content)
		if strings.Count(text, " the ") < 10 {
			continue
		}
		for _, s := range strings.FieldsFunc(text, func(r rune) bool {
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
	if testenv.Race {
		t.Skip("TestCompare also evaluates documents in parallel")
	}
	const words, k = 1500, 6
	n, seeds := testenv.Number(800, 800, 800, 20_000), testenv.Number(1, 1, 1, 5)
	bank := sentences(t)
	var analyzers []*fingerprint.Analyzer
	for seed := range seeds {
		a, err := fingerprint.NewAnalyzer(fingerprint.Options{Seed: uint64(seed)})
		must(t, err)
		analyzers = append(analyzers, a)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	var places []*Document
	for i := range n {
		var text strings.Builder
		for have := 0; have < words; {
			s := bank[rng.IntN(len(bank))]
			have += len(strings.Fields(s))
			text.WriteString(s + ". ")
		}
		d := &Document{ID: strconv.Itoa(i)}
		d.tokens[0], d.tokens[1], d.tokens[2] = byte(i), byte(i>>8), byte(i>>16)
		for _, a := range analyzers {
			d.Signatures = append(d.Signatures, a.Text(text.String()))
		}
		places = append(places, d)
	}
	labelled, err := Label(places, nil)
	must(t, err)
	report := measured(t, labelled, match.Default(k))
	got := report.Default
	t.Logf("%d sentences, %d pairs of texts for each of %d seeds: false pairs per billion %.0f "+
		"±%.0f, with k = 3 %.0f; by the first fingerprint alone %.0f, with k = 3 %.0f",
		len(bank), report.Negative, seeds, got.FalsePairsPerBillion,
		got.Deviation.FalsePairsPerBillion,
		report.Curves[1].Points[3].FalsePairsPerBillion,
		report.Curves[0].Points[k].FalsePairsPerBillion,
		report.Curves[0].Points[3].FalsePairsPerBillion)
	// The short form has a third of a million pairs, so a single match may be chance.
	if got.FalsePairsPerBillion > 200 && got.FalsePairs > 1 {
		t.Errorf("%.1f false pairs", got.FalsePairs)
	}
}
