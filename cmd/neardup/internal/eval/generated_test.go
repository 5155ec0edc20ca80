package eval

import (
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/sitegen"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// measured returns the result of Measure.
func measured(t *testing.T, l *Labelled, rule Rule) *Report {
	t.Helper()
	report, err := l.Measure(t.Context(), rule, 0)
	must(t, err)
	return report
}

// TestGenerate tests that each distinct page has one near-duplicate and that the rule of dedup
// finds 93 %. Precision depends on the kind of pages; docs/quality.md has the numbers.
func TestGenerate(t *testing.T) {
	if testenv.Race {
		t.Skip("skipped: the race detector has nothing to find that TestCompare does not show")
	}
	signer, err := page.NewSigner(page.Visible, fingerprint.Options{})
	must(t, err)
	precision := map[sitegen.Kind]float64{sitegen.Reference: 0.16, sitegen.Product: 0.005, sitegen.CheatSheet: 0.98, sitegen.Notice: 0.68}
	for _, kind := range sitegen.Kinds {
		labelled, err := Generate(kind, 1, false, []*page.Signer{signer})
		must(t, err)
		if labelled.Positive != labelled.Documents/2 || labelled.Between+int(labelled.Identical) != 0 {
			t.Errorf("%s: %+v, want half as many positive pairs as documents, and no pair that is left out", kind, labelled.Numbers)
		}
		report := measured(t, labelled, Rule(match.Default(7)))
		t.Logf("%s: %+v, %+v", kind, report.Default.Score, report.Crawl)
		if report.Default.Recall < 0.93 || report.Default.Precision < precision[kind] || report.Crawl.Distinct != report.Crawl.Duplicates {
			t.Errorf("%s: recall %.3f, want at least 0.93, and precision %.3f, want at least %v; %+v", kind, report.Default.Recall, report.Default.Precision, precision[kind], report.Crawl)
		}
	}
}
