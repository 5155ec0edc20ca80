package index

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/plan"
)

func mustPlan(t testing.TB, design string, k int) *plan.Plan {
	t.Helper()
	p, err := plan.Named(design, k)
	must(t, err)
	return p
}

// openMem opens an index in memory that is closed when the test ends.
func openMem(t testing.TB, opts Options) *Index {
	t.Helper()
	if opts.FS == nil {
		opts.FS = vfs.NewMem()
	}
	return openAt(t, "index", opts)
}

func openAt(t testing.TB, dir string, opts Options) *Index {
	t.Helper()
	x, err := Open(dir, &opts)
	must(t, err)
	t.Cleanup(func() {
		if err := x.Close(); err != nil && err != ErrClosed {
			t.Error(err)
		}
	})
	return x
}

func bareDocuments(fps []uint64) []Document {
	docs := make([]Document, len(fps))
	for i, fp := range fps {
		docs[i].Fingerprint = fingerprint.Fingerprint(fp)
	}
	return docs
}

// fill adds bare documents, batch by batch.
func fill(t testing.TB, x *Index, fps []uint64, batch int) {
	t.Helper()
	for chunk := range slices.Chunk(bareDocuments(fps), batch) {
		must(t, x.Add(context.Background(), chunk...))
	}
}

// must ends a test at an error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// checkInvariants compares an index with the documents that it should hold, of which the
// last that was given an ID has a certain one: counters, all documents, and of up to a hundred or so what Get and
// a query for their own fingerprint find. Verify compares the rest with them.
func checkInvariants(t testing.TB, x *Index, docs []Document, last uint64) {
	t.Helper()
	ctx := context.Background()
	byID, bare := map[uint64]Document{}, uint64(0)
	for _, d := range docs {
		d.Added = time.Time{}
		byID[d.ID] = d
		if d.Key == "" && d.Scope == "" && d.Shingle == 0 && d.Tokens == 0 {
			bare++
		}
	}
	if s := x.Stats(); s.Documents != uint64(len(docs)) || s.Bare != bare || s.NextID != last+1 {
		t.Fatalf("%+v for %d documents, %d bare, the last of them %d", s, len(docs), bare, last)
	}
	n, every := 0, 1+len(docs)/100
	for d, err := range x.Documents(ctx) {
		must(t, err)
		if d.Added.IsZero() {
			t.Fatalf("no time of arrival: %+v", d)
		}
		if n%every == 0 {
			checkFound(t, x, d)
		}
		if d.Added = (time.Time{}); d != byID[d.ID] {
			t.Fatalf("%+v, not %+v", d, byID[d.ID])
		}
		n++
	}
	if n != len(docs) {
		t.Fatalf("%d documents, not %d", n, len(docs))
	}
	checkVerified(t, x)
}

func checkFound(t testing.TB, x *Index, d Document) {
	t.Helper()
	matches, err := x.Query(context.Background(), Query{Signature: d.Signature(), Scope: d.Scope, MaxDistance: Exact})
	if err != nil || !slices.Contains(matches, Match{Document: d}) {
		t.Fatalf("%+v is not among %+v: %v", d, matches, err)
	}
	if got, found, err := x.Get(context.Background(), d.Key); d.Key != "" && (err != nil || !found || got != d) {
		t.Fatalf("key %q: %+v, %v, %v, not %+v", d.Key, got, found, err, d)
	}
}
