package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/store"
)

// TestDocumentsOfOneFingerprint adds and removes documents of two fingerprints again and again, and compares the
// matches of each with the documents that are left, in the live entries and after a compaction.
func TestDocumentsOfOneFingerprint(t *testing.T) {
	if testenv.Race {
		t.Skip("it is one goroutine, and takes long")
	}
	for _, k := range []int{3, Exact} { // Exact is a plan of one table
		t.Run(fmt.Sprint(k), func(t *testing.T) { testDocumentsOfOneFingerprint(t, k) })
	}
}

func testDocumentsOfOneFingerprint(t *testing.T, k int) {
	ctx, seed := context.Background(), testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	x := openMem(t, Options{Durability: NoSync, MaxDistance: k})
	const changes = 4000
	docs := map[fingerprint.Fingerprint][]uint64{}
	for range changes {
		fp := fingerprint.Fingerprint(rng.IntN(2)) << 20
		ids := docs[fp]
		if len(ids) > 2 && rng.IntN(2) == 0 {
			i := rng.IntN(len(ids))
			if n, err := x.DeleteIDs(ctx, ids[i]); n != 1 || err != nil {
				t.Fatalf("seed %d: %d deleted: %v", seed, n, err)
			}
			docs[fp] = slices.Delete(ids, i, i+1)
			continue
		}
		one := []Document{{Fingerprint: fp}}
		must(t, x.Add(ctx, one...))
		docs[fp] = append(ids, one[0].ID)
	}
	for fp, want := range docs {
		matches, err := x.Query(ctx, Query{Signature: fingerprint.Signature{Fingerprint: fp}, MaxDistance: Exact})
		must(t, err)
		var got []uint64
		for _, m := range matches {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: %v has %v, not %v", seed, fp, got, want)
		}
	}
	checkVerified(t, x)
}

// TestRemovedIDs draws removals and snapshots, and asks for all IDs: an answer of removed or notRemoved is right for the
// snapshot, and after few removals there is no other answer.
func TestRemovedIDs(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	r, position := newRemovedIDs(), uint64(1)
	at := map[uint64]uint64{} // position of the removal of each ID
	for range 3 * latestRemovals {
		ids := []uint64{rng.Uint64N(1 << 40), rng.Uint64N(1 << 40)}
		r.add(ids, position)
		for i, id := range ids {
			at[id] = position + uint64(i)
		}
		position += uint64(len(ids))
		snapshot := position - min(position-1, rng.Uint64N(2*latestRemovals))
		for id, removedAt := range at {
			want := removed
			if removedAt >= snapshot {
				want = notRemoved
			}
			got := r.lookUp(id, snapshot)
			if got != want && got != maybeRemoved || want == removed && got == maybeRemoved && position < latestRemovals {
				t.Fatalf("ID %d, removed at %d: %d in a snapshot of %d", id, removedAt, got, snapshot)
			}
			if r.lookUp(id+1, snapshot) != notRemoved && at[id+1] == 0 {
				t.Fatalf("ID %d was never removed", id+1)
			}
			break // any one
		}
	}
	if n := r.count(); n != uint64(len(at)) || r.bytes() > 4*int64(n)+1<<20 {
		t.Errorf("%d IDs in %d bytes, of %d", n, r.bytes(), len(at))
	}
}

// TestRemovedIDsWhileTheyAreLoaded: until all stored IDs are read, no ID counts as not removed.
func TestRemovedIDsWhileTheyAreLoaded(t *testing.T) {
	read := make(chan bool)
	r := loadRemovedIDs(func(yield func(uint64, error) bool) {
		<-read
		yield(7, nil)
	}, func(err error) { must(t, err) })
	defer r.close()
	if got := r.lookUp(7, 1); got != maybeRemoved {
		t.Errorf("before the stored IDs are read: %d", got)
	}
	r.add([]uint64{8}, 5)
	close(read)
	<-r.done
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

// TestReadersLetGoOfBlocks: a reader that waits for the next call refers to no packed block: the memory of a block
// goes with its tables, or would be kept for it.
func TestReadersLetGoOfBlocks(t *testing.T) {
	r := openMem(t, Options{}).reader()
	r.visits = []visit{{Visit: store.Visit{Block: 7}}}
	if err := r.close(); err != nil || r.visits[0].Visit != (store.Visit{}) {
		t.Errorf("%+v: %v", r.visits, err)
	}
}
