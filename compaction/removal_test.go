package compaction_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestRemovedDocumentsAreDropped recrawls every page ten times with changed text, deletes 90 % of
// the pages, and compacts. The index must then equal one that only ever had the remaining
// documents: no removed IDs, the same entries and the same size. The histories check answers.
func TestRemovedDocumentsAreDropped(t *testing.T) {
	if testenv.Race {
		t.Skip("takes long, and is one goroutine")
	}
	const crawls = 10
	n := testenv.Number(1000, 5000, 20_000, 1_000_000)
	for _, packed := range []bool{false, true} {
		ctx, r := t.Context(), rand.New(rand.NewPCG(testenv.Seed(t), 1))
		opts := index.Options{FS: vfs.NewMem(), Durability: index.NoSync,
			Now: func() time.Time { return epoch }}
		x, err := index.Open("ix", &opts)
		must(t, err)
		var docs []index.Document
		for crawl := range 1 + crawls {
			docs = bare(testgen.Uniform(r, n))
			for i := range docs {
				docs[i].Key = fmt.Sprint("http://a.example/", i)
			}
			for some := range slices.Chunk(docs, 1000) {
				_, err := x.CheckAndAddBatch(ctx, some)
				must(t, err)
			}
			if packed && crawl == 0 {
				_, err = compaction.Compact(ctx, x, compaction.Options{})
				must(t, err)
			}
		}
		rest := docs[:n/10]
		var keys []string
		for _, d := range docs[n/10:] {
			keys = append(keys, d.Key)
		}
		removed, err := x.Delete(ctx, keys...)
		must(t, err)
		if s := x.Stats(); removed != len(keys) || s.Removed != uint64(crawls*n+removed) ||
			s.Documents != uint64(len(rest)) {
			t.Errorf("%d removed of %d: %+v", removed, len(keys), s)
		}
		_, err = compaction.Compact(ctx, x, compaction.Options{})
		must(t, err)
		if s := x.Stats(); s.Removed != 0 || s.Live != 0 || s.Packed != uint64(len(rest)) ||
			s.Documents != uint64(len(rest)) {
			t.Errorf("after the compaction: %+v", s)
		}
		must(t, indextest.Problems(x), x.Close())

		// Compact leaves deleted records to Pebble. Run drops them.
		got, err := compaction.Run(ctx, "ix", compaction.Options{FS: opts.FS})
		must(t, err)
		opts.FS = vfs.NewMem()
		x, err = index.Open("ix", &opts)
		must(t, err, x.Add(ctx, rest...), x.Close())
		want, err := compaction.Run(ctx, "ix", compaction.Options{FS: opts.FS})
		must(t, err)
		if got.BytesAfter > want.BytesAfter*11/10+8<<10 {
			t.Errorf("%d bytes on disk, and %d in an index of the remaining documents alone",
				got.BytesAfter, want.BytesAfter)
		}
	}
}
