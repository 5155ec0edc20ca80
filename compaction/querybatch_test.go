package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
)

// batchIndex opens an index with packed and live documents, some of them with keys,
// Shingles and a scope, and some deleted.
func batchIndex(t *testing.T, rng *rand.Rand, plan *plan.Plan, n int, opts index.Options) (*index.Index, []uint64) {
	t.Helper()
	ctx := context.Background()
	opts.FS, opts.Plan, opts.Durability = vfs.NewMem(), plan, index.NoSync
	var fps []uint64
	var docs []index.Document
	for _, set := range testgen.Sets(rng, n/3) {
		for _, fp := range set.Fingerprints {
			fps = append(fps, fp)
			d := index.Document{Fingerprint: fingerprint.Fingerprint(fp)}
			if rng.IntN(3) == 0 {
				d.Key, d.Shingle = fmt.Sprint("page ", len(fps)), fingerprint.Fingerprint(rng.IntN(3))
				d.Scope = []string{"", "", "a"}[rng.IntN(3)]
			}
			docs = append(docs, d)
		}
	}
	rng.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	packed := len(docs) * 3 / 4
	if _, err := compaction.Load(ctx, "ix", documentsOf(docs[:packed]), compaction.LoadOptions{Index: opts}); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open("ix", &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := x.Add(ctx, docs[packed:]...); err != nil {
		t.Fatal(err)
	}
	// The packed and live fingerprints that lose some of their documents are those
	// whose postings must not be taken from the packed block alone.
	var gone []string
	for _, d := range docs {
		if d.Key != "" && rng.IntN(4) == 0 {
			gone = append(gone, d.Key)
		}
	}
	if _, err := x.Delete(ctx, gone...); err != nil {
		t.Fatal(err)
	}
	return x, fps
}

func documentsOf(docs []index.Document) func(func(index.Document, error) bool) {
	return func(yield func(index.Document, error) bool) {
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// checkBatch compares QueryBatch in one way with Query.
func checkBatch(t *testing.T, x *index.Index, fps []fingerprint.Fingerprint, opts ...index.QueryOption) (found int) {
	t.Helper()
	ctx := context.Background()
	for _, method := range []index.BatchMethod{index.QueryEach, index.QuerySorted, ""} {
		next := 0
		for answer, err := range x.QueryBatch(ctx, fps, append(opts, index.By(method))...) {
			if err != nil {
				t.Fatalf("%q: %v", method, err)
			}
			if answer.Query != next {
				t.Fatalf("%q: answer %d comes where %d is due", method, answer.Query, next)
			}
			next++
			want, err := x.Query(ctx, fps[answer.Query], opts...)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(answer.Matches, want) {
				t.Fatalf("plan %v, %q: query %v has %d matches, not %d:\n%v\n%v", x.Plan(), method, fps[answer.Query], len(answer.Matches), len(want), answer.Matches, want)
			}
			found += len(want)
		}
		if next != len(fps) {
			t.Fatalf("%q: %d answers to %d queries", method, next, len(fps))
		}
	}
	return found
}

// TestQueryBatchIsQueryInEveryWay compares the ways to answer many queries with Query,
// over packed and live documents.
func TestQueryBatchIsQueryInEveryWay(t *testing.T) {
	plans := []string{
		"k=3 0-63/32~1 32-63,0-31/32~1",
		"k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16",
		"k=0 0-63/64",
		"k=5 0-63/21~1 21-42,0-20,43-63/22~1 43-63,0-42/21~1",
		"k=10 0-63/16~2 16-31,0-15,32-63/16~2 32-47,0-31,48-63/16~2 48-63,0-47/16~1",
	}
	size, asked := 3000, 400
	if testing.Short() {
		size, asked = 900, 60
	}
	for i, text := range plans {
		t.Run(text, func(t *testing.T) {
			plan, err := plan.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			n, q := size, asked
			if plan.Probes() > 200 {
				n, q = size/3, 40
			}
			rng := rand.New(rand.NewPCG(testseed.Of(t), uint64(i)))
			x, fps := batchIndex(t, rng, plan, n, index.Options{FilterBytes: filterBytes[i%2*3], CacheBytes: cacheBytes[i%len(cacheBytes)]})
			var queries []fingerprint.Fingerprint
			for _, fp := range testgen.Queries(rng, fps, q, plan.MaxDistance) {
				queries = append(queries, fingerprint.Fingerprint(fp))
			}
			found := checkBatch(t, x, queries)
			found += checkBatch(t, x, queries, index.MaxDistance(plan.MaxDistance/2), index.Limit(2))
			found += checkBatch(t, x, queries[:len(queries)/4], index.InScope("a"))
			found += checkBatch(t, x, queries[:len(queries)/4], index.Shingle(1), index.MaxShingleDistance(1))
			checkBatch(t, x, queries[:1])
			checkBatch(t, x, nil)
			if found == 0 {
				t.Error("no query found anything")
			}
		})
	}
}

func TestQueryBatchRefusesAnUnknownWay(t *testing.T) {
	x, _ := batchIndex(t, rand.New(rand.NewPCG(1, 1)), mustPlan(t, "k=3 0-63/32~1 32-63,0-31/32~1"), 30, index.Options{})
	for _, err := range x.QueryBatch(context.Background(), make([]fingerprint.Fingerprint, 3), index.By("magic")) {
		if err == nil {
			t.Error("answers by magic")
		}
	}
}

func TestQueryBatchEndsWithItsContext(t *testing.T) {
	x, fps := batchIndex(t, rand.New(rand.NewPCG(2, 1)), mustPlan(t, "k=3 0-63/32~1 32-63,0-31/32~1"), 3000, index.Options{})
	queries := make([]fingerprint.Fingerprint, 2000)
	for i := range queries {
		queries[i] = fingerprint.Fingerprint(fps[i%len(fps)])
	}
	for _, method := range []index.BatchMethod{index.QueryEach, index.QuerySorted} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var last error
		answers := 0
		for _, err := range x.QueryBatch(ctx, queries, index.By(method)) {
			if last = err; err == nil {
				answers++
			}
			cancel()
		}
		if !errors.Is(last, context.Canceled) || answers == len(queries) {
			t.Errorf("%q: %d answers, then %v", method, answers, last)
		}
		// Who has seen enough may break off.
		for range x.QueryBatch(context.Background(), queries, index.By(method)) {
			break
		}
	}
}

func mustPlan(t *testing.T, text string) *plan.Plan {
	t.Helper()
	p, err := plan.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
