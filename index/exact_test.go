package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index/plan"
)

// radiusPlans are plans with fewer tables than Manku's, which probe the prefixes
// around their own.
var radiusPlans = []string{
	"k=3 0-63/20 20-39,0-19,40-63/20 40-63,0-39/24~1",
	"k=3 0-63/32~1 32-63,0-31/32~1",
	"k=5 0-63/21~1 21-42,0-20,43-63/22~1 43-63,0-42/21~1",
	"k=2 0-63/12~2",
}

func mustParse(t testing.TB, text string) *plan.Plan {
	t.Helper()
	p, err := plan.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// numbered are the designs that have a number for a name.
var numbered = []string{"2", "3", "4", "10", "16", "20"}

func mustPlan(t testing.TB, design string, k int) *plan.Plan {
	t.Helper()
	p, err := plan.Named(design, k)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sizeFor keeps the entries of all tables together under a bound.
func sizeFor(p *plan.Plan, most, entries int) int {
	return max(1000, min(most, entries/len(p.Tables)))
}

// TestQueryIsExact compares every design at every k up to 10, and plans with a
// radius, with brute force, on all three data sets in one index.
func TestQueryIsExact(t *testing.T) {
	plans := []*plan.Plan{}
	for _, d := range numbered {
		for k := range 11 {
			plans = append(plans, mustPlan(t, d, k))
		}
	}
	for _, text := range radiusPlans {
		plans = append(plans, mustParse(t, text))
	}
	for i, p := range plans {
		if raceEnabled && i%4 != 0 { // one goroutine
			continue
		}
		t.Run(fmt.Sprintf("k=%d,tables=%d,%d", p.MaxDistance, len(p.Tables), i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			size := sizeFor(p, 30_000, 300_000)
			if testing.Short() || raceEnabled {
				size = min(size, 3000)
			}
			x, oracle := openMem(t, Options{Plan: p, Durability: NoSync}), &scanEverything{}
			for _, set := range dataSets(rng, size/3) {
				fill(t, x, oracle, set.fps, 4000)
			}
			if checkQueries(t, x, oracle, queriesFor(rng, oracle.fps, 15, p.MaxDistance), p.MaxDistance) == 0 {
				t.Error("no query found anything")
			}
		})
	}
}

// TestQueryIsExactAfterDeletesAndReopen deletes half of the documents, by key and
// by age, closes the index and opens it again.
func TestQueryIsExactAfterDeletesAndReopen(t *testing.T) {
	ctx := context.Background()
	for _, d := range numbered {
		t.Run(d, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 9))
			opts := Options{Plan: mustPlan(t, d, 3), Durability: NoSync, FS: vfs.NewMem()}
			x := openMem(t, opts)
			each := 4000
			if raceEnabled {
				each = 500
			}
			fps := slices.Concat(clustered(rng, each), adversarial(rng, each))
			docs := bareDocuments(fps)
			var gone []string
			oracle := &scanEverything{}
			for i := range docs {
				docs[i].Key = fmt.Sprintf("page/%d", i)
				if rng.IntN(2) == 0 {
					gone = append(gone, docs[i].Key)
				}
			}
			for chunk := range slices.Chunk(docs, 1000) {
				if err := x.Add(ctx, chunk...); err != nil {
					t.Fatal(err)
				}
			}
			n, err := x.Delete(ctx, gone...)
			if n != len(gone) || err != nil {
				t.Fatalf("deleted %d of %d: %v", n, len(gone), err)
			}
			left := make(map[string]bool, len(gone))
			for _, key := range gone {
				left[key] = true
			}
			for _, d := range docs {
				if !left[d.Key] {
					oracle.add(d.ID, uint64(d.Fingerprint))
				}
			}
			queries := queriesFor(rng, fps, 150, 3)
			checkQueries(t, x, oracle, queries, 3)
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			x = openMem(t, opts)
			if checkQueries(t, x, oracle, queries, 3) == 0 {
				t.Error("no query found anything")
			}
			if n, err := x.DeleteBefore(ctx, time.Now().Add(time.Hour)); n != len(oracle.ids) || err != nil {
				t.Fatalf("expired %d of %d: %v", n, len(oracle.ids), err)
			}
			checkQueries(t, x, &scanEverything{}, queries, 3)
		})
	}
}

func TestQueryBatchIsQuery(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(5, 5))
	x, oracle := openMem(t, Options{Durability: NoSync}), &scanEverything{}
	fill(t, x, oracle, clustered(rng, 5000), 1000)
	for _, n := range []int{0, 1, 63, 64, 65, 300} {
		var fps []fingerprint.Fingerprint
		for _, q := range queriesFor(rng, oracle.fps, n, 3) {
			fps = append(fps, fingerprint.Fingerprint(q))
		}
		next := 0
		for got, err := range x.QueryBatch(ctx, fps, MaxDistance(2), Limit(7)) {
			if err != nil {
				t.Fatal(err)
			}
			if got.Query != next {
				t.Fatalf("answer to query %d comes where that to %d is due", got.Query, next)
			}
			want := oracle.query(uint64(fps[next]), 2)
			want = want[:min(len(want), 7)]
			if answers := answersOf(got.Matches); !slices.Equal(answers, want) {
				t.Fatalf("query %d: %s", next, difference(answers, want))
			}
			next++
		}
		if next != n {
			t.Fatalf("%d answers to %d queries", next, n)
		}
	}
}
