package index

import (
	"errors"
	"math"
	"math/bits"
	"testing"
)

// TestOptimalTables has values worked out by hand from the formula of section 3.1.2,
// X(f,k,d) = 1 if d <= threshold, else the least over r > k of
// binomial(r,k) * X(f*k/r, k, d-(r-k)*f/r).
func TestOptimalTables(t *testing.T) {
	for _, c := range []struct {
		f            float64
		k            int
		d, threshold float64
		want         float64
	}{
		{64, 3, 10, 10, 1}, // at most 2^10 candidates without any table's help
		{64, 3, 26, 10, 4}, // 4 blocks of 16: 26-16 = 10
		// One bit more and 4 blocks leave 11 bits, 4 * 4 = 16 with a second cut; 5 blocks
		// match 25.6 bits at once.
		{64, 3, 27, 10, 10},
		{64, 3, 34, 10, 10}, // 5 blocks: 34-25.6 = 8.4
		{64, 3, 34, 8, 16},  // 4 blocks twice: 34-16-12 = 6. 5 blocks leave 8.4; 6 would take 20 tables
		// 6 blocks leave 4 bits, one too many; 7 of them, 35 tables, match 36.6 at once. 4*4
		// leave 8, 10*4 and 4*4*4 are more than 35.
		{64, 3, 36, 3, 35},
		{64, 3, 42, 10, 20}, // 6 blocks: 42-32 = 10. 4*4 leave 14, 5 leave 16.4
		{64, 0, 34, 10, 1},  // k = 0: one sorted table matches all bits
		{64, 1, 42, 10, 2},  // 2 blocks of 32
		{64, 1, 43, 10, 3},  // 3 blocks of 21.3, 2 matched: 42.7
		{64, 2, 31, 10, 3},  // 3 blocks of 21.3
		{64, 2, 42, 10, 6},  // 4 blocks, 2 matched: 32
	} {
		if got := OptimalTables(c.f, c.k, c.d, c.threshold); got != c.want {
			t.Errorf("X(%g,%d,%g) with 2^%g candidates is %g, not %g", c.f, c.k, c.d, c.threshold, got, c.want)
		}
	}
}

// TestOptimalTablesFewer: more tables are never needed for fewer fingerprints, or
// for more candidates.
func TestOptimalTablesFewer(t *testing.T) {
	for k := range 5 {
		before := 1.0
		for d := 4.0; d <= 40; d += 2 {
			x := OptimalTables(64, k, d, 10)
			if x < before || math.IsInf(x, 1) || x != math.Trunc(x) {
				t.Errorf("X(64,%d,%g) = %g after %g", k, d, x, before)
			}
			if y := OptimalTables(64, k, d, 12); y > x {
				t.Errorf("X(64,%d,%g) = %g with 2^12 candidates, %g with 2^10", k, d, y, x)
			}
			before = x
		}
	}
}

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

// TestDesignNames: each name stands for one design, and where it is of no use for a k
// it is refused.
func TestDesignNames(t *testing.T) {
	for k := range MaxDistanceLimit + 1 {
		plans := map[string]string{}
		for _, d := range DesignsFor(k) {
			named, err := DesignNamed(d.Name)
			if err != nil {
				t.Fatal(err)
			}
			p := (&Plan{MaxDistance: k, Tables: named.build(k)}).String()
			if other, twice := plans[p]; twice {
				t.Errorf("k = %d: %s and %s are the same", k, d.Name, other)
			}
			plans[p] = d.Name
		}
		for _, d := range Designs() {
			if _, listed := plans[(&Plan{MaxDistance: k, Tables: d.build(k)}).String()]; !listed {
				t.Errorf("k = %d: design %s is not among DesignsFor", k, d.Name)
			}
		}
	}
	for _, name := range []string{"", "5", "blocks", "blocks-", "blocks-0", "blocks-18", "blocks-02", "Blocks-2"} {
		if d, err := DesignNamed(name); !errors.Is(err, ErrPlan) {
			t.Errorf("%q is %v, %v", name, d, err)
		}
	}
	if p, err := Blocks(5).Plan(3); !errors.Is(err, ErrPlan) {
		t.Errorf("5 blocks for k = 3: %v, %v", p, err)
	}
}
