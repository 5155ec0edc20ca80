package index

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

// TestShingleCache tests that the cache, used by several goroutines, returns only values that were
// put. It must return all values if the IDs of as many documents as it has slots are put in order.
func TestShingleCache(t *testing.T) {
	shingleOf := func(id uint64) (s fingerprint.ShingleSignature) { // zero for multiples of 5
		for i := range s {
			s[i] = bits.RotateLeft64(id*0x9e3779b97f4a7c15, 17*i) * min(id%5, 1)
		}
		return s
	}
	for slots, limit := range map[uint64]int64{0: shingleSlotBytes - 1, 1: 2*shingleSlotBytes - 1,
		64: 64 * shingleSlotBytes, 4096: 8191 * shingleSlotBytes} {
		c := newShingleCache(limit)
		compare := func(id uint64, must bool) {
			got, known := c.get(id)
			if want := shingleOf(id); known && got != want || must && !known && !want.IsZero() {
				t.Errorf("%d slots: %d is %v, known is %v", slots, id, got, known)
			}
		}
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(91, g))
				for range 100_000 {
					id := 1 + rng.Uint64N(4*slots+4)
					if rng.IntN(8) > 0 {
						c.put(id, shingleOf(id))
					}
					compare(id, false)
				}
			})
		}
		wg.Wait()
		for id := range slots {
			c.put(id, shingleOf(id))
		}
		for id := range slots {
			compare(id, true)
		}
		for _, id := range []uint64{math.MaxUint64, 1 << 52, 1<<40 - 1, 1 << 40} {
			c.put(id, shingleOf(id))
			compare(id, false)
		}
		c.free()
	}
}
