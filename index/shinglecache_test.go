package index

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testgen"
)

// TestShingleCache: what it knows is what was put, whatever took the place of what, from
// several goroutines; and of as many as it has slots, put in order, it knows all.
func TestShingleCache(t *testing.T) {
	shingleOf := func(id uint64) fingerprint.Fingerprint {
		return fingerprint.Fingerprint(bits.RotateLeft64(id*0x9e3779b97f4a7c15, 17) * min(id%5, 1)) // 0 at times
	}
	for slots, limit := range map[uint64]int64{0: shingleSlotBytes - 1, 1: 2*shingleSlotBytes - 1, 64: 64 * shingleSlotBytes, 4096: 8191 * shingleSlotBytes} {
		c := newShingleCache(limit)
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(91, g))
				for range 100_000 {
					id := 1 + rng.Uint64N(4*slots+4)
					if rng.IntN(2) == 0 {
						c.put(id, shingleOf(id))
					}
					if shingle, known := c.get(id); known && shingle != shingleOf(id) {
						t.Errorf("%d: %v", id, shingle)
					}
				}
			})
		}
		wg.Wait()
		for id := range slots {
			c.put(id, shingleOf(id))
		}
		for id := range slots {
			if shingle, known := c.get(id); shingleOf(id) != 0 && (!known || shingle != shingleOf(id)) {
				t.Fatalf("%d slots: %d is %v, known is %v", slots, id, shingle, known)
			}
		}
		for _, id := range []uint64{math.MaxUint64, 1 << 52, 1<<40 - 1, 1 << 40} {
			c.put(id, 7)
			if shingle, known := c.get(id); known && shingle != 7 {
				t.Errorf("%d slots: %d is %v", slots, id, shingle)
			}
		}
		c.free()
	}
}

// TestCandidatesWithFarShingles: the second time that a query meets candidates which
// only their Shingles tell apart, it answers the same, without reading their records.
func TestCandidatesWithFarShingles(t *testing.T) {
	rng := rand.New(rand.NewPCG(92, 0))
	x := openMem(t, Options{MaxDistance: 6, Durability: NoSync})
	const near = 200
	for i := range near {
		fp := testgen.Flip(rng, 0, ^uint64(0), rng.IntN(7))
		must(t, x.Add(t.Context(), Document{Key: string(rune('a' + i)), Fingerprint: fingerprint.Fingerprint(fp), Shingle: fingerprint.Fingerprint(rng.Uint64() | 1)}))
	}
	for round := range 3 {
		for _, rule := range []int{-1, 16, 30, 64 + 6} {
			for q := range 3 {
				shingle := fingerprint.Fingerprint(1 << q)
				x.opts.MaxShingleDistance = rule
				got, err := x.Query(t.Context(), Query{Signature: fingerprint.Signature{Shingle: shingle}})
				must(t, err)
				want := 0
				for d, err := range x.Documents(t.Context()) {
					must(t, err)
					if distance := d.Fingerprint.Distance(0); rule < 0 || distance+d.Shingle.Distance(shingle) <= rule {
						want++
					}
				}
				if len(got) != want {
					t.Errorf("round %d, limit %d: %d matches, want %d", round, rule, len(got), want)
				}
			}
		}
	}
	known := 0
	for id := range uint64(near + 1) {
		if _, ok := x.shingles.get(id); ok {
			known++
		}
	}
	if known != near {
		t.Errorf("%d of %d Shingles are known", known, near)
	}
}
