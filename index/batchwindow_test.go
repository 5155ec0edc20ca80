package index_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testhook"
)

// TestQueryBatchOfSeveralPasses has more queries than one pass over the index answers. Each answer must
// have the position of its query.
func TestQueryBatchOfSeveralPasses(t *testing.T) {
	if testing.Short() || testenv.Race {
		t.Skip("skipped: a million queries take seconds")
	}
	x, err := index.Open("ix", &index.Options{FS: vfs.NewMem(), Durability: index.NoSync})
	must(t, err)
	defer x.Close()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	docs := make([]index.Document, 100)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
	}
	must(t, x.Add(t.Context(), docs...))
	const n = 1<<20 + 1000
	queries := make([]index.Query, n)
	for i := range queries {
		queries[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
		if i%500 == 0 {
			queries[i].Fingerprint = docs[i/500%len(docs)].Fingerprint
		}
	}
	next := 0
	for a, err := range x.QueryBatch(testhook.WithScannedBatches(t.Context(), true), queries) {
		must(t, err)
		if a.Query != next {
			t.Fatalf("answer %d is for query %d", next, a.Query)
		}
		if next%500 == 0 && (len(a.Matches) != 1 || a.Matches[0].ID != docs[next/500%len(docs)].ID) {
			t.Fatalf("query %d: %+v, want document %d", next, a.Matches, docs[next/500%len(docs)].ID)
		}
		next++
	}
	if next != n {
		t.Errorf("%d answers, want %d", next, n)
	}
}
