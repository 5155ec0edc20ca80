package plan

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// drawPermutation draws a permutation of up to 64 ranges, and merges adjacent ranges.
func drawPermutation(t *rapid.T) Permutation {
	cuts := rapid.Uint64().Draw(t, "cuts") & rapid.Uint64().Draw(t, "fewer cuts")
	var blocks []Bits
	first := 0
	for bit := 1; bit <= 64; bit++ {
		if bit == 64 || cuts>>bit&1 != 0 {
			blocks = append(blocks, Bits{first, bit - 1})
			first = bit
		}
	}
	return bringForward(rapid.Permutation(blocks).Draw(t, "blocks")...)
}

// applyBitwise applies a permutation bit by bit.
func (p Permutation) applyBitwise(fp uint64) uint64 {
	out, at := uint64(0), 0
	for _, b := range p {
		for bit := b.First; bit <= b.Last; bit++ {
			out |= fp >> (63 - bit) & 1 << (63 - at)
			at++
		}
	}
	return out
}

func TestPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPermutation(t)
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		if err := p.check(); err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		if got, want := p.apply(a), p.applyBitwise(a); got != want {
			t.Fatalf("%v: apply(%016x) is %016x, want %016x", p, a, got, want)
		}
		if got := p.invert(p.apply(a)); got != a {
			t.Fatalf("%v: the inverse of apply(%016x) is %016x", p, a, got)
		}
		if got := p.apply(p.invert(a)); got != a {
			t.Fatalf("%v: apply of the inverse of %016x is %016x", p, a, got)
		}
		if got := bits.OnesCount64(p.apply(a) ^ p.apply(b)); got != bits.OnesCount64(a^b) {
			t.Fatalf("%v: distance %d becomes %d", p, bits.OnesCount64(a^b), got)
		}
		back, err := parsePermutation(p.String())
		if err != nil || back.String() != p.String() {
			t.Fatalf("%v reads back as %v: %v", p, back, err)
		}
		if p.identity() != (p.String() == "0-63") {
			t.Fatalf("%v: identity %v", p, p.identity())
		}
	})
}
