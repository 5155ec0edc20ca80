package figure

import (
	"math/bits"
	"os"
	"path/filepath"
)

// Distribution is figure 2 of the paper. It shows how evenly the fingerprints of an index are
// distributed. Tables of prefixes are fast only if the distribution is nearly even.
type Distribution struct {
	Fingerprints int `json:"fingerprints"` // number of distinct fingerprints
	// LeadingBits[i] is the number of fingerprints that first differ from their predecessor, in
	// sorted order, in bit i (63 is the highest). For n evenly distributed fingerprints, most are
	// near bit 64 - log2 n (figure 2a).
	LeadingBits [64]int `json:"leadingBits"`
	// Buckets has the number of fingerprints in each of 128 equal parts of the range (figure 2b).
	Buckets [128]int `json:"buckets"`
}

// NewDistribution counts distinct fingerprints in ascending order.
func NewDistribution(fps []uint64) *Distribution {
	d := &Distribution{Fingerprints: len(fps)}
	for i, fp := range fps {
		d.Buckets[fp>>57]++
		if i > 0 {
			d.LeadingBits[bits.Len64(fp^fps[i-1])-1]++
		}
	}
	return d
}

// Draw draws the two parts of the figure into leading.svg and buckets.svg in a directory, which it
// creates if necessary.
func (d *Distribution) Draw(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	axes := Axes{Title: "Neighbours in sorted order",
		X: "position of the leading 1-bit of their XOR", Y: "neighbours"}
	if err := Bars(filepath.Join(dir, "leading.svg"), axes, d.LeadingBits[:]); err != nil {
		return err
	}
	axes = Axes{Title: "Fingerprints over 128 buckets", X: "bucket", Y: "fingerprints"}
	return Bars(filepath.Join(dir, "buckets.svg"), axes, d.Buckets[:])
}
