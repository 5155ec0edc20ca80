package match

import (
	"errors"
	"fmt"
	"strings"

	"github.com/neardup/neardup/fingerprint"
)

// ErrRatio means that a MaxLengthRatio is not a number or is between 0 and 1.
var ErrRatio = errors.New("invalid ratio of lengths")

// Rule determines which pairs of documents of one scope match:
//
//	d1 <= MaxDistance, and
//	d1 + d2 <= max(min(MaxShingleDistance, longer/7),
//	               (MaxShingleDistance+ShortAllowance) * (140-longer)/140), and
//	longer <= MaxLengthRatio * shorter,
//
// with the distance d1 of their Fingerprints, the distance d2 of their Shingles, and the lengths of
// the shorter and the longer text in tokens. The second line applies if both have Shingles, the
// third if both lengths are known. Without a ShortAllowance, or without lengths, the second line is
// d1 + d2 <= MaxShingleDistance.
//
// One word that is replaced changes few shingles of a long text and many of a text of 30 tokens, so
// the limit of short texts is larger. Pages of 80 to 250 tokens that are near are mostly distinct
// pages of one template, so their limit is smaller: 17 at 120 tokens with the default limits.
//
// The words of two texts (d1) select candidates. Their shingles, which depend on the order of the
// words, confirm them. A repetition of a text changes neither, but it changes the length.
//
// An index does not store a Rule. Each call may use a different one.
type Rule struct {
	MaxDistance        int
	MaxShingleDistance int     // below 0: Shingles are not compared
	ShortAllowance     int     // at least 0
	MaxLengthRatio     float64 // below 0: lengths are not compared
}

const (
	shortTokens = 140 // from this length on, a text has no ShortAllowance
	perDistance = 7   // tokens per unit of the limit, up to MaxShingleDistance
)

// The default limits.
const (
	MaxShingleDistance = 36
	ShortAllowance     = 40
	MaxLengthRatio     = 1.3
	SiteTexts          = 5 // of a Search
)

// Default returns the rule within k bits with the default limits.
func Default(k int) Rule {
	return Rule{k, MaxShingleDistance, ShortAllowance, MaxLengthRatio}
}

// String returns the rule on one line: d1 and d2 are the distances of the Fingerprints and the
// Shingles, and n the tokens of the longer text.
func (r Rule) String() string {
	s := fmt.Sprintf("d1 <= %d", r.MaxDistance)
	switch {
	case r.MaxShingleDistance < 0:
	case r.ShortAllowance == 0:
		s += fmt.Sprintf(", d1+d2 <= %d", r.MaxShingleDistance)
	default:
		s += fmt.Sprintf(", d1+d2 <= max(min(%d, n/%d), %d*(%d-n)/%[4]d)",
			r.MaxShingleDistance, perDistance,
			r.MaxShingleDistance+r.ShortAllowance, shortTokens)
	}
	if r.MaxLengthRatio >= 0 {
		s += fmt.Sprintf(", n <= %g times the shorter", r.MaxLengthRatio)
	}
	return s
}

// TextAnalyzer returns the fingerprint.Analyzer with a recorded name. The name is the name of an
// Analyzer or of a page.Signer, which ends in the name of its Analyzer. TextAnalyzer returns nil
// for other names.
func TextAnalyzer(name string) *fingerprint.Analyzer {
	_, last, _ := strings.Cut(name, " ")
	for _, n := range []string{name, last} {
		if a, err := fingerprint.ParseAnalyzer(n); err == nil {
			return a
		}
	}
	return nil
}

// With returns the rule with other limits, as in index.Options: 0 keeps a limit, and a negative
// value removes it.
func (r Rule) With(maxShingleDistance, shortAllowance int, maxLengthRatio float64) Rule {
	if maxShingleDistance != 0 {
		r.MaxShingleDistance = maxShingleDistance
	}
	if shortAllowance != 0 {
		r.ShortAllowance = max(shortAllowance, 0)
	}
	if maxLengthRatio != 0 {
		r.MaxLengthRatio = maxLengthRatio
	}
	return r
}

// Check returns ErrRatio if no two lengths can be within MaxLengthRatio.
func (r Rule) Check() error {
	if r.MaxLengthRatio < 0 || r.MaxLengthRatio >= 1 {
		return nil
	}
	return fmt.Errorf("%w: it is %v, want 1 or more, or below 0 for no limit", ErrRatio,
		r.MaxLengthRatio)
}

// Matches reports whether two documents match.
func (r Rule) Matches(a, b *Document) bool {
	distance := a.Fingerprint.Distance(b.Fingerprint)
	return distance <= r.MaxDistance && a.Scope == b.Scope &&
		r.Allows(distance, a.Signature(), b.Signature())
}

// Allows reports whether two signatures match, given that the distance of their Fingerprints is
// within MaxDistance.
func (r Rule) Allows(distance int, a, b fingerprint.Signature) bool {
	shorter, longer := min(a.Tokens, b.Tokens), max(a.Tokens, b.Tokens)
	if r.MaxShingleDistance >= 0 && !a.Shingles.IsZero() && !b.Shingles.IsZero() &&
		ShingleDistance(distance, a, b) > r.Limit(longer) {
		return false
	}
	return r.MaxLengthRatio < 0 || shorter == 0 ||
		float64(longer) <= r.MaxLengthRatio*float64(shorter)
}

// ShingleDistance returns the sum that MaxShingleDistance bounds: the distance of the Fingerprints
// plus the distance of the Shingles.
func ShingleDistance(distance int, a, b fingerprint.Signature) int {
	return distance + a.Shingles.Distance(b.Shingles)
}

// RulesOut reports whether a document with these Shingles cannot match s, whichever length it has.
// It uses the largest limit of all lengths: the limit for the length of s, or for one token if s
// has no length, or the limit for a long document.
func (r Rule) RulesOut(
	distance int, shingles fingerprint.ShingleSignature, s fingerprint.Signature,
) bool {
	if r.MaxShingleDistance < 0 || shingles.IsZero() || s.Shingles.IsZero() {
		return false
	}
	limit := max(r.Limit(max(s.Tokens, 1)), r.MaxShingleDistance)
	return distance+s.Shingles.Distance(shingles) > limit
}

// Limit returns the limit of ShingleDistance, given the tokens of the longer text. 0 tokens means
// that the length is not known; the text then counts as long.
func (r Rule) Limit(longer int) int {
	if longer == 0 || r.ShortAllowance == 0 || r.MaxShingleDistance < 0 {
		return r.MaxShingleDistance
	}
	return max(min(r.MaxShingleDistance, longer/perDistance),
		(r.MaxShingleDistance+r.ShortAllowance)*(shortTokens-longer)/shortTokens)
}

// Relevant returns a signature without the fields that the rule ignores. Documents of one
// scope with equal results match the same documents.
func (r Rule) Relevant(s fingerprint.Signature) fingerprint.Signature {
	s.Digest = 0
	if r.MaxShingleDistance < 0 {
		s.Shingles = fingerprint.ShingleSignature{}
	}
	if r.MaxLengthRatio < 0 && (r.ShortAllowance == 0 || r.MaxShingleDistance < 0) {
		s.Tokens = 0
	}
	return s
}
