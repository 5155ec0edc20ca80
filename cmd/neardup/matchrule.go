package main

import (
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// defaultK is k where documents are texts; docs/quality.md has the figures that chose it.
const defaultK = 6

// importK is k for ready fingerprints, which come without a second one: the paper's.
const importK = 3

// matchFlags are what the match rule asks of two documents beside k.
type matchFlags struct {
	shingle int
	ratio   float64
}

func (c *call) matchFlags() *matchFlags {
	f := new(matchFlags)
	c.flags.IntVar(&f.shingle, "max-shingle-distance", index.DefaultMaxShingleDistance, "largest `distance` of near-duplicates, that of the second fingerprints, of words in a row, added to that of the first (-1: the second ones are not compared)")
	c.flags.Float64Var(&f.ratio, "max-length-ratio", index.DefaultMaxLengthRatio, "how many `times` as long as the other one of two near-duplicates may be (-1: lengths are not compared)")
	return f
}

func (f *matchFlags) check() error {
	switch {
	case f.shingle > 64+maxK:
		return usagef("-max-shingle-distance is %d, want 1 to %d, or -1 for none", f.shingle, 64+maxK)
	case f.shingle == 0:
		return usagef("-max-shingle-distance is 0, want 1 to %d, or -1 for none", 64+maxK)
	case !(f.ratio >= 1) && f.ratio != -1:
		return usagef("-max-length-ratio is %v, want 1 or more, or -1 for none", f.ratio)
	}
	return nil
}

// maxK is the largest distance of two fingerprints.
const maxK = 64

// setOptions makes the rule that of an index.
func (f *matchFlags) setOptions(o *index.Options) {
	o.MaxShingleDistance, o.MaxLengthRatio = f.shingle, f.ratio
}

// queries asks for what matches each of the documents.
func (f *matchFlags) queries(docs []index.Document) ([]fingerprint.Fingerprint, []index.QueryOption) {
	fps, shingles := make([]fingerprint.Fingerprint, len(docs)), make([]fingerprint.Fingerprint, len(docs))
	lengths := make([]int, len(docs))
	for i := range docs {
		fps[i], shingles[i], lengths[i] = docs[i].Fingerprint, docs[i].Shingle, docs[i].Length
	}
	return fps, []index.QueryOption{
		index.Shingles(shingles), index.MaxShingleDistance(f.shingle),
		index.Lengths(lengths), index.MaxLengthRatio(f.ratio),
	}
}
