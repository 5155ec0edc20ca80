package plan

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestEstimateOfFilters: as many probes pass as a filter of random fingerprints lets
// through. NEARDUP_LONG=1 asks filters of sizes from which the model has nothing.
func TestEstimateOfFilters(t *testing.T) {
	type filterCase struct {
		n              int64
		prefix, radius int
		budget         int64
	}
	const n = 200_000
	cases := []filterCase{
		{n, 17, 1, unlimited}, {n, 20, 0, unlimited}, {n, 20, 1, unlimited}, {n, 24, 2, unlimited}, // bit arrays, and blocked ones
		{n, 32, 1, unlimited}, {n, 32, 1, n}, {n, 32, 2, n / 2}, {n, 32, 1, n / 4}, {n, 32, 1, 0},
	}
	if testenv.Long() {
		cases = append(cases, filterCase{3e7, 32, 1, unlimited}, filterCase{3e8, 32, 1, unlimited})
	}
	for _, c := range cases {
		rng := rand.New(rand.NewPCG(41, uint64(c.n)))
		f := filter.New(c.prefix, c.n, c.budget)
		fps := make([]uint64, 1<<16)
		for left := c.n; left > 0; left -= int64(len(fps)) {
			fps = fps[:min(left, int64(len(fps)))]
			for i := range fps {
				fps[i] = rng.Uint64()
			}
			if f != nil {
				f.AddAll(fps)
			}
		}
		const queries = 20_000
		passed := 0
		var dst []uint64
		for range queries {
			if f == nil {
				dst = filter.AppendAll(dst[:0], c.prefix, c.radius)
			} else {
				dst = f.AppendCandidates(dst[:0], rng.Uint64(), c.radius)
			}
			passed += len(dst)
		}
		want := Table{Prefix: c.prefix, Radius: c.radius}.estimate(c.n, c.budget).Passing
		got := float64(passed) / queries
		t.Logf("%+v: %.4g probes pass, expected %.4g", c, got, want)
		if allowed := 0.06*want + 5*math.Sqrt(want/queries); math.Abs(got-want) > allowed {
			t.Errorf("%+v: %.4g probes pass, expected %.4g", c, got, want)
		}
	}
}

func TestFilterLookups(t *testing.T) {
	for _, c := range []Table{{Prefix: 3, Radius: 2}, {Prefix: 6, Radius: 1}, {Prefix: 7, Radius: 3}, {Prefix: 16}, {Prefix: 20, Radius: 2}, {Prefix: 32, Radius: 1}} {
		words := map[uint64]bool{}
		for _, flips := range filter.AppendAll(nil, c.Prefix, c.Radius) {
			words[flips>>(64-c.Prefix)>>filter.GroupBits] = true
		}
		if got := c.filterWords(); got != len(words) {
			t.Errorf("prefix %d, radius %d: %d look-ups, not %d", c.Prefix, c.Radius, got, len(words))
		}
	}
}

// TestEstimateIsFinite for all that `neardup plan` accepts.
func TestEstimateIsFinite(t *testing.T) {
	for k := range MaxDistance + 1 {
		for _, d := range Designs(k) {
			p := tablesFor(t, d, k)
			for _, n := range []int64{-1, 0, 1, 2, 1e6, 1e15} {
				e := p.Estimate(n)
				for _, figure := range []float64{e.Passing, e.Candidates, e.TableBytes, e.FilterBytes, e.DirectoryBytes, e.Warm, e.Disk} {
					if !(figure >= 0) || math.IsInf(figure, 0) {
						t.Fatalf("k = %d, design %s, n = %d: %+v", k, d, n, e)
					}
				}
				if e.Warm > e.Disk || e.Passing > float64(e.Probes)*(1+1e-9) {
					t.Errorf("k = %d, design %s, n = %d: %+v", k, d, n, e)
				}
			}
		}
	}
}
