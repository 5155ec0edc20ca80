package index

import (
	"math/bits"

	"github.com/neardup/neardup/fingerprint"
)

// DefaultMaxShingleDistance is Options.MaxShingleDistance where it is 0.
const DefaultMaxShingleDistance = 14

// rule says which pairs of fingerprints match: those within k bits whose Shingles,
// where both have one, are within limit bits; a negative limit asks nothing of them.
// Manku's fingerprint says how much two pages have in common; the Shingles, which see
// the order of words, tell pages that share a vocabulary from copies.
type rule struct {
	k, limit int
}

// rule of verdicts, and of queries that give a Shingle. It is no part of what is
// stored: an index may be asked with another one each time that it is opened.
func (x *Index) rule() rule {
	r := rule{x.plan.MaxDistance, x.opts.MaxShingleDistance}
	if r.limit == 0 {
		r.limit = DefaultMaxShingleDistance
	}
	return r
}

// shinglesMatch reports whether the Shingles of two documents let them match.
func (r rule) shinglesMatch(a, b fingerprint.Fingerprint) bool {
	return r.limit < 0 || a == 0 || b == 0 || a.Distance(b) <= r.limit
}

// matches reports whether two stored fingerprints and Shingles match.
func (r rule) matches(a, b print) bool {
	return bits.OnesCount64(a.stored^b.stored) <= r.k && r.shinglesMatch(a.shingle, b.shingle)
}

// print is what a rule asks of a document.
type print struct {
	stored  uint64
	shingle fingerprint.Fingerprint
}

func (d *Document) print() print { return print{d.stored(), d.Shingle} }
