package filter

import (
	"fmt"
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

// filterBudgets gives a filter of one line, a blocked filter for up to 3000 fingerprints, and a
// filter of any size.
var filterBudgets = []int64{64, 6000, 1 << 22}

// TestFilterFindsAll queries every kind of filter, at every prefix length, for added fingerprints
// and for their neighbours. It compares a search of the neighbourhood with single look-ups.
func TestFilterFindsAll(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, set := range testgen.Sets(rng, 3000) {
		for prefix := 1; prefix <= 64; prefix++ {
			for _, budget := range filterBudgets {
				f := fit(prefix, 3000, budget)
				name := fmt.Sprintf("seed %d, %s, prefix %d, form %d of %d bytes", seed, set.Name,
					prefix, f.form, f.Bytes())
				there := make(map[uint64]bool)
				for i, fp := range set.Fingerprints {
					if i < len(set.Fingerprints)/2 {
						f.Add(fp)
					}
					there[prefixOf(fp, prefix)] = true
				}
				f.AddAll(set.Fingerprints[len(set.Fingerprints)/2:])
				for _, fp := range set.Fingerprints {
					if !f.MayContain(fp) {
						t.Fatalf("%s: %016x is not found", name, fp)
					}
				}
				radius := rng.IntN(3)
				if prefix <= 20 && rng.IntN(8) == 0 {
					radius = 3
				}
				for _, q := range testgen.Queries(rng, set.Fingerprints, 4, 3) {
					checkNear(t, name, f, there, q, radius)
				}
			}
		}
	}
}

// checkNear compares AppendCandidates with MayContain, and a bit array with the added
// fingerprints.
func checkNear(t interface {
	Helper()
	Fatalf(string, ...any)
}, name string, f *Prefix, there map[uint64]bool, q uint64, radius int) {
	t.Helper()
	var want []uint64
	for _, flips := range AppendAll(nil, f.prefix, radius) {
		may := f.MayContain(q ^ flips)
		if may {
			want = append(want, flips)
		}
		stored := there[prefixOf(q^flips, f.prefix)]
		if stored && !may || f.form == filterBits && may && !stored {
			t.Fatalf("%s: %016x is %v but stored %v", name, q^flips, may, stored)
		}
	}
	got := f.AppendCandidates([]uint64{42}, q, radius)
	if got[0] != 42 {
		t.Fatalf("%s: the earlier content of dst is lost", name)
	}
	got = got[1:]
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		for i := range max(len(got), len(want)) {
			if i == len(got) || i == len(want) || got[i] != want[i] {
				t.Fatalf("%s: within %d of %016x: %d prefixes, one by one %d; number %d in order "+
					"is the first that differs", name, radius, q, len(got), len(want), i)
			}
		}
	}
}

func TestAppendAll(t *testing.T) {
	for _, c := range []struct{ prefix, radius int }{{1, 0}, {1, 1}, {5, 2}, {32, 1},
		{17, 3}, {64, 2}} {
		flips := AppendAll(nil, c.prefix, c.radius)
		want, term := 0, 1
		for r := 0; r <= c.radius && r <= c.prefix; r++ {
			want, term = want+term, term*(c.prefix-r)/(r+1)
		}
		slices.Sort(flips)
		if n := len(slices.Compact(flips)); n != want {
			t.Errorf("%d bits, radius %d: %d sets of flips, not %d", c.prefix, c.radius, n, want)
		}
		for _, f := range flips {
			if bits.OnesCount64(f) > c.radius || prefixOf(f, c.prefix) != f {
				t.Errorf("%d bits, radius %d: flips %016x", c.prefix, c.radius, f)
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
	if got := AppendAll(nil, 3, 64); len(got) != 8 {
		t.Errorf("no filter: %d of 8 prefixes", len(got))
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
			t.Errorf("%+v: form %d of %d bytes; Size says %d", c, f.form, f.Bytes(), size)
		}
	}
}

// blockedRate returns the false positive rate of a blocked filter whose lines are filled evenly.
func blockedRate(bitsEach float64) float64 { return math.Pow(1-math.Exp(-8/bitsEach), 8) }

// TestFilterFalsePositives bounds the false positive rate, and the rate that Size reports, for
// random fingerprints. The bounds are close to the measured rates.
func TestFilterFalsePositives(t *testing.T) {
	skipUnderRace(t)
	const n, seed = 60_000, 12
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, set := range testgen.Sets(rng, n) {
		for _, prefix := range []int{28, 32, 64} {
			there := make(map[uint64]bool)
			for _, fp := range set.Fingerprints {
				there[prefixOf(fp, prefix)] = true
			}
			for _, each := range []int64{8, 12, 16, 20} {
				f := fit(prefix, n, n*each/8)
				f.AddAll(set.Fingerprints)
				asked, wrong := 0, 0
				for range 150_000 {
					if q := rng.Uint64(); !there[prefixOf(q, prefix)] {
						asked++
						if f.MayContain(q) {
							wrong++
						}
					}
				}
				// The lines are not filled evenly, which matters most if few bits are set.
				measured, bound := float64(wrong)/float64(asked), 2.5*blockedRate(float64(each))
				if set.Name == "adversarial" && prefix > 32 {
					bound += 0.015 // dense spots: 2048 neighbours fill one line
				}
				noise := 5 * math.Sqrt(bound/float64(asked))
				_, said := Size(prefix, n, n*each/8)
				if measured > bound+noise || set.Name == "uniform" &&
					math.Abs(measured-said) > 0.25*said+noise {
					t.Errorf("seed %d, %s, prefix %d, %d bits each: %.5f wrong, Size says %.5f, "+
						"at most %.5f", seed, set.Name, prefix, each, measured, said, bound)
				}
			}
		}
	}
}

// TestFilterConcurrent adds and queries concurrently. Once one goroutine has reported that it
// added a fingerprint, every other one must find it.
func TestFilterConcurrent(t *testing.T) {
	fps := testgen.Uniform(rand.New(rand.NewPCG(13, 0)), 60_000)
	for _, f := range []*Prefix{fit(32, 60_000, 1<<20), fit(32, 60_000, 6400),
		fit(20, 60_000, 1<<20)} {
		const writers = 3
		var done [writers]atomic.Int64
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := w; i < len(fps); i += writers {
					f.Add(fps[i])
					done[w].Store(int64(i) + 1)
				}
			})
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(14, uint64(w)))
				for at := int64(0); at <= int64(len(fps)-writers); {
					if at = done[w].Load(); at == 0 {
						continue
					}
					i := w + writers*rng.IntN(int(at-1-int64(w))/writers+1)
					if !f.MayContain(fps[i]) {
						t.Errorf("%016x was added and is not found", fps[i])
						return
					}
					flips := uint64(1) << (63 - rng.IntN(f.prefix))
					if !slices.Contains(f.AppendCandidates(nil, fps[i]^flips, 1), flips) {
						t.Errorf("%016x was added and is not found near", fps[i])
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
		t.Skip("no race to be found in it")
	}
}
