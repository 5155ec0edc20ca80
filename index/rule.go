package index

import (
	"fmt"
	"math/bits"

	"github.com/neardup/neardup/fingerprint"
)

// Defaults of the Options that say what matches.
const (
	DefaultMaxShingleDistance = 16
	DefaultMaxLengthRatio     = 1.3
)

// rule says which pairs of documents match: those whose fingerprints are within k bits
// and, with those in which their Shingles differ, where both have one, within limit; and
// whose lengths, where both are known, are not too different. Manku's fingerprint says
// how much two pages have in common, the Shingles, which see the order of words, tell
// pages that share a vocabulary from copies, and neither sees repetition.
type rule struct {
	k     int
	limit int     // below 0: Shingles do not count
	ratio float64 // of the longer to the shorter; below 0: lengths do not count
}

// rule of verdicts, and of queries that give a Shingle or a length. It is no part of what
// is stored: an index may be asked with another one each time that it is opened.
func (x *Index) rule() rule { return x.opts.rule(x.plan.MaxDistance) }

func (o *Options) rule(k int) rule {
	return rule{k, DefaultMaxShingleDistance, DefaultMaxLengthRatio}.with(o.MaxShingleDistance, o.MaxLengthRatio)
}

// with is the rule under other limits, where they are not 0.
func (r rule) with(limit int, ratio float64) rule {
	if limit != 0 {
		r.limit = limit
	}
	if ratio != 0 {
		r.ratio = ratio
	}
	return r
}

// check refuses a ratio that lets no two lengths match, and no number. Error: ErrRatio.
func (r rule) check() error {
	if r.ratio < 0 || r.ratio >= 1 {
		return nil
	}
	return fmt.Errorf("%w: it is %v, want 1 or more, or below 0 for none", ErrRatio, r.ratio)
}

// details are what a rule asks of a document beside its fingerprint. What is 0 is not
// known, and nothing is asked of it.
type details struct {
	shingle fingerprint.Fingerprint
	length  int
}

func (d *Document) details() details { return details{d.Shingle, d.Tokens} }

// relevant are those that the rule looks at: two documents of one fingerprint for which
// they are equal match the same documents.
func (r rule) relevant(d details) details {
	if r.limit < 0 {
		d.shingle = 0
	}
	if r.ratio < 0 {
		d.length = 0
	}
	return d
}

// lets reports whether the details of two documents whose fingerprints are a distance of
// k or less apart let them match.
func (r rule) lets(distance int, a, b details) bool {
	if r.limit >= 0 && a.shingle != 0 && b.shingle != 0 && distance+a.shingle.Distance(b.shingle) > r.limit {
		return false
	}
	shorter, longer := min(a.length, b.length), max(a.length, b.length)
	return r.ratio < 0 || shorter == 0 || float64(longer) <= r.ratio*float64(shorter)
}

// matches reports whether two documents match.
func (r rule) matches(a, b print) bool {
	distance := bits.OnesCount64(a.stored ^ b.stored)
	return distance <= r.k && r.lets(distance, a.details, b.details)
}

// print is what a rule asks of a document.
type print struct {
	stored uint64
	details
}

func (d *Document) print() print { return print{d.stored(), d.details()} }
