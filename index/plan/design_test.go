package plan

import (
	"errors"
	"math/bits"
	"testing"
)

func TestSplit(t *testing.T) {
	for m := 1; m <= 64; m++ {
		seen, before := uint64(0), 64
		for _, block := range split([]Bits{{10, 63}, {0, 9}}, m) {
			size := 0
			for _, b := range block {
				if seen&b.mask() != 0 {
					t.Fatalf("%d blocks: bits %v twice", m, b)
				}
				seen |= b.mask()
				size += b.len()
			}
			if size > before || size < 64/m || size > (64+m-1)/m {
				t.Errorf("%d blocks: one of %d bits after one of %d", m, size, before)
			}
			before = size
		}
		if bits.OnesCount64(seen) != 64 {
			t.Errorf("%d blocks: only bits %016x", m, seen)
		}
	}
}

// TestDesignNames: no two names of Designs stand for one plan, a number stands for one of
// them, and other names are refused.
func TestDesignNames(t *testing.T) {
	for k := range MaxDistance + 1 {
		plans := map[string]string{}
		for _, d := range Designs(k) {
			p := tablesFor(t, d, k).String()
			if other, twice := plans[p]; twice {
				t.Errorf("k = %d: %s and %s are the same", k, d, other)
			}
			plans[p] = d
		}
		for _, d := range numbered {
			if _, listed := plans[tablesFor(t, d, k).String()]; !listed {
				t.Errorf("k = %d: design %s is not among Designs", k, d)
			}
		}
	}
	for _, name := range []string{"", "5", "blocks", "blocks-", "blocks-0", "blocks-18", "blocks-02", "Blocks-2"} {
		if p, err := Named(name, MaxDistance); !errors.Is(err, ErrUnusable) {
			t.Errorf("%q is %v, %v", name, p, err)
		}
	}
	if p, err := Named("blocks-5", 3); !errors.Is(err, ErrUnusable) {
		t.Errorf("5 blocks for k = 3: %v, %v", p, err)
	}
}
