package index

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestShingleCache tests that the cache returns only values that were put, from several
// goroutines. If as many values are put as it has slots, in order, it must return all of them.
func TestShingleCache(t *testing.T) {
	shingleOf := func(id uint64) (s fingerprint.ShingleSignature) { // 0 at times
		for i := range s {
			s[i] = bits.RotateLeft64(id*0x9e3779b97f4a7c15, 17*i) * min(id%5, 1)
		}
		return s
	}
	for slots, limit := range map[uint64]int64{0: shingleSlotBytes - 1, 1: 2*shingleSlotBytes - 1,
		64: 64 * shingleSlotBytes, 4096: 8191 * shingleSlotBytes} {
		c := newShingleCache(limit)
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(91, g))
				for range 100_000 {
					id := 1 + rng.Uint64N(4*slots+4)
					if rng.IntN(8) > 0 {
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
			if shingle, known := c.get(id); !shingleOf(id).IsZero() &&
				(!known || shingle != shingleOf(id)) {
				t.Fatalf("%d slots: %d is %v, known is %v", slots, id, shingle, known)
			}
		}
		for _, id := range []uint64{math.MaxUint64, 1 << 52, 1<<40 - 1, 1 << 40} {
			c.put(id, shingleOf(7))
			if shingle, known := c.get(id); known && shingle != shingleOf(7) {
				t.Errorf("%d slots: %d is %v", slots, id, shingle)
			}
		}
		c.free()
	}
}

// TestCandidatesWithFarShingles tests candidates that only their Shingles rule out. When a query
// is repeated, it must give the same answer without reading their records.
func TestCandidatesWithFarShingles(t *testing.T) {
	rng := rand.New(rand.NewPCG(92, 0))
	x := openMem(t, Options{MaxDistance: 6, Durability: NoSync})
	const near = 200
	for i := range near {
		fp := testgen.Flip(rng, 0, ^uint64(0), rng.IntN(7))
		must(t, x.Add(t.Context(), Document{Key: string(rune('a' + i)),
			Fingerprint: fingerprint.Fingerprint(fp),
			Shingles: fingerprint.ShingleSignature{rng.Uint64() | 1, rng.Uint64(), rng.Uint64(),
				rng.Uint64()}}))
	}
	for round := range 3 {
		for _, rule := range []int{-1, 40, 130, 256 + 6} {
			for q := range 3 {
				var shingle fingerprint.ShingleSignature
				shingle[q] = 1
				x.rule.MaxShingleDistance = rule
				got, err := x.Query(t.Context(),
					Query{Signature: fingerprint.Signature{Shingles: shingle}})
				must(t, err)
				want := 0
				for d, err := range x.Documents(t.Context()) {
					must(t, err)
					if distance := d.Fingerprint.Distance(0); rule < 0 ||
						distance+d.Shingles.Distance(shingle) <= rule {
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
