package fingerprint

import (
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// Fingerprints are stored, so the short ways must be xxhash64 to the bit.
func TestShortHashes(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 100_000 {
		b := make([]byte, 16)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		m := rng.IntN(40)
		for len(b) < m {
			b = append(b, byte(rng.Uint32()))
		}
		if got, want := hashToken(b[:m]), xxhash.Sum64(b[:m]); got != want {
			t.Fatalf("seed %d: hashToken(%x) = %x, want %x", seed, b[:m], got, want)
		}
		if got, want := hash3(load(b, 0)), xxhash.Sum64(b[:3]); got != want {
			t.Fatalf("seed %d: hash3(%x) = %x, want %x", seed, b[:3], got, want)
		}
	}
}

func TestWordBytes(t *testing.T) {
	for c := range 256 {
		for place := range 8 {
			x := uint64(0x20ff417a39008061) // around it bytes of all kinds
			x = x&^(0xff<<(8*place)) | uint64(c)<<(8*place)
			word, lower := wordBytes(x)
			for i := range 8 {
				b := byte(x >> (8 * i))
				isWord := '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z' && b < 0x80
				if got := byte(word >> (8 * i)); got != 0 && got != 0x80 || (got == 0x80) != isWord {
					t.Fatalf("byte %d of %016x: mask %02x, want %v", i, x, got, isWord)
				}
				if 'A' <= b && b <= 'Z' {
					b += 'a' - 'A'
				}
				if isWord && byte(lower>>(8*i)) != b {
					t.Fatalf("byte %d of %016x: lower case %02x, want %02x", i, x, byte(lower>>(8*i)), b)
				}
			}
		}
	}
}
