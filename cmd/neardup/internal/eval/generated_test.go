package eval

import (
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/sitegen"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestGenerate tests that each distinct page has one near-duplicate and that the rule of dedup
// finds nine of ten.
func TestGenerate(t *testing.T) {
	if testenv.Race {
		t.Skip("skipped: the race detector has nothing to find that TestCompare does not show")
	}
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
		t.Logf("%s: %+v, %+v", kind, report.Default.Score, report.Crawl)
		if report.Default.Recall < 0.9 || report.Crawl.Distinct != report.Crawl.Duplicates {
			t.Errorf("%s: recall %.3f, want at least 0.9; %+v", kind,
				report.Default.Recall, report.Crawl)
		}
	}
}
