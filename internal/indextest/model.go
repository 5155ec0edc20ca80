package indextest

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// Rule says which documents match, and what becomes of duplicates. Its fields are those
// of index.Options, with the defaults filled in.
type Rule struct {
	MaxDistance        int
	MaxShingleDistance int     // below 0: Shingles are not compared
	MaxLengthRatio     float64 // below 0: lengths are not compared
	KeepDuplicates     bool
}

// RuleOf returns the rule of an index with these options and this MaxDistance.
func RuleOf(o index.Options, maxDistance int) Rule {
	r := Rule{maxDistance, o.MaxShingleDistance, o.MaxLengthRatio, o.KeepDuplicates}
	if r.MaxShingleDistance == 0 {
		r.MaxShingleDistance = index.DefaultMaxShingleDistance
	}
	if r.MaxLengthRatio == 0 {
		r.MaxLengthRatio = index.DefaultMaxLengthRatio
	}
	return r
}

// Match returns the distance of two documents, and whether they match.
func (r Rule) Match(a, b *index.Document) (distance int, matches bool) {
	distance = a.Fingerprint.Distance(b.Fingerprint)
	if distance > r.MaxDistance || a.Scope != b.Scope {
		return distance, false
	}
	if r.MaxShingleDistance >= 0 && a.Shingle != 0 && b.Shingle != 0 && distance+a.Shingle.Distance(b.Shingle) > r.MaxShingleDistance {
		return distance, false
	}
	shorter, longer := float64(min(a.Tokens, b.Tokens)), float64(max(a.Tokens, b.Tokens))
	return distance, r.MaxLengthRatio < 0 || shorter == 0 || longer <= r.MaxLengthRatio*shorter
}

// Documents are the documents of an index, by ID. They are never changed in place.
type Documents []index.Document

// Key returns the document that has a key.
func (docs Documents) Key(key string) (index.Document, bool) {
	i := slices.IndexFunc(docs, func(d index.Document) bool { return key != "" && d.Key == key })
	if i < 0 {
		return index.Document{}, false
	}
	return docs[i], true
}

// Without returns the documents but for some.
func (docs Documents) Without(gone func(*index.Document) bool) Documents {
	if !slices.ContainsFunc(docs, func(d index.Document) bool { return gone(&d) }) {
		return docs
	}
	return slices.DeleteFunc(slices.Clone(docs), func(d index.Document) bool { return gone(&d) })
}

// WithoutKey returns the documents but for the one that has a key.
func (docs Documents) WithoutKey(key string) Documents {
	return docs.Without(func(d *index.Document) bool { return key != "" && d.Key == key })
}

// With returns the documents and one more, in the place of the one that has its key.
func (docs Documents) With(d index.Document) Documents {
	return append(slices.Clip(docs.WithoutKey(d.Key)), d)
}

// Since returns those that were added at a time or later.
func (docs Documents) Since(t time.Time) Documents {
	return docs.Without(func(d *index.Document) bool { return d.Added.Before(t) })
}

// Near returns the documents that match one, by (distance, ID), at most limit unless that is 0.
func (docs Documents) Near(r Rule, like *index.Document, limit int) []index.Match {
	var matches []index.Match
	for i := range docs {
		if distance, matching := r.Match(like, &docs[i]); matching {
			matches = append(matches, index.Match{Document: docs[i], Distance: distance})
		}
	}
	slices.SortStableFunc(matches, func(a, b index.Match) int { return cmp.Compare(a.Distance, b.Distance) })
	if limit > 0 {
		matches = matches[:min(limit, len(matches))]
	}
	return matches
}

// CheckAndAdd returns what the call of this name has to answer, and the documents after
// it. A document that is stored gets the ID and the time.
func (docs Documents) CheckAndAdd(r Rule, d index.Document, id uint64, added time.Time) (index.Verdict, Documents) {
	others := docs.WithoutKey(d.Key)
	v := index.Verdict{Document: d}
	if len(others) < len(docs) {
		v.Status = index.Known
	}
	if matches := others.Near(r, &d, 1); len(matches) > 0 {
		v.Status, v.Of = index.Duplicate, matches[0]
	}
	v.Document.ID, v.Document.Added = 0, time.Time{}
	if v.Status != index.Duplicate || r.KeepDuplicates {
		v.Document.ID, v.Document.Added = id, added
		others = others.With(v.Document)
	}
	return v, others
}

// CollidingKeys returns two different keys of one xxhash64, another pair for each n. Of
// the 64 bytes of input, each lane of the hash takes v = rotl(v + word*prime2, 31) *
// prime1 twice; what differs in the first word is made up for by the second one of its lane.
func CollidingKeys(n uint64) [2]string {
	const prime1, prime2 = 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f
	inverse := uint64(prime2) // of prime2, by Newton's iteration
	for range 6 {
		inverse *= 2 - prime2*inverse
	}
	lane := func(word uint64) uint64 {
		start := uint64(prime1)
		start += prime2
		return bits.RotateLeft64(start+word*prime2, 31) * prime1
	}
	var a, b [64]byte
	binary.LittleEndian.PutUint64(a[8:], n)
	binary.LittleEndian.PutUint64(b[8:], n)
	binary.LittleEndian.PutUint64(b[:], 1)
	binary.LittleEndian.PutUint64(b[32:], (lane(0)-lane(1))*inverse)
	return [2]string{string(a[:]), string(b[:])}
}

// flipped returns a fingerprint with n random bits turned over.
func flipped(intN func(int) int, fp fingerprint.Fingerprint, n int) fingerprint.Fingerprint {
	for _, bit := range draw(intN, 64, n) {
		fp ^= 1 << bit
	}
	return fp
}

// draw returns n different numbers below most.
func draw(intN func(int) int, most, n int) []int {
	var drawn []int
	for len(drawn) < n {
		if i := intN(most); !slices.Contains(drawn, i) {
			drawn = append(drawn, i)
		}
	}
	return drawn
}
