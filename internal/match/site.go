package match

import (
	"iter"
	"slices"

	"github.com/neardup/neardup/internal/duplicates"
)

const (
	// siteSample is the largest number of other documents of the site that a candidate is compared
	// with, and fewestOfSite the smallest. They are among the nearest mostCandidates candidates.
	siteSample     = 16
	fewestOfSite   = 2
	mostCandidates = 64

	// With fewer than fewestOfSite, if enough different texts match documents of the site, a
	// candidate matches only texts that differ in at most a third of their shingles. This third
	// counts as at least fewestChanged and at most mostChanged shingles.
	fewestChanged = 8
	mostChanged   = 16
)

// Candidate is a stored document within MaxDistance of a page.
type Candidate struct {
	Match
	// the caller's number of a document without an ID; two candidates differ in ID or Origin
	Origin int
	site   bool // the document is on the site of the page, and both have Shingles and a length
	far    int  // ShingleDistance from the page, if site is set
}

// Search finds the document that a page is a duplicate of.
//
// The candidates are visited in the order of (distance, ID). The page is a duplicate of the first
// candidate that the rule allows and that is on another site, has the text of the page, or is near
// enough. A document of the page's site is near enough if its ShingleDistance is at most half of
// the median ShingleDistance of the first 16 other documents of the site among the candidates. If
// there are fewer than 2, the first siteTexts - 1 different texts that are duplicates of these
// documents are near enough. In later texts, a third of the shingles may differ, but at least about
// 8 and at most about 16.
//
// Stored documents are different pages, so their distances show how different two pages of the site
// are.
type Search struct {
	rule      Rule
	siteTexts int // below 0: every document that the rule allows is near enough
	page      *Document
	texts     func(*Candidate) (duplicates.Texts, error)
	seen      int         // number of candidates
	sample    []Candidate // the first documents of the site
	waiting   []Candidate // allowed by the rule, and not decided
}

// NewSearch begins a search. texts returns the different texts of the candidate's site that are
// duplicates of the candidate. If siteTexts is negative, or if the rule does not compare Shingles,
// then sites are ignored.
func NewSearch(
	rule Rule, siteTexts int, page *Document, texts func(*Candidate) (duplicates.Texts, error),
) *Search {
	if rule.MaxShingleDistance < 0 || page.Shingles.IsZero() || page.Tokens == 0 {
		siteTexts = -1
	}
	return &Search{rule: rule, siteTexts: siteTexts, page: page, texts: texts}
}

// Full reports whether the sample is complete. Candidates that the rule does not allow can then be
// left out.
func (s *Search) Full() bool {
	return s.siteTexts < 0 || s.seen >= mostCandidates || len(s.sample) > siteSample
}

// Find returns the document that the page is a duplicate of, or nil. The candidates must be in the
// order of (distance, ID).
func (s *Search) Find(candidates iter.Seq2[Candidate, error]) (*Candidate, error) {
	for c, err := range candidates {
		if err != nil {
			return nil, err
		}
		a, b := s.page.Signature(), c.Signature()
		if s.siteTexts >= 0 && !b.Shingles.IsZero() && b.Tokens > 0 &&
			duplicates.SameSite(s.page.Key, c.Key) {
			c.site, c.far = true, ShingleDistance(c.Distance, a, b)
			if !s.Full() {
				s.sample = append(s.sample, c)
			}
		}
		s.seen++
		if s.rule.Allows(c.Distance, a, b) {
			s.waiting = append(s.waiting, c)
		}
		if len(s.waiting) > 0 && (s.Full() || s.certain(&s.waiting[0])) {
			if found, err := s.decide(); found != nil || err != nil {
				return found, err
			}
		}
	}
	return s.decide()
}

// decide returns the first waiting candidate that is near enough, or nil if there is none.
func (s *Search) decide() (*Candidate, error) {
	for i := range s.waiting {
		if near, err := s.near(&s.waiting[i]); near || err != nil {
			return &s.waiting[i], err
		}
	}
	s.waiting = s.waiting[:0]
	return nil, nil
}

// certain reports whether an allowed candidate is a match regardless of other documents.
func (s *Search) certain(c *Candidate) bool {
	return !c.site || c.Digest != 0 && c.Digest == s.page.Digest
}

func (s *Search) near(c *Candidate) (bool, error) {
	if s.certain(c) {
		return true, nil
	}
	var others []int // ShingleDistances
	for i := range s.sample {
		if (s.sample[i].ID != c.ID || s.sample[i].Origin != c.Origin) && len(others) < siteSample {
			others = append(others, s.sample[i].far)
		}
	}
	if len(others) >= fewestOfSite {
		slices.Sort(others)
		return 2*c.far <= others[len(others)/2], nil
	}
	tokens, d := c.Tokens+s.page.Tokens, c.Shingles.Distance(s.page.Shingles)
	if tokens*d <= min(max(tokens/6, fewestChanged), mostChanged)*(256-d) {
		return true, nil
	}
	var texts duplicates.Texts
	for i := range s.sample {
		t, err := s.texts(&s.sample[i])
		if err != nil {
			return false, err
		}
		texts |= t
	}
	return texts.AtLeast()+1 < s.siteTexts, nil
}
