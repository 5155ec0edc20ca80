package index

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
)

// addAt adds documents at a time.
func addAt(t *testing.T, x *Index, docs []Document, at time.Time) {
	t.Helper()
	x.opts.Now = func() time.Time { return at }
	err := x.Add(context.Background(), docs...)
	must(t, err)
	for _, d := range docs {
		if !d.Added.Equal(at) {
			t.Fatalf("document %d was added %v, not %v", d.ID, d.Added, at)
		}
	}
}

// checkTimes tests that docs are the documents of the index, and compares their times.
func checkTimes(t *testing.T, x *Index, docs []Document) {
	t.Helper()
	left := map[uint64]time.Time{}
	for d, err := range x.Documents(context.Background()) {
		must(t, err)
		left[d.ID] = d.Added
	}
	if len(left) != len(docs) {
		t.Errorf("%d documents are left, not %d", len(left), len(docs))
	}
	for _, d := range docs {
		if got := left[d.ID]; !got.Equal(d.Added) {
			t.Errorf("document %d was added %v, not %v", d.ID, got, d.Added)
		}
	}
}

// TestDeleteBeforeFindsOldAmongMany tests old documents whose records follow as many records as
// one snapshot reads, and more.
func TestDeleteBeforeFindsOldAmongMany(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{MaxDistance: Exact, Durability: NoSync})
	at := time.Unix(time.Now().Unix()+10, 0)
	many := make([]Document, 2*scanChunk+10)
	for i := range many {
		many[i] = Document{Fingerprint: fingerprint.Fingerprint(i) << 40}
	}
	addAt(t, x, many[:scanChunk], at.Add(2*time.Hour))
	addAt(t, x, bareDocuments([]uint64{1 << 63}), at)
	addAt(t, x, many[scanChunk:], at.Add(2*time.Hour))
	addAt(t, x, bareDocuments([]uint64{^uint64(0)}), at)
	addAt(t, x, bareDocuments(make([]uint64, 10)), at.Add(time.Hour))
	n, err := x.DeleteBefore(ctx, at.Add(time.Minute))
	if n != 2 || err != nil {
		t.Errorf("%d expired: %v", n, err)
	}
	if s := x.Stats(); s.Documents != uint64(len(many)+10) || s.Bare != 0 || s.Removed != 2 {
		t.Errorf("%+v", s)
	}
}

// TestDeleteBeforeWithinSecond notes the time, adds documents and deletes all older documents.
// All added documents must remain.
func TestDeleteBeforeWithinSecond(t *testing.T) {
	x := openMem(t, Options{})
	second := time.Unix(1000, 0)
	for i, at := range []time.Duration{-time.Millisecond, 0, 600 * time.Millisecond} {
		x.opts.Now = func() time.Time { return second.Add(at) }
		must(t, x.Add(t.Context(), Document{Key: strconv.Itoa(i)}))
	}
	n, err := x.DeleteBefore(t.Context(), second.Add(500*time.Millisecond))
	if _, found, _ := x.Get(t.Context(), "2"); n != 1 || err != nil || !found {
		t.Errorf("%d are removed, %v; the last one is there: %v", n, err, found)
	}
}
