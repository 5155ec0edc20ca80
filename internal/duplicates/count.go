// Package duplicates counts the duplicates of stored documents. It also finds crowded documents, of
// which many different texts of their own site are duplicates.
package duplicates

import (
	"math"
	"math/bits"
)

// Texts is a set of digests. It has one of 64 bits for each digest, for linear counting (Whang,
// Vander-Zanden and Taylor 1990).
type Texts uint64

// TextOf returns the set of one digest.
func TextOf(digest uint64) Texts { return 1 << (digest % 64) }

// AtLeast returns a lower bound of the number of digests in the set.
func (t Texts) AtLeast() int { return bits.OnesCount64(uint64(t)) }

// Estimate returns the estimated number of digests in the set. It is exact up to about 6 digests
// and does not exceed 266.
func (t Texts) Estimate() int {
	return int(math.Round(64 * math.Log(64/max(float64(64-t.AtLeast()), 1))))
}

// Count has the numbers of duplicates of a stored document.
type Count struct {
	Checks uint64 // number of checks of pages that were duplicates of the document
	Texts  Texts  // of these pages, if they are on the document's site and have another text
}

// Add returns the sum of two counts.
func (c Count) Add(other Count) Count {
	return Count{c.Checks + other.Checks, c.Texts | other.Texts}
}
