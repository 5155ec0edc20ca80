package index

import (
	"context"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/store"
)

// TestTimeOfArrivalWhileACommitIsOnItsWay: who asks for the time of a document while
// the next one is announced, but not visible yet, must not keep the answer for both.
func TestTimeOfArrivalWhileACommitIsOnItsWay(t *testing.T) {
	x := openMem(t, Options{Durability: NoSync})
	must(t, x.Add(context.Background(), Document{Fingerprint: 1}))
	first := addedOf(t, x, 1)
	later := first.Add(time.Hour)
	x.clock.Store(nil)
	x.announce(nil, &change{}, store.Counters{NextID: 3, Documents: 2, Bare: 2})
	if got := addedOf(t, x, 1); got != first {
		t.Fatalf("document 1 was added %v, then %v", first, got)
	}
	batch := x.store.NewBatch()
	batch.SetClock(2, uint64(later.Unix()))
	if finish, err := x.store.Apply(batch, false); err != nil || finish() != nil {
		t.Fatal(err)
	}
	if got := addedOf(t, x, 2); got != later {
		t.Errorf("document 2 was added %v, not %v", got, later)
	}
}

func addedOf(t *testing.T, x *Index, id uint64) time.Time {
	t.Helper()
	r := x.reader()
	added, err := r.added(id)
	must(t, err, r.close())
	return added
}
