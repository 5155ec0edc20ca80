package fingerprint

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestShingleSignatureText(t *testing.T) {
	type document struct {
		S ShingleSignature `json:"shingles,omitzero"`
	}
	s := ShingleSignature{1, 0xabcdef, 1 << 63, math.MaxUint64}
	const text = "0000000000000001" + "0000000000abcdef" + "8000000000000000" + "ffffffffffffffff"
	if b, err := s.AppendText([]byte("x")); string(b) != "x"+text || err != nil || s.String() != text {
		t.Errorf("%s, %v, %v", b, err, s)
	}
	for _, d := range []document{{}, {s}} {
		b, err := json.Marshal(d)
		var got document
		if err != nil || json.Unmarshal(b, &got) != nil || got != d || d.S.IsZero() != (string(b) == "{}") {
			t.Errorf("%s, %v: %+v", b, err, got)
		}
	}
	var upper ShingleSignature
	if err := upper.UnmarshalText([]byte(strings.ToUpper(text))); err != nil || upper != s {
		t.Errorf("%v, %v", upper, err)
	}
	for _, in := range []string{"", "1", text[1:], text + "0", "x" + text[1:], "0x" + text[2:], strings.Repeat(text, 100)} {
		got := s
		if err := got.UnmarshalText([]byte(in)); !errors.Is(err, ErrSyntax) || got != s || len(err.Error()) > 200 {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

func TestShingleDistance(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for want := range 257 {
		a := ShingleSignature{rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64()}
		b := a
		for _, bit := range rng.Perm(256)[:want] {
			b[bit/64] ^= 1 << (bit % 64)
		}
		if got := a.Distance(b); got != want || b.Distance(a) != want {
			t.Fatalf("%v and %v: %d, want %d", a, b, got, want)
		}
	}
}
