package index

import (
	"math/rand/v2"
	"testing"
)

// TestRemovedIDsTakeLittleMemory bounds the memory per removed ID if the removed IDs are scattered over all IDs.
func TestRemovedIDsTakeLittleMemory(t *testing.T) {
	const ids = 2_000_000
	for _, c := range []struct{ share, bytes float64 }{{.01, 2.1}, {.1, 2}, {.5, 2}, {.9, 2}} {
		r, random := newRemovedIDs(), rand.New(rand.NewPCG(1, 1))
		var some []uint64
		want := uint64(0)
		for id := range uint64(ids) {
			if random.Float64() < c.share {
				some, want = append(some, id+1), want+1
			}
			if len(some) == 256 {
				r.add(some, 0)
				some = some[:0]
			}
		}
		r.add(some, 0)
		each := float64(r.bytes()) / float64(r.count())
		t.Logf("%.0f %% of the IDs removed: %.2f bytes per ID", 100*c.share, each)
		if r.count() != want || each > c.bytes {
			t.Errorf("%.0f %% of the IDs removed: %d of %d IDs, %.2f bytes per ID, want at most %v", 100*c.share, r.count(), want, each, c.bytes)
		}
		r.close()
	}
}
