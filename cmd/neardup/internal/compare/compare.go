// Package compare explains why two documents match or do not match: their distances, the limit
// that decides, and the words that differ.
package compare

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
)

// Document is one of two compared documents.
type Document struct {
	Key         string                       `json:"key"`
	KeyBytes    []byte                       `json:"keyBytes,omitempty"` // only in a Result
	Fingerprint fingerprint.Fingerprint      `json:"fingerprint"`
	Shingles    fingerprint.ShingleSignature `json:"shingles,omitzero"`
	Digest      fingerprint.Digest           `json:"digest,omitzero"`
	Tokens      int                          `json:"tokens"`
	Scope       string                       `json:"scope,omitempty"`

	Words []string `json:"-"` // of its text; nil: not known
}

// Of returns a document of an index. Its words are unknown.
func Of(d *index.Document) *Document {
	return &Document{Key: d.Key, Fingerprint: d.Fingerprint, Shingles: d.Shingles, Digest: d.Digest,
		Tokens: d.Tokens, Scope: d.Scope}
}

func (d *Document) signature() fingerprint.Signature {
	return fingerprint.Signature{Fingerprint: d.Fingerprint, Shingles: d.Shingles, Digest: d.Digest,
		Tokens: d.Tokens}
}

// These are the limits that can prevent a match of two documents.
const (
	ByDistance = "distance"
	ByShingle  = "shingles"
	ByLength   = "length"
	ByScope    = "scope"
)

// Result is the result of comparing two documents.
type Result struct {
	A           Document `json:"a"`
	B           Document `json:"b"`
	Distance    int      `json:"distance"`
	MaxDistance int      `json:"maxDistance"`
	// distance + the distance of the shingles
	ShingleDistance *int     `json:"shingleDistance,omitempty"`
	MaxShingle      int      `json:"maxShingleDistance"`
	LengthRatio     float64  `json:"lengthRatio,omitempty"`
	MaxLengthRatio  float64  `json:"maxLengthRatio"`
	Match           bool     `json:"match"`
	Decided         []string `json:"decided,omitempty"` // the limits that they exceed
	// different words with some words around them
	Differences []Place `json:"differences,omitempty"`
	Left        int     `json:"differencesLeftOut,omitempty"` // number of omitted Differences
}

// Documents compares two documents. It returns their distances, the limits of the rule that they
// exceed, and at most most places where their words differ.
func Documents(a, b *Document, rule match.Rule, most int) *Result {
	r := measured(a, b, rule)
	r.A, r.B, r.Differences = *a, *b, differences(a.Words, b.Words)
	r.A.KeyBytes, r.B.KeyBytes = corpus.KeyBytes(a.Key), corpus.KeyBytes(b.Key)
	if n := len(r.Differences) - most; n > 0 {
		r.Differences, r.Left = r.Differences[:most], n
	}
	return &r
}

// measured returns the result without the words.
func measured(a, b *Document, rule match.Rule) Result {
	shorter, longer := min(a.Tokens, b.Tokens), max(a.Tokens, b.Tokens)
	r := Result{
		Distance:    a.Fingerprint.Distance(b.Fingerprint),
		MaxDistance: rule.MaxDistance, MaxShingle: rule.Limit(longer),
		MaxLengthRatio: rule.MaxLengthRatio,
	}
	if !a.Shingles.IsZero() && !b.Shingles.IsZero() {
		r.ShingleDistance = new(match.ShingleDistance(r.Distance, a.signature(), b.signature()))
	}
	if shorter > 0 {
		r.LengthRatio = float64(longer) / float64(shorter)
	}
	beyond := func(limit string, yes bool) {
		if yes {
			r.Decided = append(r.Decided, limit)
		}
	}
	beyond(ByDistance, r.Distance > rule.MaxDistance)
	beyond(ByShingle, !rule.With(0, 0, -1).Allows(r.Distance, a.signature(), b.signature()))
	beyond(ByLength, !rule.With(-1, 0, 0).Allows(r.Distance, a.signature(), b.signature()))
	beyond(ByScope, a.Scope != b.Scope)
	r.Match = len(r.Decided) == 0
	return r
}

// Share returns the share of a limit that two documents use. Above 1, they do not match. counts is
// false for ByScope, and for a limit that does not apply to the documents.
func (r *Result) Share(limit string) (share float64, counts bool) {
	switch {
	case limit == ByDistance:
		share = float64(r.Distance) / float64(max(r.MaxDistance, 1))
		if r.MaxDistance == 0 && r.Distance > 0 {
			share++
		}
		return share, true
	case limit == ByShingle && r.ShingleDistance != nil && r.MaxShingle >= 0:
		return float64(*r.ShingleDistance) / float64(max(r.MaxShingle, 1)), true
	case limit == ByLength && r.LengthRatio > 0 && r.MaxLengthRatio > 1:
		return (r.LengthRatio - 1) / (r.MaxLengthRatio - 1), true
	}
	return 0, limit == ByLength && r.LengthRatio > 0 && r.MaxLengthRatio == 1
}

// Nearness returns the largest share of a limit, and the name of this limit.
func (r *Result) Nearness() (share float64, limit string) {
	for _, by := range [...]string{ByDistance, ByShingle, ByLength} {
		if s, _ := r.Share(by); limit == "" || s > share {
			share, limit = s, by
		}
	}
	return share, limit
}

// WriteText writes the comparison as text.
func (r *Result) WriteText(out io.Writer, rule match.Rule) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tA\tB\n")
	fmt.Fprintf(w, "key\t%s\t%s\n", corpus.Escape(r.A.Key), corpus.Escape(r.B.Key))
	if r.A.Scope != r.B.Scope {
		fmt.Fprintf(w, "scope\t%s\t%s\tdifferent scopes never match\n", corpus.Escape(r.A.Scope),
			corpus.Escape(r.B.Scope))
	}
	fmt.Fprintf(w, "fingerprint\t%v\t%v\t%d bits differ, limit %d\n", r.A.Fingerprint,
		r.B.Fingerprint, r.Distance, r.MaxDistance)
	if r.ShingleDistance != nil {
		fmt.Fprintf(w, "shingles\t\t\t%d of 256 bits differ; %d + %[1]d = %[3]d, limit %[4]d\n",
			*r.ShingleDistance-r.Distance, r.Distance, *r.ShingleDistance, r.MaxShingle)
	}
	if r.A.Digest != 0 && r.B.Digest != 0 {
		text := "the texts differ"
		if r.A.Digest == r.B.Digest {
			text = "the texts have equal words"
		}
		fmt.Fprintf(w, "digest\t%v\t%v\t%s\n", r.A.Digest, r.B.Digest, text)
	}
	if r.LengthRatio > 0 {
		fmt.Fprintf(w, "words\t%d\t%d\t%.2f times as long, limit %v\n", r.A.Tokens, r.B.Tokens,
			r.LengthRatio, r.MaxLengthRatio)
	}
	err := w.Flush()
	fmt.Fprintf(out, "\nrule: %v\n", rule)
	if r.Match {
		fmt.Fprintln(out, "they match: near-duplicates")
	} else {
		fmt.Fprintf(out, "they do not match: %s\n", strings.Join(r.Decided, ", "))
	}
	if len(r.Differences) > 0 {
		fmt.Fprintf(out, "\nwords that differ:\n")
	}
	for _, d := range r.Differences {
		fmt.Fprintf(out, "  %s\n", corpus.Escape(d.String()))
	}
	if r.Left > 0 {
		fmt.Fprintf(out, "  and %d more places\n", r.Left)
	}
	return err
}
