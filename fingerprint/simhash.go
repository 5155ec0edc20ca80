package fingerprint

import (
	"iter"

	"github.com/cespare/xxhash/v2"
)

// Simhash gives the simhash of features that the caller enumerates, each with
// its weight; the hash of a feature is xxhash64 of its bytes. The weights of a
// feature that comes more than once add up. For features that are hashed
// already use an [Accumulator].
func Simhash(features iter.Seq2[string, int]) Fingerprint {
	var a Accumulator
	for feature, weight := range features {
		a.Add(xxhash.Sum64String(feature), weight)
	}
	return a.Fingerprint()
}
