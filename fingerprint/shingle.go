package fingerprint

import "slices"

// The hash of a window of tokens with hashes h1 ... hk is
//
//	h1*p^(k-1) + h2*p^(k-2) + ... + hk, p = prime1, modulo 2^64.
//
// Its bits are as good as those of the tokens' hashes.
//
// shingleSize is the window of Signature.Shingle.
const shingleSize = 4

// windows gives the hash of every window of k tokens, or one hash of all tokens when there are
// fewer. It needs the sum of the window before only (Karp and Rabin 1987), so it costs the same
// for every k.
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

// shingle takes a text, in parts, at the places where four tokens stand that have not
// stood in a row before: they are one feature of its Shingle, and the first two
// of them, with pairs set, are a feature of the text. Each part but the first must
// begin with the shingleSize-1 last tokens of the part before.
func (sc *scratch) shingle(tokens []uint64, pairs bool) {
	if len(tokens) < shingleSize {
		return
	}
	rest := tokens[shingleSize-1:]
	fours, twos := withLength(&sc.windows, len(rest)), withLength(&sc.pairs, len(rest))
	sum1, sum2, third := tokens[0]*prime1+tokens[1], tokens[1]*prime1+tokens[2], tokens[2]
	for i, fourth := range rest {
		sum3 := third*prime1 + fourth
		fours[i], twos[i] = sum1*squared1+sum3, sum1
		sum1, sum2, third = sum2, sum3, fourth
	}
	counts := withLength(&sc.counts, len(rest))
	sc.shingles.count(counts, fours)
	n := 0
	for i, count := range counts {
		fours[n], twos[n] = fours[i], twos[i]
		if count == 1 {
			n++
		}
	}
	sc.shingleSum.addAll(fours[:n])
	if pairs {
		sc.textSum.addAll(twos[:n])
	}
}

// shingleShort adds the one window of a text that has less than four tokens.
func (sc *scratch) shingleShort(tokens []uint64) {
	if n := len(tokens); 0 < n && n < shingleSize {
		sc.shingleSum.Add(windows(tokens, shingleSize)[0], 1)
	}
}

// withLength gives n elements of a buffer, of any value.
func withLength[T any](buffer *[]T, n int) []T {
	*buffer = slices.Grow((*buffer)[:0], n)[:n]
	return *buffer
}

// sequenceHash is a strong hash of a token sequence: equal for equal sequences,
// unrelated for others.
func sequenceHash(tokens []uint64) uint64 {
	return mix(extendSequence(prime5+uint64(len(tokens)), tokens))
}

// extendSequence takes the state of such a hash past more tokens.
func extendSequence(h uint64, tokens []uint64) uint64 {
	for _, t := range tokens {
		h ^= t
		h = (h<<27|h>>37)*prime1 + prime4
	}
	return h
}
