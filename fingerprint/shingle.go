package fingerprint

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
)

// ShingleSignature is a 256-bit MinHash of the shingles of a text: its pairs of consecutive tokens.
// If two texts have a Jaccard similarity J of their sets of shingles, their signatures differ in
// 128(1-J) bits on average. The zero value means that there is no signature. In JSON it is a string
// of 64 hex digits.
type ShingleSignature [4]uint64

// Distance returns the Hamming distance: the number of bits, 0 to 256, in which s and t differ.
func (s ShingleSignature) Distance(t ShingleSignature) int {
	return bits.OnesCount64(s[0]^t[0]) + bits.OnesCount64(s[1]^t[1]) +
		bits.OnesCount64(s[2]^t[2]) + bits.OnesCount64(s[3]^t[3])
}

// IsZero reports whether there is no signature.
func (s ShingleSignature) IsZero() bool { return s == ShingleSignature{} }

// String returns 64 lower-case hex digits: 16 of each word, beginning with the first word.
func (s ShingleSignature) String() string {
	return string(s.appendHex(make([]byte, 0, 64)))
}

func (s ShingleSignature) appendHex(b []byte) []byte {
	var whole [32]byte
	for i, word := range s {
		binary.BigEndian.PutUint64(whole[8*i:], word)
	}
	return hex.AppendEncode(b, whole[:])
}

// AppendText appends the result of String to b. The error is always nil.
func (s ShingleSignature) AppendText(b []byte) ([]byte, error) { return s.appendHex(b), nil }

// MarshalText returns the bytes of String. The error is always nil.
func (s ShingleSignature) MarshalText() ([]byte, error) {
	return s.appendHex(make([]byte, 0, 64)), nil
}

// UnmarshalText reads 64 hex digits of either case. The error wraps [ErrSyntax].
func (s *ShingleSignature) UnmarshalText(text []byte) error {
	var whole [32]byte
	if len(text) == hex.EncodedLen(len(whole)) {
		if _, err := hex.Decode(whole[:], text); err == nil {
			for i := range s {
				s[i] = binary.BigEndian.Uint64(whole[8*i:])
			}
			return nil
		}
	}
	return fmt.Errorf("%w: %s; want the 64 hex digits of a shingle signature", ErrSyntax,
		quote(string(text)))
}

// shingleBins are the bins of the MinHash of shingles: one permutation (Li, Owen and Zhang 2012),
// one bit per bin (Li and König 2010). The upper eight bits of a hash select its bin, and a bin
// keeps the smallest of its hashes, which determines bit i%64 of word i/64 for bin i.
type shingleBins [256]uint64

func (b *shingleBins) reset() {
	for i := range b {
		b[i] = emptyBin
	}
}

func (b *shingleBins) add(hash uint64) {
	bin := &b[hash>>56]
	*bin = min(*bin, hash)
}

// signature returns the bits of the hashes that were added.
//
// An empty bin takes a bit of another bin's hash (rotation densification: Shrivastava and Li 2014).
// In round t, each bin that is still empty reads the bin at the distance t(t+1)/2 modulo 256. These
// distances reach every bin within 255 rounds. With the distances 1, 2, 3, ..., all empty bins of a
// gap would read the same bin. Copies of a bit add no information, so a hash has another bit in
// each round: the XOR of a subset of eight of its bits. The subsets follow a Gray code.
func (b *shingleBins) signature() (s ShingleSignature) {
	var full ShingleSignature     // one bit per bin, set if the bin is not empty
	var hashed [len(b) / 8]uint64 // one byte per bin
	for i, least := range b {
		h := mix(least) // the smallest of many hashes has many leading zeros, but its mix has not
		s[i/64] = s[i/64]>>1 | h<<63
		hashed[i/8] = hashed[i/8]>>8 | h>>56<<56
		x := ^least // not 0 unless the bin is empty
		full[i/64] = full[i/64]>>1 | (x|-x)>>63<<63
	}
	for w := range s {
		s[w] &= full[w]
	}
	round, filled := s, full
	var planes [8]ShingleSignature
	for t, distance := 1, 0; t < len(b) &&
		filled[0]&filled[1]&filled[2]&filled[3] != ^uint64(0); t++ {
		distance += t
		k := bits.TrailingZeros(uint(t))
		if t == 1<<k {
			planes[k] = plane(&hashed, k)
		}
		for w := range round {
			round[w] ^= planes[k][w] & full[w]
		}
		for w := range s {
			from := (w + distance/64) % 4
			s[w] |= bits.RotateLeft64(round[from], distance%64) &^ filled[w]
			filled[w] |= bits.RotateLeft64(full[from], distance%64)
		}
	}
	return s
}

// plane returns bit k of each byte.
func plane(hashed *[32]uint64, k int) (p ShingleSignature) {
	for i, eight := range hashed {
		// The factor moves the lowest bit of byte j to bit 56+j.
		p[i/8] = p[i/8]>>8 | eight>>k&0x0101010101010101*0x0102040810204080>>56<<56
	}
	return p
}

// The hash of a window of tokens with hashes h1 ... hk is
//
//	h1*p^(k-1) + h2*p^(k-2) + ... + hk, p = prime1, modulo 2^64.
//
// Its bits are mixed no worse than the bits of the hashes of the tokens.

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
