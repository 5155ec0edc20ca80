package main

import "github.com/neardup/neardup/index"

// The rule by which dedup takes two documents for near-duplicates, unless it is told
// otherwise; docs/quality.md has the figures that chose it.
const (
	defaultK       = 6
	defaultShingle = index.DefaultMaxShingleDistance
)

// importK is k for ready fingerprints, which come without a second one: the paper's.
const importK = 3

// shingleFlag asks for the largest distance of Shingles.
func (c *call) shingleFlag() *int {
	return c.flags.Int("shingle", defaultShingle, "largest `distance` of the second fingerprints, of six words in a row, of near-duplicates (-1: they are not compared)")
}

// maxShingleDistance is the flag's value as index.Options has it.
func maxShingleDistance(flag int) (int, error) {
	switch {
	case flag > 64:
		return 0, usagef("-shingle is %d, want 1 to 64, or -1 for none", flag)
	case flag == 0:
		return 0, usagef("-shingle is 0, want 1 to 64, or -1 for none")
	}
	return flag, nil
}
