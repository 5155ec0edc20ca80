package match

import (
	"slices"

	"github.com/neardup/neardup/internal/duplicates"
)

const (
	// siteSample is the number of other documents of the site that a candidate is compared with, and
	// fewestOfSite the number from which on there are enough.
	siteSample   = 16
	fewestOfSite = 2

	// With fewer, a candidate that fewTexts different texts of the site are duplicates of matches only
	// texts that differ in about changedShingles shingles.
	fewTexts        = 2
	changedShingles = 16
)

// Candidate is a stored document within MaxDistance of a page.
type Candidate struct {
	Match
	Origin  int // any number of the caller
	allows  bool
	sampled bool
	site    bool
	far     int // ShingleDistance, of a document of the site
}

// Site finds the document that a page is a duplicate of if pages of one template are separated.
//
// The candidates are visited in the order of (distance, ID). The page is a duplicate of the first one that
// the rule allows and that is on another site or has the text of the page or is near enough. A document of
// the page's site is near enough if its ShingleDistance is at most half of the median ShingleDistance of
// the other documents of the site among the candidates: of the first 16, if there are 2. With fewer, it is
// near enough unless duplicates with two different texts of the site were found: then about 16 shingles
// may differ.
//
// Documents that are stored are different pages, so their distances show how different two pages of the
// site are.
type Site struct {
	rule    Rule
	page    *Document
	texts   func(*Candidate) (duplicates.Texts, error)
	sample  []int       // ShingleDistances of the first documents of the site
	waiting []Candidate // that the rule allows, and are not decided

	found *Candidate
}

// NewSite begins a search. texts returns the different texts of the candidate's site that are duplicates of it.
func NewSite(rule Rule, page *Document, texts func(*Candidate) (duplicates.Texts, error)) *Site {
	return &Site{rule: rule, page: page, texts: texts}
}

// Full reports whether candidates that the rule does not allow are of no more use.
func (s *Site) Full() bool { return len(s.sample) > siteSample }

// Found returns the document that the page is a duplicate of; nil if there is none.
func (s *Site) Found() *Candidate { return s.found }

// Offer takes the next candidate. It reports whether the search is over.
func (s *Site) Offer(c Candidate) (done bool, err error) {
	a, b := s.page.Signature(), c.Signature()
	c.allows = s.rule.Allows(c.Distance, a, b)
	if !a.Shingles.IsZero() && !b.Shingles.IsZero() && a.Tokens > 0 && b.Tokens > 0 && duplicates.SameSite(s.page.Key, c.Key) {
		c.site, c.far = true, ShingleDistance(c.Distance, a, b)
		if c.sampled = !s.Full(); c.sampled {
			s.sample = append(s.sample, c.far)
		}
	}
	if c.allows {
		s.waiting = append(s.waiting, c)
	}
	if len(s.waiting) > 0 && (s.Full() || s.certain(&s.waiting[0])) {
		return s.decide()
	}
	return false, nil
}

// Finish ends the search: there are no more candidates.
func (s *Site) Finish() error {
	_, err := s.decide()
	return err
}

// decide looks for a document among the candidates that wait.
func (s *Site) decide() (done bool, err error) {
	for i := range s.waiting {
		near, err := s.near(&s.waiting[i])
		if err != nil {
			return false, err
		}
		if near {
			s.found = &s.waiting[i]
			return true, nil
		}
	}
	s.waiting = s.waiting[:0]
	return false, nil
}

// certain reports whether an allowed candidate is a match whatever other documents there are.
func (s *Site) certain(c *Candidate) bool {
	return !c.site || c.Digest != 0 && c.Digest == s.page.Digest
}

func (s *Site) near(c *Candidate) (bool, error) {
	if s.certain(c) {
		return true, nil
	}
	others := slices.Clone(s.sample)
	if c.sampled {
		i := slices.Index(others, c.far)
		others = slices.Delete(others, i, i+1)
	}
	if len(others) >= fewestOfSite {
		slices.Sort(others)
		return 2*c.far <= others[len(others)/2], nil
	}
	texts, err := s.texts(c)
	if err != nil || texts.AtLeast() < fewTexts {
		return err == nil, err
	}
	d := c.Signature().Shingles.Distance(s.page.Shingles)
	return (c.Tokens+s.page.Tokens)*d <= changedShingles*(256-d), nil
}
