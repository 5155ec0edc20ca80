package fingerprint

import "math"

// minHash computes 64 bits from a set of hashes. The bits of two sets with Jaccard similarity J
// differ in 32(1-J) places on average. It is MinHash with one permutation (Li, Owen and Zhang
// 2012) and one bit per bin (Li and König 2010). The upper six bits of a hash select its bin, and
// each bin keeps one bit of its smallest hash. A repeated hash changes nothing.
//
// A small set leaves bins empty. An empty bin takes the hash of another bin: the smallest of the
// kept hashes by a hash function of the empty bin. Therefore its bit differs as often as the bits
// of the other bins (densification: Shrivastava and Li 2014).
type minHash [64]uint64

// emptyBin is the largest hash.
const emptyBin = math.MaxUint64

func (m *minHash) reset() {
	for i := range m {
		m[i] = emptyBin
	}
}

func (m *minHash) add(hash uint64) {
	bin := &m[hash>>58]
	*bin = min(*bin, hash)
}

// addTokens adds the tokens from index carried on to words, and all pairs of consecutive tokens
// to shingles. A carried token is the last one of the previous batch.
func addTokens(words *minHash, shingles *shingleBins, tokens []uint64, carried int) {
	if carried == 0 && len(tokens) > 0 {
		words.add(tokens[0])
		carried = 1
	}
	for i := carried; i < len(tokens); i++ { // in one loop, so that the processor overlaps them
		words.add(tokens[i])
		shingles.add(tokens[i-1]*prime1 + tokens[i])
	}
}

// multipliers has an odd number per bin. Multiplication by it changes the order of hashes.
var multipliers = func() (odd [64]uint64) {
	for i := range odd {
		odd[i] = mix(uint64(i+1)*prime1) | 1
	}
	return odd
}()

// fingerprint returns the bits of the added hashes. At least one hash must have been added.
func (m *minHash) fingerprint() (f Fingerprint) {
	var kept [len(m) + 1]uint64
	n := 0
	for _, least := range m {
		kept[n] = least
		if least != emptyBin { // compiles without a branch, since empty bins cannot be predicted
			n++
		}
	}
	if n < len(m) {
		m.densify(kept[:n])
	}
	for _, least := range m {
		// The smallest hash has many zeros in its upper bits. Its mix does not.
		f = f>>1 | Fingerprint(mix(least))<<63
	}
	return f
}

// densify fills the empty bins from the kept hashes. It fills two at a time, so that the
// processor overlaps the multiplications of one with the comparisons of the other.
func (m *minHash) densify(kept []uint64) {
	var empty [len(m) + 1]uint8
	n := 0
	for i, least := range m {
		empty[n] = uint8(i)
		if least == emptyBin {
			n++
		}
	}
	empty[n] = empty[n-1] // if n is odd, the last bin is filled twice
	for i := 0; i < n; i += 2 {
		first, second := empty[i]%uint8(len(m)), empty[i+1]%uint8(len(m))
		multiplier1, multiplier2 := multipliers[first], multipliers[second]
		least1, least2 := uint64(emptyBin), uint64(emptyBin)
		for _, h := range kept {
			least1 = min(least1, h*multiplier1)
			least2 = min(least2, h*multiplier2)
		}
		m[first], m[second] = least1, least2
	}
}
