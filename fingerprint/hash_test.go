package fingerprint

import (
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveHash is the definition of hashToken. It hashes blocks of 16 bytes, with zeros after the
// last. It xors each half of a block with a constant, multiplies them to 128 bits, folds the
// product into 64 bits, and mixes it. The hash of a block is xored into the first half of the
// next block.
func naiveHash(token []byte) (h uint64) {
	size := len(token)
	for first := true; first || len(token) > 0; first = false {
		var block [16]byte
		token = token[copy(block[:], token):]
		a := new(big.Int).SetUint64(binary.LittleEndian.Uint64(block[:]) ^ h ^ 11400714785074694791)
		b := new(big.Int).SetUint64(binary.LittleEndian.Uint64(block[8:]) ^ (14029467366897019727 + uint64(size)))
		product := a.Mul(a, b).FillBytes(make([]byte, 16))
		h = binary.BigEndian.Uint64(product) ^ binary.BigEndian.Uint64(product[8:])
		h ^= h >> 32
		h *= 1609587929392839161
		h ^= h >> 29
	}
	return h
}

// TestHashToken tests that hashes never change, since fingerprints are stored.
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

func TestWordAtStart(t *testing.T) {
	for c := range 256 {
		for place := range 8 {
			x := uint64('a') * everyByte
			x = x&^(0xff<<(8*place)) | uint64(c)<<(8*place)
			b := byte(c)
			wantWord, wantStop := uint64('a')*everyByte, uint64(0)
			switch {
			case 'A' <= b && b <= 'Z':
				wantWord = x | 0x20<<(8*place)
			case '0' <= b && b <= '9' || 'a' <= b && b <= 'z':
				wantWord = x
			default:
				wantWord, wantStop = wantWord&(1<<(8*place)-1), 0x80<<(8*place)
			}
			if word, stop := wordAtStart(x); word != wantWord || stop != wantStop {
				t.Fatalf("%016x: word %016x to %016x, want %016x to %016x", x, word, stop,
					wantWord, wantStop)
			}
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
	for _, c := range []struct {
		in   string
		want uint64
	}{
		{"", 0xcbf29ce484222325},
		{"a", 0xaf63bd4c8601b7be},
		{"foobar", 0x340d8765a4dda9c2},
		{"hello", 0x7b495389bdbdd4c7},
		{"你好", 0x8736807b559f5f0},
		{"中华人民共和国", 0xa8f5ee6640b3f1ed},
		{"straße", 0x990c2bde0a01930b},
		{"𝒜b😀", 0x96784db9ca47e83},
		{"Ω≈ç√", 0x5e324e6e8cdc99a1},
	} {
		if got := FNV1(c.in); got != c.want {
			t.Errorf("FNV1(%q) = %#x, want %#x", c.in, got, c.want)
		}
	}
}
