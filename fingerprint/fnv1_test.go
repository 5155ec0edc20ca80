package fingerprint

import (
	"hash/fnv"
	"math/big"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// These come from an implementation in another language, over the bytes of the
// UTF-16 text; the first three are also in the tables that the authors of FNV publish.
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
		if got := fnv1Bytes([]byte(c.in)); got != c.want {
			t.Errorf("fnv1Bytes(%q) = %#x, want %#x", c.in, got, c.want)
		}
	}
}

func TestFNV1EqualsArithmetic(t *testing.T) {
	prime, two64 := big.NewInt(fnvPrime), new(big.Int).Lsh(big.NewInt(1), 64)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		want := new(big.Int).SetUint64(fnvOffset)
		for _, unit := range utf16.Encode([]rune(s)) {
			want.Mod(want.Mul(want, prime), two64)
			want.Xor(want, big.NewInt(int64(unit)))
		}
		if got := FNV1(s); got != want.Uint64() {
			t.Fatalf("FNV1(%q) = %x, want %x", s, got, want)
		}
		if isASCII(s) {
			h := fnv.New64()
			h.Write([]byte(s))
			if FNV1(s) != h.Sum64() {
				t.Fatalf("FNV1(%q) is not FNV-1 of its bytes", s)
			}
		}
	})
}

func isASCII(s string) bool {
	return len(s) == strings.Count(s, "")-1 && strings.ToValidUTF8(s, "") == s
}

// A tool of that kind adds 1 or -1 for each token that it finds and takes a sum
// of 0 as 1. The values come from the same implementation in another language.
func TestFNV1Simhash(t *testing.T) {
	for _, c := range []struct {
		tokens string
		want   Fingerprint
	}{
		{"the cat sat on the mat", 0xd89fc1186bf9bc7f},
		{"近 似 重 复 网 页 的 检 测 近 似", 0xaf63bd4c8601f88a},
		{"x", 0xaf63bd4c8601b7a7},
	} {
		var sum Accumulator
		for _, token := range strings.Fields(c.tokens) {
			sum.Add(FNV1(token), 1)
		}
		if got := sum.Fingerprint(); got != c.want {
			t.Errorf("%q: %v, want %v", c.tokens, got, c.want)
		}
		a := newAnalyzer(t, Options{Hash: HashFNV1, Weight: Count, ShortWords: -1})
		if got := a.Text(c.tokens).Fingerprint; got != c.want {
			t.Errorf("Analyzer, %q: %v, want %v", c.tokens, got, c.want)
		}
	}
}
