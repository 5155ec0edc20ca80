package match

import (
	"fmt"
	"testing"

	"github.com/neardup/neardup/internal/duplicates"
)

// TestSiteSample: a candidate is compared with the first 16 other documents of the site, whether it
// is one of the first itself or not.
func TestSiteSample(t *testing.T) {
	page := Document{Key: "http://site/page", Tokens: 1000}
	page.Shingles[3] = 1
	candidate := func(id, bits, tokens int) Candidate {
		d := page
		d.ID, d.Key, d.Tokens = uint64(id), fmt.Sprint("http://site/", id), tokens
		d.Shingles[0], d.Shingles[1] = 1<<min(bits, 40)-1, 1<<max(bits-40, 0)-1
		return Candidate{Match: Match{Document: d}, Origin: -1}
	}
	for _, place := range []int{0, 5, 16, 17, 20} {
		s := NewSearch(Default(3), SiteTexts, &page,
			func(*Candidate) (duplicates.Texts, error) { return 0, nil })
		done := false
		offer := func(c Candidate) {
			t.Helper()
			if done {
				return
			}
			var err error
			if done, err = s.Offer(c); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 24 { // 8 documents at 80 bits, and 16 at 10 bits that are too short to match
			if i == place {
				offer(candidate(100, 30, 1000))
			}
			bits := 10
			if i < 8 {
				bits = 80
			}
			offer(candidate(i+1, bits, 100))
		}
		if !done {
			if err := s.Finish(); err != nil {
				t.Fatal(err)
			}
		}
		if found := s.Found(); found == nil || found.ID != 100 {
			t.Errorf("a candidate after %d documents: found %+v", place, found)
		}
	}
}
