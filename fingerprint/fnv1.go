package fingerprint

import "unicode/utf8"

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// FNV1 is the 64-bit FNV-1 hash (multiply, then xor) over the UTF-16 code units
// of s, each xored whole rather than byte by byte, and a character above U+FFFF
// as its two surrogates. It is the hash of the simhash code for Java that copies
// String.charAt into FNV-1, so it serves to match fingerprints made with it. For
// ASCII it equals the usual FNV-1. A byte that is not valid UTF-8 counts as
// U+FFFD.
func FNV1(s string) uint64 {
	h := uint64(fnvOffset)
	for _, r := range s {
		h = fnv1Rune(h, r)
	}
	return h
}

func fnv1Bytes(b []byte) uint64 {
	h := uint64(fnvOffset)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		h = fnv1Rune(h, r)
		b = b[n:]
	}
	return h
}

func fnv1Rune(h uint64, r rune) uint64 {
	if r > 0xffff {
		r -= 0x10000
		h = h*fnvPrime ^ uint64(0xd800+r>>10)
		r = 0xdc00 + r&0x3ff
	}
	return h*fnvPrime ^ uint64(r)
}
