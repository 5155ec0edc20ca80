package fingerprint

import "math"

// minHash makes 64 bits of a set of hashes, such that two sets of Jaccard similarity J differ
// in 32(1-J) bits on average. It is MinHash with one permutation (Li, Owen and Zhang 2012) and
// one bit (Li and König 2010): the upper six bits of a hash say in which bin it is, and of the
// least hash of each bin one bit is kept. A hash that comes again changes nothing.
//
// A small set leaves bins empty. Such a bin takes the least of another hash, its own, of what
// the others have, so that it differs as often as they do (densification: Shrivastava and Li 2014).
type minHash [64]uint64

// emptyBin is what no hash is less than.
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

// addTokens adds every token from number carried on to words, and every pair of consecutive tokens to
// shingles. The token before is the last one of the previous batch, or none.
func addTokens(words *minHash, shingles *shingleBins, tokens []uint64, carried int) {
	if carried == 0 && len(tokens) > 0 {
		words.add(tokens[0])
		carried = 1
	}
	for i := carried; i < len(tokens); i++ { // one loop for both: the processor overlaps them
		words.add(tokens[i])
		shingles.add(tokens[i-1]*prime1 + tokens[i])
	}
}

// others are odd numbers by which hashes are multiplied for another order of them, one for each bin.
var others = func() (odd [64]uint64) {
	for i := range odd {
		odd[i] = mix(uint64(i+1)*prime1) | 1
	}
	return odd
}()

// fingerprint gives the bits of what was added, which must be something.
func (m *minHash) fingerprint() (f Fingerprint) {
	var kept [len(m) + 1]uint64
	n := 0
	for _, least := range m {
		kept[n] = least
		if least != emptyBin { // no jump: which bins are empty cannot be predicted
			n++
		}
	}
	if n < len(m) {
		m.densify(kept[:n])
	}
	for _, least := range m {
		// Which hash is the least says much of its upper bits, and nothing of those of its mix.
		f = f>>1 | Fingerprint(mix(least))<<63
	}
	return f
}

// densify fills the empty bins from what the others have, two at a time: the multiplications
// of a single one would wait for each other's comparisons.
func (m *minHash) densify(kept []uint64) {
	var empty [len(m) + 1]uint8
	n := 0
	for i, least := range m {
		empty[n] = uint8(i)
		if least == emptyBin {
			n++
		}
	}
	empty[n] = empty[n-1] // twice, if need be
	for i := 0; i < n; i += 2 {
		first, second := empty[i]%uint8(len(m)), empty[i+1]%uint8(len(m))
		other1, other2 := others[first], others[second]
		least1, least2 := uint64(emptyBin), uint64(emptyBin)
		for _, h := range kept {
			least1 = min(least1, h*other1)
			least2 = min(least2, h*other2)
		}
		m[first], m[second] = least1, least2
	}
}
