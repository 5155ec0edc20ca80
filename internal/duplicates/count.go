// Package duplicates counts the duplicates of stored documents. It also finds crowded documents:
// many different texts of their own site are duplicates of them.
package duplicates

import (
	"math"
	"math/bits"
)

// Texts is a set of digests, as one of 64 bits for each: linear counting (Whang, Vander-Zanden and
// Taylor 1990).
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

// Count says how many duplicates a stored document has.
type Count struct {
	Checks uint64 // how often a checked page was a duplicate of the document
	Texts  Texts  // of those pages on the site of the document whose text is not the document's
}

// Add returns the sum of two counts.
func (c Count) Add(other Count) Count {
	return Count{c.Checks + other.Checks, c.Texts | other.Texts}
}
