package index

import (
	"math/rand/v2"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestRemovedIDs looks up IDs in random snapshots after random removals. The answers removed and
// notRemoved must be right for the snapshot. In a snapshot of all removals, lookUp must not return
// maybeRemoved.
func TestRemovedIDs(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	r, position := newRemovedIDs(), uint64(1)
	at := map[uint64]uint64{} // position of the removal of each ID
	for range 3000 {
		ids := []uint64{rng.Uint64N(1 << 40), rng.Uint64N(1 << 40)}
		r.add(ids, position)
		for i, id := range ids {
			at[id] = position + uint64(i)
		}
		position += uint64(len(ids))
		snapshot := position - min(position-1, rng.Uint64N(3)*rng.Uint64N(10))
		for id, removedAt := range at {
			want := removed
			if removedAt >= snapshot {
				want = notRemoved
			}
			got := r.lookUp(id, snapshot)
			if got != want && got != maybeRemoved || got == maybeRemoved && snapshot == position {
				t.Fatalf("ID %d, removed at %d: %d in a snapshot of %d", id,
					removedAt, got, snapshot)
			}
			if r.lookUp(id+1, snapshot) != notRemoved && at[id+1] == 0 {
				t.Fatalf("ID %d was never removed", id+1)
			}
			break // one ID in random order
		}
	}
	if n := r.count(); n != uint64(len(at)) || r.bytes() > 4*int64(n)+1<<20 {
		t.Errorf("%d of %d IDs in %d bytes", n, len(at), r.bytes())
	}
}

// TestRemovedIDsWhileTheyAreLoaded tests that lookUp returns maybeRemoved until all stored IDs are
// read.
func TestRemovedIDsWhileTheyAreLoaded(t *testing.T) {
	read := make(chan bool)
	r := newRemovedIDs()
	r.load(func(yield func(uint64, error) bool) {
		<-read
		yield(7, nil)
	}, func(err error) { must(t, err) })
	defer r.Close()
	if got := r.lookUp(7, 1); got != maybeRemoved {
		t.Errorf("before the stored IDs are read: %d", got)
	}
	r.add([]uint64{8}, 5)
	close(read)
	must(t, r.Wait(t.Context()))
	for id, want := range map[uint64]removal{7: removed, 8: removed, 9: notRemoved} {
		if got := r.lookUp(id, 6); got != want {
			t.Errorf("ID %d: %d, not %d", id, got, want)
		}
	}
	r.mu.Lock()
	if got := r.lookUp(7, 6); got != maybeRemoved {
		t.Errorf("while IDs are added: %d", got)
	}
	r.mu.Unlock()
	if got := r.lookUp(8, 5); got != maybeRemoved {
		t.Errorf("a snapshot from before the removal: %d", got)
	}
}
