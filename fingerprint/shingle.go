package fingerprint

// The hash of a window of tokens with hashes h1 ... hk is
//
//	h1*p^(k-1) + h2*p^(k-2) + ... + hk, p = prime1, modulo 2^64.
//
// Its bits are as good as those of the tokens' hashes.
//
// shingleSize is the number of tokens in a window of Signature.Shingle.
const shingleSize = 4

// windows returns the hash of every window of k tokens, or one hash of all tokens if there are
// fewer. It derives each hash from the previous one (Karp and Rabin 1987), so its cost does not
// depend on k.
func windows(tokens []uint64, k int) (hashes []uint64) {
	leaving := uint64(1) // p^k
	for range k {
		leaving *= prime1
	}
	var sum uint64
	for i, h := range tokens {
		sum = sum*prime1 + h
		if i >= k {
			sum -= tokens[i-k] * leaving
		}
		if i >= k-1 || i == len(tokens)-1 {
			hashes = append(hashes, sum)
		}
	}
	return hashes
}

// sequenceHash returns a hash of a token sequence: the Fingerprint of a Short text.
func sequenceHash(tokens []uint64) Fingerprint {
	h := uint64(prime5)
	for _, t := range tokens {
		h ^= t
		h = (h<<27|h>>37)*prime1 + prime4
	}
	return Fingerprint(mix(h + uint64(len(tokens))))
}
