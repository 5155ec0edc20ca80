package fingerprint

import "slices"

// The hash of a window of tokens with hashes h1 ... hk is
//
//	mix(h1*p^(k-1) + h2*p^(k-2) + ... + hk), p = prime1, modulo 2^64.
//
// shingleSize is the window of Signature.Shingle.
const shingleSize = 3

// windows appends the hash of every window of k tokens to dst, or one hash of
// all tokens when there are fewer. It needs the sum of the window before only
// (Karp and Rabin 1987), so it costs the same for every k.
func windows(dst, tokens []uint64, k int) []uint64 {
	if len(tokens) == 0 {
		return dst
	}
	if k == 3 && len(tokens) >= 3 { // Signature.Shingle always, so worth a loop of its own
		dst = slices.Grow(dst, len(tokens)-2)
		out := dst[len(dst) : len(dst)+len(tokens)-2]
		first, second := tokens[0], tokens[1]
		for i, third := range tokens[2:] {
			out[i] = mix((first*prime1+second)*prime1 + third)
			first, second = second, third
		}
		return dst[:len(dst)+len(out)]
	}
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
		if i >= k-1 {
			dst = append(dst, mix(sum))
		}
	}
	if len(tokens) < k {
		dst = append(dst, mix(sum))
	}
	return dst
}

// sequenceHash is a strong hash of a token sequence: equal for equal sequences,
// unrelated for others.
func sequenceHash(tokens []uint64) uint64 {
	h := uint64(prime5) + uint64(len(tokens))
	for _, t := range tokens {
		h ^= t
		h = (h<<27|h>>37)*prime1 + prime4
	}
	return mix(h)
}
