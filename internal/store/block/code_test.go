package block

import (
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestHuffmanCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h BitHistogram
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		skew := rapid.IntRange(1, 64).Draw(t, "skew")
		for i := range h {
			h[i] = random.Uint64() >> min(63, random.IntN(skew))
			if random.IntN(4) == 0 {
				h[i] = 0
			}
		}
		code := NewHuffmanCode(&h)
		marshalled, err := code.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := ParseHuffmanCode(marshalled)
		if err != nil {
			t.Fatal(err)
		}
		if *parsed != *code {
			t.Fatal("the code is another one after it was parsed")
		}
		for position, length := range code.lengths {
			for other := range code.decode {
				mine := other&(1<<length-1) == int(code.codewords[position])
				if got := int(code.decode[other]>>4) == position; got != mine {
					t.Fatalf("bits %012b: decoded as %d: %v", other, position, got)
				}
			}
		}
	})
}

// Where no codeword would be longer than 12 bits, the total is Huffman's.
func TestHuffmanCodeIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h BitHistogram
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for i := range h {
			h[i] = 1 + random.Uint64N(30)
		}
		code := NewHuffmanCode(&h)
		total := uint64(0)
		for position, n := range h {
			total += n * uint64(code.lengths[position])
		}
		if naive := naiveHuffman(h[:]); total != naive {
			t.Fatalf("%d bits, want %d", total, naive)
		}
	})
}

func naiveHuffman(histogram []uint64) (bits uint64) {
	weights := append([]uint64(nil), histogram...)
	takeLeast := func() uint64 {
		least := 0
		for i, w := range weights {
			if w < weights[least] {
				least = i
			}
		}
		w := weights[least]
		weights[least] = weights[len(weights)-1]
		weights = weights[:len(weights)-1]
		return w
	}
	for len(weights) > 1 {
		node := takeLeast() + takeLeast()
		bits += node
		weights = append(weights, node)
	}
	return bits
}

func TestParseHuffmanCodeRefuses(t *testing.T) {
	good, err := codeOf([]uint64{1, 2}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(code []byte) []byte{
		"short":            func(code []byte) []byte { return code[:31] },
		"long":             func(code []byte) []byte { return append(code, 0) },
		"length 0":         func(code []byte) []byte { code[3] &= 0xf0; return code },
		"length 13":        func(code []byte) []byte { code[3] = code[3]&0xf0 | 13; return code },
		"too much of it":   func(code []byte) []byte { code[0]--; return code },
		"too little of it": func(code []byte) []byte { code[0]++; return code },
	} {
		if _, err := ParseHuffmanCode(change(append([]byte(nil), good...))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
