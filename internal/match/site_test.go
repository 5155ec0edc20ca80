package match

import (
	"fmt"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/duplicates"
)

// TestSiteSample tests that a candidate is compared with the first 16 other documents of the site,
// whether or not it is one of the first documents itself.
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
		found, err := s.Find(func(yield func(Candidate, error) bool) {
			// 8 documents at 80 bits, and 16 at 10 bits that are too short to match
			bits := append(slices.Repeat([]int{80}, 8), slices.Repeat([]int{10}, 16)...)
			for i, bits := range bits {
				if i == place && !yield(candidate(100, 30, 1000), nil) ||
					!yield(candidate(i+1, bits, 100), nil) {
					return
				}
			}
		})
		if err != nil || found == nil || found.ID != 100 {
			t.Errorf("a candidate after %d documents: found %+v, %v", place, found, err)
		}
	}
}
