package match

import (
	"errors"
	"fmt"
	"strings"

	"github.com/neardup/neardup/fingerprint"
)

// ErrRatio: a MaxLengthRatio is no number, or one that no two lengths are within.
var ErrRatio = errors.New("ratio of lengths that makes no sense")

// Rule says which pairs of documents match: those of one scope whose fingerprints are
// within MaxDistance bits and, together with the bits in which their Shingles differ, where
// both have one, within MaxShingleDistance; and of whose lengths, where both are known, the
// longer is at most MaxLengthRatio times the shorter. The fingerprint says how much two
// texts have in common; the Shingle, which sees the order of words, tells texts that share
// a vocabulary from copies; and neither sees repetition.
//
// A rule is no part of what an index stores: each call may ask by another one.
type Rule struct {
	MaxDistance        int
	MaxShingleDistance int     // below 0: Shingles do not count
	MaxLengthRatio     float64 // below 0: lengths do not count

	// ShortAllowance is how much further apart texts may be the shorter they are: one word
	// that is another changes few windows of a long text, and most of a short one. It is for a
	// text of no token, and falls to none where the longer text has ShortTokens.
	ShortAllowance int
}

// ShortTokens is from how many tokens on a text is allowed nothing more.
const ShortTokens = 200

// Defaults of fingerprints by MinHash, and of all others.
const (
	minHashShingleDistance = 13
	minHashShortAllowance  = 22
	otherShingleDistance   = 16
	MaxLengthRatio         = 1.3
)

// For returns the rule within k bits by the limits that were measured for the fingerprints of
// the analyzer of that name.
func For(analyzer string, k int) Rule {
	r := Rule{MaxDistance: k, MaxShingleDistance: otherShingleDistance, MaxLengthRatio: MaxLengthRatio}
	if a := TextAnalyzer(analyzer); a != nil && strings.Fields(a.Name())[0] == fingerprint.Version {
		r.MaxShingleDistance, r.ShortAllowance = minHashShingleDistance, minHashShortAllowance
	}
	return r
}

// TextAnalyzer is the fingerprint.Analyzer of a recorded name: the name is its own or, as that of a
// page.Signer, has it behind what text is taken. nil: the fingerprints are not those of texts.
func TextAnalyzer(name string) *fingerprint.Analyzer {
	_, behind, _ := strings.Cut(name, " ")
	for _, n := range []string{name, behind} {
		if a, err := fingerprint.ParseAnalyzer(n); err == nil {
			return a
		}
	}
	return nil
}

// With returns the rule under other limits, where they are not 0: short texts are allowed no more
// than a limit that is given.
func (r Rule) With(maxShingleDistance int, maxLengthRatio float64) Rule {
	if maxShingleDistance != 0 {
		r.MaxShingleDistance, r.ShortAllowance = maxShingleDistance, 0
	}
	if maxLengthRatio != 0 {
		r.MaxLengthRatio = maxLengthRatio
	}
	return r
}

// Check refuses a ratio that no two lengths are within. Error: ErrRatio.
func (r Rule) Check() error {
	if r.MaxLengthRatio < 0 || r.MaxLengthRatio >= 1 {
		return nil
	}
	return fmt.Errorf("%w: it is %v, want 1 or more, or below 0 for none", ErrRatio, r.MaxLengthRatio)
}

// Matches reports whether two documents match.
func (r Rule) Matches(a, b *Document) bool {
	distance := a.Fingerprint.Distance(b.Fingerprint)
	return distance <= r.MaxDistance && a.Scope == b.Scope && r.Allows(distance, a.Signature(), b.Signature())
}

// Allows reports whether the Shingles and lengths of two documents, whose fingerprints are
// that distance apart, let them match. What is 0 is not known, and so allowed.
func (r Rule) Allows(distance int, a, b fingerprint.Signature) bool {
	shorter, longer := min(a.Tokens, b.Tokens), max(a.Tokens, b.Tokens)
	if r.MaxShingleDistance >= 0 && a.Shingle != 0 && b.Shingle != 0 && distance+a.Shingle.Distance(b.Shingle) > r.Limit(longer) {
		return false
	}
	return r.MaxLengthRatio < 0 || shorter == 0 || float64(longer) <= r.MaxLengthRatio*float64(shorter)
}

// RulesOut reports whether a document that has that Shingle cannot match a signature, whatever
// its length is. Of a text of unknown length too: one token makes the limit no stricter than any length.
func (r Rule) RulesOut(distance int, shingle fingerprint.Fingerprint, s fingerprint.Signature) bool {
	s.Tokens = max(s.Tokens, 1)
	return !r.Allows(distance, fingerprint.Signature{Shingle: shingle}, s)
}

// Limit is that of the sum of distances where the longer text has so many tokens. With one
// length unknown it is no stricter than with both.
func (r Rule) Limit(longer int) int {
	if longer == 0 || r.MaxShingleDistance < 0 {
		return r.MaxShingleDistance
	}
	return r.MaxShingleDistance + r.ShortAllowance*max(0, ShortTokens-longer)/ShortTokens
}

// Relevant returns a signature without the fields that the rule ignores. Documents of one
// scope with equal results match the same documents.
func (r Rule) Relevant(s fingerprint.Signature) fingerprint.Signature {
	s.Digest = 0
	if r.MaxShingleDistance < 0 {
		s.Shingle = 0
	}
	if r.MaxLengthRatio < 0 && (r.ShortAllowance == 0 || r.MaxShingleDistance < 0) {
		s.Tokens = 0
	}
	return s
}
