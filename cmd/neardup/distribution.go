package main

import (
	"context"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neardup/neardup/cmd/neardup/internal/figure"
	"github.com/neardup/neardup/index"
)

// distribution is figure 2 of the paper: how even the fingerprints of an index are.
// Tables of prefixes are as fast as they should be only if they are about even.
type distribution struct {
	Fingerprints int `json:"fingerprints"` // distinct ones
	// LeadingBits[i] is the number of fingerprints that differ from the one before, in
	// sorted order, in bit i (63 the highest) and in none above. For n even ones most
	// are about bit 64 - log2 n (figure 2a).
	LeadingBits [64]int `json:"leadingBits"`
	// Buckets are the fingerprints in each of 128 equal parts of the range (figure 2b).
	Buckets [128]int `json:"buckets"`
}

// distributionOf reads all fingerprints; they take 8 bytes of memory each.
func distributionOf(ctx context.Context, x *index.Index) (*distribution, error) {
	fps := make([]uint64, 0, x.Stats().Documents)
	for d, err := range x.Documents(ctx) {
		if err != nil {
			return nil, err
		}
		fps = append(fps, uint64(d.Fingerprint))
	}
	slices.Sort(fps)
	return newDistribution(slices.Compact(fps)), nil
}

// newDistribution counts distinct fingerprints in ascending order.
func newDistribution(fps []uint64) *distribution {
	d := &distribution{Fingerprints: len(fps)}
	for i, fp := range fps {
		d.Buckets[fp>>57]++
		if i > 0 {
			d.LeadingBits[bits.Len64(fp^fps[i-1])-1]++
		}
	}
	return d
}

// distributionPictures are the files to draw into.
type distributionPictures struct{ leading, buckets string }

func distributionFiles(path string) (p distributionPictures, err error) {
	if path == "" {
		return p, nil
	}
	extension := filepath.Ext(path)
	if info, err := os.Stat(path); extension == "" || err == nil && info.IsDir() {
		return distributionPictures{filepath.Join(path, "leading.svg"), filepath.Join(path, "buckets.svg")}, nil
	}
	if err := figure.Check(path); err != nil {
		return p, usagef("-plot: %v", err)
	}
	base := strings.TrimSuffix(path, extension)
	return distributionPictures{base + "-leading" + extension, base + "-buckets" + extension}, nil
}

func (d *distribution) draw(p distributionPictures) error {
	if err := os.MkdirAll(filepath.Dir(p.leading), 0o777); err != nil {
		return err
	}
	leading := figure.Axes{Title: "Neighbours in sorted order", X: "position of the leading 1-bit of their XOR", Y: "neighbours"}
	if err := figure.Bars(p.leading, leading, floats(d.LeadingBits[:])); err != nil {
		return err
	}
	buckets := figure.Axes{Title: "Fingerprints over 128 buckets", X: "bucket", Y: "fingerprints"}
	return figure.Bars(p.buckets, buckets, floats(d.Buckets[:]))
}

func floats(counts []int) []float64 {
	all := make([]float64, len(counts))
	for i, n := range counts {
		all[i] = float64(n)
	}
	return all
}
