package filter

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// prefixOf clears the bits after the prefix.
func prefixOf(fp uint64, prefix int) uint64 { return fp >> (64 - prefix) << (64 - prefix) }

// TestFilterFindsAll queries every kind of filter, for every prefix length, for added fingerprints
// and their neighbors. It compares a search of the neighborhood with single lookups, and a bit
// array with the added fingerprints.
func TestFilterFindsAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 0))
	for _, set := range testgen.Sets(rng, 3000) {
		for prefix := 1; prefix <= 64; prefix++ {
			for _, budget := range []int64{64, 6000, 1 << 22} { // one line, blocked, any size
				f := fit(prefix, 3000, budget)
				there := make(map[uint64]bool)
				for i, fp := range set.Fingerprints {
					if i < 1500 {
						f.Add(fp)
					}
					there[prefixOf(fp, prefix)] = true
				}
				f.AddAll(set.Fingerprints[1500:])
				for _, fp := range set.Fingerprints {
					if !f.MayContain(fp) {
						t.Fatalf("%s, prefix %d: %016x is not found", set.Name, prefix, fp)
					}
				}
				radius := rng.IntN(3)
				if prefix <= 20 && rng.IntN(8) == 0 {
					radius = 3
				}
				for _, q := range testgen.Queries(rng, set.Fingerprints, 4, 3) {
					want := []uint64{42} // the earlier content of dst
					for _, flips := range AppendAll(nil, prefix, radius) {
						may, stored := f.MayContain(q^flips), there[prefixOf(q^flips, prefix)]
						if may {
							want = append(want, flips)
						}
						if stored && !may || f.form == filterBits && may && !stored {
							t.Fatalf("%s, prefix %d, form %d: %016x is %v, but added %v", set.Name,
								prefix, f.form, q^flips, may, stored)
						}
					}
					got := f.AppendCandidates([]uint64{42}, q, radius)
					slices.Sort(got)
					slices.Sort(want)
					if !slices.Equal(got, want) {
						t.Fatalf("%s, prefix %d, form %d: within %d of %016x: %016x, want %016x",
							set.Name, prefix, f.form, radius, q, got, want)
					}
				}
			}
		}
	}
}

func TestAppendAll(t *testing.T) {
	for _, c := range []struct{ prefix, radius, want int }{{1, 0, 1}, {1, 1, 2}, {5, 2, 16},
		{32, 1, 33}, {17, 3, 834}, {64, 2, 2081}, {3, 64, 8}} {
		flips := AppendAll(nil, c.prefix, c.radius)
		slices.Sort(flips)
		if n := len(slices.Compact(flips)); n != c.want {
			t.Errorf("%+v: %d masks", c, n)
		}
		for _, f := range flips {
			if bits.OnesCount64(f) > c.radius || prefixOf(f, c.prefix) != f {
				t.Errorf("%+v: flips %016x", c, f)
			}
		}
	}
}

func TestFilterRadiusBeyondPrefix(t *testing.T) {
	f := fit(3, 1, 64)
	f.Add(1 << 63)
	for radius, want := range map[int]int{-1: 0, 0: 0, 2: 0, 3: 1, 4: 1, math.MaxInt: 1} {
		if got := f.AppendCandidates(nil, 3<<61, radius); len(got) != want {
			t.Errorf("radius %d: %x", radius, got)
		}
	}
}

func TestFilterForm(t *testing.T) {
	for _, c := range []struct {
		prefix           int
		expected, budget int64
		form             filterForm
		bytes            int64
	}{
		{32, 1000, 0, filterNone, 0},
		{32, 1000, 63, filterNone, 0},
		{16, 1000, 1 << 30, filterBits, 8 << 10},
		{16, 1000, 8 << 10, filterBits, 8 << 10},
		{16, 10_000, 8<<10 - 1, filterBlocked, 8<<10 - 64},
		{16, 2<<16 + 1, 1 << 30, filterNone, 0},
		{32, 1_000_000, 1 << 30, filterBlocked, 2_500_000},
		{32, 1_000_000, 1_000_000, filterBlocked, 1_000_000},
		{32, 1 << 27, 1 << 30, filterBits, 512 << 20},
		{32, 1<<27 - 1, 1 << 30, filterBlocked, 320 << 20},
		{32, 1 << 26, 64 << 20, filterBlocked, 64 << 20},
		{64, 1000, math.MaxInt64, filterBlocked, 2500},
		{63, 1000, math.MaxInt64, filterBlocked, 2500},
		{64, math.MinInt64, 1 << 20, filterBlocked, 64},
		{64, math.MaxInt64, 1 << 20, filterBlocked, 1 << 20},
		{1, 0, 64, filterBits, 64},
	} {
		f := New(c.prefix, c.expected, c.budget)
		if c.form == filterNone {
			if f != nil {
				t.Errorf("%+v: a filter of %d bytes", c, f.Bytes())
			}
			continue
		}
		size, _ := Size(c.prefix, c.expected, c.budget)
		if f.form != c.form || f.Bytes() < c.bytes-64 || f.Bytes() > c.bytes+64 ||
			f.Bytes() > c.budget || f.Bytes() != size {
			t.Errorf("%+v: form %d, %d bytes; Size returns %d", c, f.form, f.Bytes(), size)
		}
	}
}

// TestFilterFalsePositives bounds the false positive rate, and the rate that Size reports, for
// random fingerprints. The bounds are close to the measured rates.
func TestFilterFalsePositives(t *testing.T) {
	skipUnderRace(t)
	const n, asked = 60_000, 150_000
	rng := rand.New(rand.NewPCG(12, 0))
	for _, set := range testgen.Sets(rng, n) {
		for _, prefix := range []int{28, 32, 64} {
			there := make(map[uint64]bool)
			for _, fp := range set.Fingerprints {
				there[prefixOf(fp, prefix)] = true
			}
			for _, each := range []int64{8, 12, 20} { // bits
				f := fit(prefix, n, n*each/8)
				f.AddAll(set.Fingerprints)
				wrong := 0
				for range asked {
					if q := rng.Uint64(); !there[prefixOf(q, prefix)] && f.MayContain(q) {
						wrong++
					}
				}
				// The rate for evenly filled lines, times 2.5. Uneven lines matter most if few bits
				// are set.
				bound := 2.5 * math.Pow(1-math.Exp(-8/float64(each)), 8)
				if set.Name == "adversarial" && prefix > 32 {
					bound += 0.015 // 2048 neighbors fill one line
				}
				measured, noise := float64(wrong)/asked, 5*math.Sqrt(bound/asked)
				_, said := Size(prefix, n, n*each/8)
				if measured > bound+noise || set.Name == "uniform" &&
					math.Abs(measured-said) > 0.25*said+noise {
					t.Errorf("%s, prefix %d, %d bits each: %.5f wrong, Size returns %.5f, bound "+
						"%.5f", set.Name, prefix, each, measured, said, bound)
				}
			}
		}
	}
}

// TestFilterConcurrent adds and queries concurrently. After one goroutine has added a fingerprint,
// every other goroutine must find it.
func TestFilterConcurrent(t *testing.T) {
	const writers, each = 3, 20_000
	fps := testgen.Uniform(rand.New(rand.NewPCG(13, 0)), writers*each)
	for _, f := range []*Prefix{fit(32, 60_000, 1<<20), fit(32, 60_000, 6400),
		fit(20, 60_000, 1<<20)} {
		var wg sync.WaitGroup
		for part := range slices.Chunk(fps, each) {
			var done atomic.Int64
			wg.Go(func() {
				for i, fp := range part {
					f.Add(fp)
					done.Store(int64(i) + 1)
				}
			})
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(14, part[0]))
				for at := 0; at < each; {
					if at = int(done.Load()); at == 0 {
						continue
					}
					fp, flips := part[rng.IntN(at)], uint64(1)<<(63-rng.IntN(f.prefix))
					if !f.MayContain(fp) ||
						!slices.Contains(f.AppendCandidates(nil, fp^flips, 1), flips) {
						t.Errorf("%016x was added and is not found", fp)
						return
					}
				}
			})
		}
		wg.Wait()
		for _, fp := range fps { // no writer has cleared a bit that another one set
			if !f.MayContain(fp) {
				t.Fatalf("%016x was added and is lost", fp)
			}
		}
	}
}

// skipUnderRace skips a slow test if the race detector is on. Other tests have more goroutines.
func skipUnderRace(t *testing.T) {
	if testenv.Race {
		t.Skip("slow, and has only one goroutine")
	}
}
