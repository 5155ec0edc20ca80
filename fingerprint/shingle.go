package fingerprint

import "slices"

// The hash of a window of tokens with hashes h1 ... hk is
//
//	mix(h1*p^(k-1) + h2*p^(k-2) + ... + hk), p = prime1, modulo 2^64.
//
// shingleSize is the window of Signature.Shingle, runSize the one that says where it
// and the runs among the features are taken.
const (
	shingleSize = 6
	runSize     = 3
)

// windows appends the hash of every window of k tokens to dst, or one hash of
// all tokens when there are fewer. It needs the sum of the window before only
// (Karp and Rabin 1987), so it costs the same for every k.
func windows(dst, tokens []uint64, k int) []uint64 {
	if len(tokens) == 0 {
		return dst
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

// runs takes a text, in parts, at the places where three tokens stand that have not
// stood in a row before: the first two and all three of them are features of the
// text, and the six tokens from there on are one of its Shingle. Each part but the
// first must begin with the shingleSize-1 last tokens of the part before.
//
// Only the places of new runs are looked at because a table for each size would cost
// as much again as the rest; new pairs and new sixes come with new threes as a rule,
// and docs/quality.md has the figures with a table for each.
func (sc *scratch) runs(tokens []uint64, first, last, features bool) {
	if first && last && len(tokens) < shingleSize && len(tokens) > 0 {
		sc.shingle.Add(windows(sc.windows[:0], tokens, shingleSize)[0], 1)
	}
	whole := len(tokens) - shingleSize + 1 // places with six tokens
	places := whole
	if last {
		places = len(tokens) - runSize + 1
	}
	if places <= 0 {
		return
	}
	sc.windows = slices.Grow(sc.windows[:0], places)[:places]
	sc.sums = slices.Grow(sc.sums[:0], len(tokens)-runSize+1)[:len(tokens)-runSize+1]
	sums, threes := sc.sums, sc.windows
	one, two := tokens[0], tokens[1]
	for i, three := range tokens[2:] {
		sums[i] = (one*prime1+two)*prime1 + three
		one, two = two, three
	}
	for i, sum := range sums[:places] {
		threes[i] = mix(sum)
	}
	sc.places = sc.shingles.addNew(sc.places[:0], threes)
	if features {
		sc.addRuns(tokens)
	}
	sc.addShingles(max(whole, 0))
}

// addRuns adds the first two and the three tokens at each place of a new run.
func (sc *scratch) addRuns(tokens []uint64) {
	sc.chosen = slices.Grow(sc.chosen[:0], 2*len(sc.places))[:2*len(sc.places)]
	out := sc.chosen
	for n, i := range sc.places {
		out[2*n] = mix(tokens[i]*prime1 + tokens[i+1])
		out[2*n+1] = sc.windows[i]
	}
	sc.text.addAll(out)
}

// addShingles adds the six tokens at each of the places below whole.
func (sc *scratch) addShingles(whole int) {
	places := sc.places
	for len(places) > 0 && int(places[len(places)-1]) >= whole {
		places = places[:len(places)-1]
	}
	sc.chosen = slices.Grow(sc.chosen[:0], len(places))[:len(places)]
	out := sc.chosen
	sums := sc.sums
	for n, i := range places {
		out[n] = mix(sums[i]*cubed1 + sums[i+runSize]) // the sum of six, from two sums of three
	}
	sc.shingle.addAll(out)
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
