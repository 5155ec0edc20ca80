package index

import (
	"context"
	"math"
	"strings"
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

// TestTimesOfNoClock: a document of a time that a time.Time cannot hold is of the nearest that it can, and is
// neither deleted nor expires before that.
func TestTimesOfNoClock(t *testing.T) {
	ctx := context.Background()
	now := time.Unix(math.MaxInt64, 0)
	x := openMem(t, Options{Durability: NoSync, Now: func() time.Time { return now }})
	must(t, x.Add(ctx, Document{Key: "last", Fingerprint: 1}))
	now = time.Unix(-5, 0)
	must(t, x.Add(ctx, Document{Key: "first", Fingerprint: 1 << 20}))
	for key, want := range map[string]int64{"last": math.MaxInt64 - 62_135_596_800, "first": 0} {
		d, found, err := x.Get(ctx, key)
		if err != nil || !found || d.Added.Unix() != want || d.Added.Before(time.Unix(0, 0)) {
			t.Errorf("%s: %v, %v", key, d, err)
		}
	}
	if n, err := x.DeleteBefore(ctx, time.Unix(0, 0)); n != 0 || err != nil {
		t.Errorf("%d documents were deleted, %v", n, err)
	}
	if n, err := x.DeleteBefore(ctx, time.Unix(1, 0)); n != 1 || err != nil {
		t.Errorf("%d documents were deleted, %v; want that of second 0", n, err)
	}
	now = time.Unix(math.MaxInt64, 0)
	if n, err := x.Expire(ctx, Expiry{MaxAge: time.Hour}); n != 0 || err != nil {
		t.Errorf("%d documents expired, %v", n, err)
	}
	if n, err := x.Expire(ctx, Expiry{MaxAge: -time.Hour}); n != 0 || err == nil || !strings.Contains(err.Error(), "MaxAge is -1h0m0s") {
		t.Errorf("below 0: %d, %v", n, err)
	}
}

func addedOf(t *testing.T, x *Index, id uint64) time.Time {
	t.Helper()
	r := x.reader()
	added, err := r.added(id)
	must(t, err, r.close())
	return added
}
