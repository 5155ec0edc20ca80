package figure

import (
	"math/bits"
	"os"
	"path/filepath"
)

// Distribution is figure 2 of the paper: how even the fingerprints of an index are.
// Tables of prefixes are as fast as they should be only if they are about even.
type Distribution struct {
	Fingerprints int `json:"fingerprints"` // distinct ones
	// LeadingBits[i] is the number of fingerprints that differ from the one before, in
	// sorted order, in bit i (63 the highest) and in none above. For n even ones most
	// are about bit 64 - log2 n (figure 2a).
	LeadingBits [64]int `json:"leadingBits"`
	// Buckets are the fingerprints in each of 128 equal parts of the range (figure 2b).
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

// Draw draws the two parts of the figure into leading.svg and buckets.svg in a folder.
func (d *Distribution) Draw(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	axes := Axes{Title: "Neighbours in sorted order", X: "position of the leading 1-bit of their XOR", Y: "neighbours"}
	if err := Bars(filepath.Join(folder, "leading.svg"), axes, d.LeadingBits[:]); err != nil {
		return err
	}
	axes = Axes{Title: "Fingerprints over 128 buckets", X: "bucket", Y: "fingerprints"}
	return Bars(filepath.Join(folder, "buckets.svg"), axes, d.Buckets[:])
}
