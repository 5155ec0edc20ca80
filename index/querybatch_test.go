package index

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testgen"
)

// TestQueryBatchTakesFewerAtOnce: with more hits than are kept, the answers are the same.
func TestQueryBatchTakesFewerAtOnce(t *testing.T) {
	defer func(n int64) { maxBatchHits = n }(maxBatchHits)
	maxBatchHits = 700
	rng := rand.New(rand.NewPCG(6, 5))
	x, oracle := openMem(t, Options{Durability: NoSync}), &scanEverything{}
	fill(t, x, oracle, testgen.Clustered(rng, 600), 1000)
	var fps []fingerprint.Fingerprint
	for _, q := range testgen.Queries(rng, oracle.fps, 5*leastWindow, 3) {
		fps = append(fps, fingerprint.Fingerprint(q))
	}
	found := 0
	for got, err := range x.QueryBatch(context.Background(), fps, By(QuerySorted)) {
		if err != nil {
			t.Fatal(err)
		}
		want := oracle.query(uint64(fps[got.Query]), 3)
		if answers := answersOf(got.Matches); !slices.Equal(answers, want) {
			t.Fatalf("query %d: %s", got.Query, difference(answers, want))
		}
		found += len(want)
	}
	if int64(found) < 2*maxBatchHits {
		t.Errorf("%d matches: not more than are kept at once", found)
	}
}

// TestPlanBatch: few queries are answered one by one, and many table by table.
func TestPlanBatch(t *testing.T) {
	p := mustPlan(t, "2", 3)
	for _, c := range []struct {
		queries int
		packed  int64
		cached  float64
		want    BatchMethod
	}{
		{100, 100_000_000, 0, QueryEach},
		{100_000, 100_000_000, 0, QuerySorted},
		{1_000_000, 100_000, 1, QuerySorted},
	} {
		e := batchEstimate{plan: p, queries: c.queries, packed: c.packed, cached: c.cached, cores: 2}
		if got := e.choose(); got.Method != c.want {
			t.Errorf("%d queries of %d fingerprints, %g of them in memory: %v, not %s", c.queries, c.packed, c.cached, got, c.want)
		}
	}
}
