package match

import (
	"errors"
	"fmt"

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
}

// With returns the rule under other limits, where they are not 0.
func (r Rule) With(maxShingleDistance int, maxLengthRatio float64) Rule {
	if maxShingleDistance != 0 {
		r.MaxShingleDistance = maxShingleDistance
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
	if r.MaxShingleDistance >= 0 && a.Shingle != 0 && b.Shingle != 0 && distance+a.Shingle.Distance(b.Shingle) > r.MaxShingleDistance {
		return false
	}
	shorter, longer := min(a.Tokens, b.Tokens), max(a.Tokens, b.Tokens)
	return r.MaxLengthRatio < 0 || shorter == 0 || float64(longer) <= r.MaxLengthRatio*float64(shorter)
}

// Relevant returns a signature without what the rule does not look at: documents of one
// scope that are equal in it match the same documents.
func (r Rule) Relevant(s fingerprint.Signature) fingerprint.Signature {
	if r.MaxShingleDistance < 0 {
		s.Shingle = 0
	}
	if r.MaxLengthRatio < 0 {
		s.Tokens = 0
	}
	return s
}
