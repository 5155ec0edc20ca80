package index_test

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// askedContext calls asked each time that it is looked at.
type askedContext struct {
	context.Context
	asked func()
}

func (c askedContext) Err() error { c.asked(); return c.Context.Err() }

// TestTimeOfWhatExpires: documents that expire while a query is under way, which takes no view
// as nothing is live, have their own time in its answer or are not in it.
func TestTimeOfWhatExpires(t *testing.T) {
	ctx := t.Context()
	for at := range 6 { // where the query is when they expire
		second := time.Unix(0, 0).UTC()
		opts := &index.Options{FS: vfs.NewMem(), Now: func() time.Time { second = second.Add(time.Second); return second }}
		x, err := index.Open("ix", opts)
		must(t, err)
		added := map[uint64]time.Time{}
		for range 4 {
			docs := []index.Document{{Fingerprint: 7}}
			must(t, x.Add(ctx, docs...))
			added[docs[0].ID] = docs[0].Added
		}
		must(t, x.Close())
		if _, err := compaction.Run(ctx, "ix", compaction.Options{FS: opts.FS}); err != nil {
			t.Fatal(err)
		}
		if x, err = index.Open("ix", opts); err != nil {
			t.Fatal(err)
		}
		asks := 0
		expiring := askedContext{ctx, func() {
			if asks++; asks == at+1 {
				if n, err := x.DeleteBefore(ctx, added[4]); n != 3 || err != nil {
					t.Errorf("%d expired: %v", n, err)
				}
			}
		}}
		for _, ctx := range []context.Context{expiring, ctx} {
			var q index.Query
			q.Fingerprint = 7
			matches, err := x.Query(ctx, q)
			if n := len(matches); err != nil || n != 4 && n != 1 {
				t.Errorf("asked %d times: %d matches: %v", asks, n, err)
			}
			for _, m := range matches {
				if m.Added != added[m.ID] {
					t.Errorf("asked %d times: document %d was added %v, not %v", asks, m.ID, m.Added, added[m.ID])
				}
			}
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}
