package fingerprint

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveHash is the definition of hashToken. It hashes blocks of 16 bytes, with zeros after the
// last. It xors each half of a block with a constant, multiplies them to 128 bits, folds the
// product into 64 bits, and mixes it. The hash of a block is xored into the first half of the
// next block.
func naiveHash(token []byte) (h uint64) {
	for at := 0; at == 0 || at < len(token); at += 16 {
		var block [16]byte
		copy(block[:], token[at:])
		high, low := bits.Mul64(
			binary.LittleEndian.Uint64(block[:])^h^11400714785074694791,
			binary.LittleEndian.Uint64(block[8:])^(14029467366897019727+uint64(len(token))))
		h = high ^ low
		h ^= h >> 32
		h *= 1609587929392839161
		h ^= h >> 29
	}
	return h
}

// TestHashToken tests that hashes do not change, since fingerprints are stored.
func TestHashToken(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		b := make([]byte, rng.IntN(70))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if got, want := padded(b), naiveHash(b); got != want {
			t.Fatalf("seed %d: padded(%x) = %x, want %x", seed, b, got, want)
		}
	}
	for token, want := range map[string]uint64{"": 0xb560e0edae8170ea, "a": 0x11997a49c88703dd,
		"the": 0x795c5a4272628629, "неприкосновенность": 0xcfc507682341fb27} {
		if got := padded([]byte(token)); got != want {
			t.Errorf("padded(%q) = %#x, want %#x", token, got, want)
		}
	}
}

// padded calls hashToken with arbitrary bytes after the token.
func padded(token []byte) uint64 {
	return hashToken(append(slices.Clone(token), "0123456789abcdef"...), len(token))
}

// The values come from an implementation in another language, over the bytes of the UTF-16 text.
// The authors of FNV publish the first three.
func TestFNV1KnownAnswers(t *testing.T) {
	for in, want := range map[string]uint64{
		"": 0xcbf29ce484222325, "a": 0xaf63bd4c8601b7be, "foobar": 0x340d8765a4dda9c2,
		"中华人民共和国": 0xa8f5ee6640b3f1ed, "straße": 0x990c2bde0a01930b,
		"𝒜b😀": 0x96784db9ca47e83,
	} {
		if got := FNV1(in); got != want {
			t.Errorf("FNV1(%q) = %#x, want %#x", in, got, want)
		}
	}
}
