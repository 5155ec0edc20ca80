package compaction_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestRemovedDocumentsAreDropped recrawls every page ten times with changed text, or deletes 90 %
// of the pages, and compacts. The index must then equal one that only ever had the remaining
// documents. It must have no removed IDs and the same entries, size and answers.
func TestRemovedDocumentsAreDropped(t *testing.T) {
	if testenv.Race {
		t.Skip("takes long, and is one goroutine")
	}
	n := testenv.Number(2000, 10_000, 20_000, 1_000_000)
	now := time.Unix(1_800_000_000, 0).UTC()
	for name, change := range map[string]func(*index.Index, *rand.Rand, []index.Document) (rest []index.Document, removed int, err error){
		"recrawled": func(x *index.Index, r *rand.Rand, docs []index.Document) ([]index.Document, int, error) {
			const crawls = 10
			for range crawls {
				for some := range slices.Chunk(docs, 1000) {
					for i := range some {
						some[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
					}
					verdicts, err := x.CheckAndAddBatch(t.Context(), some)
					if err != nil {
						return nil, 0, err
					}
					for i, v := range verdicts {
						if v.Status != index.Known {
							return nil, 0, fmt.Errorf("recrawl of %q: %+v", some[i].Key, v)
						}
						some[i].ID, some[i].Added = v.Document.ID, v.Document.Added
					}
				}
			}
			return docs, crawls * len(docs), nil
		},
		"deleted": func(x *index.Index, r *rand.Rand, docs []index.Document) (rest []index.Document, removed int, err error) {
			r.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
			gone, rest := docs[len(docs)/10:], docs[:len(docs)/10]
			var keys []string
			for i := range gone {
				keys = append(keys, gone[i].Key)
			}
			removed, err = x.Delete(t.Context(), keys...)
			return rest, removed, err
		},
	} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/packed=%t", name, packed), func(t *testing.T) {
				ctx, r := context.Background(), rand.New(rand.NewPCG(testenv.Seed(t), 1))
				opts := index.Options{FS: vfs.NewMem(), MaxDistance: 3, Durability: index.NoSync, Now: func() time.Time { return now }}
				x, err := index.Open("ix", &opts)
				must(t, err)
				docs := make([]index.Document, n)
				for i := range docs {
					docs[i] = index.Document{Key: fmt.Sprint("http://a.example/", i), Fingerprint: fingerprint.Fingerprint(r.Uint64())}
				}
				for some := range slices.Chunk(docs, 10_000) {
					must(t, x.Add(ctx, some...))
				}
				if packed {
					_, err = compaction.Compact(ctx, x, compaction.Options{})
					must(t, err)
				}
				rest, removed, err := change(x, r, docs)
				must(t, err)
				if s := x.Stats(); s.Removed != uint64(removed) || s.Documents != uint64(len(rest)) || removed < n*9/10 {
					t.Errorf("%d removed, %d remain: %+v", removed, len(rest), s)
				}
				checkAnswersOf(t, x, r, rest)
				_, err = compaction.Compact(ctx, x, compaction.Options{})
				must(t, err)
				if s := x.Stats(); s.Removed != 0 || s.Live != 0 || s.Packed != uint64(len(rest)) || s.Documents != uint64(len(rest)) {
					t.Errorf("after the compaction: %+v", s)
				}
				checkAnswersOf(t, x, r, rest)
				must(t, indextest.Problems(x), x.Close())

				// Compact leaves deleted records to Pebble. Run drops them.
				got, err := compaction.Run(ctx, "ix", compaction.Options{FS: opts.FS})
				must(t, err)
				alone := opts
				alone.FS = vfs.NewMem()
				x, err = index.Open("ix", &alone)
				must(t, err)
				slices.SortFunc(rest, func(a, b index.Document) int { return int(int64(a.ID) - int64(b.ID)) })
				for some := range slices.Chunk(rest, 10_000) {
					must(t, x.Add(ctx, slices.Clone(some)...))
				}
				must(t, x.Close())
				want, err := compaction.Run(ctx, "ix", compaction.Options{FS: alone.FS})
				must(t, err)
				if got.BytesAfter > want.BytesAfter*11/10+8<<10 {
					t.Errorf("%d bytes on disk, and %d in an index of the remaining documents alone", got.BytesAfter, want.BytesAfter)
				}
				t.Logf("%d documents remain, %d were removed: %d bytes on disk, %d in an index of the remaining documents alone", len(rest), removed, got.BytesAfter, want.BytesAfter)
			})
		}
	}
}

// checkAnswersOf compares answers of an index with the answers of brute force over its documents.
func checkAnswersOf(t *testing.T, x *index.Index, r *rand.Rand, docs []index.Document) {
	t.Helper()
	m := indextest.NewModel(indextest.RuleOf(index.Options{}, x.Plan().MaxDistance))
	m.Docs = slices.Clone(docs)
	slices.SortFunc(m.Docs, func(a, b index.Document) int { return int(int64(a.ID) - int64(b.ID)) })
	all, err := indextest.AllDocuments(x)
	must(t, err)
	if diff := indextest.Difference(all, m.Docs); diff != "" {
		t.Fatalf("documents: %s", diff)
	}
	for range 100 {
		like := docs[r.IntN(len(docs))]
		for range r.IntN(5) {
			like.Fingerprint ^= 1 << r.IntN(64)
		}
		must(t, m.Query(x, like, m.Rule.MaxDistance, 0))
	}
}
