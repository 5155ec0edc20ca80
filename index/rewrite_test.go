package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/store"
)

// TestPostingsAreWrittenWhole: of postings that change again and again, what is to be
// merged stays little, and they hold what they should.
func TestPostingsAreWrittenWhole(t *testing.T) {
	if testenv.Race {
		t.Skip("it is one goroutine, and takes long")
	}
	for _, k := range []int{3, Exact} { // Exact is a plan of one table
		t.Run(fmt.Sprint(k), func(t *testing.T) { testPostingsAreWrittenWhole(t, k) })
	}
}

func testPostingsAreWrittenWhole(t *testing.T, k int) {
	ctx, seed := context.Background(), testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	x := openMem(t, Options{Durability: NoSync, MaxDistance: k})
	const changes = 4000
	docs := map[fingerprint.Fingerprint][]uint64{}
	for range changes {
		fp := fingerprint.Fingerprint(rng.IntN(2)) << 20
		ids := docs[fp]
		if len(ids) > 2 && rng.IntN(2) == 0 {
			i := rng.IntN(len(ids))
			if n, err := x.DeleteIDs(ctx, ids[i]); n != 1 || err != nil {
				t.Fatalf("seed %d: %d deleted: %v", seed, n, err)
			}
			docs[fp] = slices.Delete(ids, i, i+1)
			continue
		}
		one := []Document{{Fingerprint: fp}}
		must(t, x.Add(ctx, one...))
		docs[fp] = append(ids, one[0].ID)
	}
	for fp, want := range docs {
		_, removed, err := x.store.Now().LivePosting(uint64(fp))
		if n := removed.Len(); err != nil || n > leastRewrite/changeBytes {
			t.Errorf("seed %d: the posting of %v removes %d documents still: %v", seed, fp, n, err)
		}
		ids, err := x.store.Now().Posting(uint64(fp))
		if got := slices.Collect(ids.All()); err != nil || !slices.Equal(got, want) {
			t.Errorf("seed %d: %v has %v, not %v: %v", seed, fp, got, want, err)
		}
	}
	checkVerified(t, x)
}

// TestRewritesAreBounded: what is counted of postings does not grow with them.
func TestRewritesAreBounded(t *testing.T) {
	r := make(rewrites)
	for i := range uint64(3 * maxRewrites) {
		if r.due(i, 1) || len(r) > maxRewrites {
			t.Fatalf("posting %d of %d is to be written whole", i, len(r))
		}
	}
	if !r.due(1, leastRewrite) {
		t.Error("a posting that grew much is not to be written whole")
	}
	r[1] = growth{size: 1 << 20}
	for n := 0; !r.due(1, 0); n++ {
		if n > 1<<20/changeBytes {
			t.Fatal("a large posting is never written whole")
		}
	}
	if g := r[1]; g.since < 1<<20 {
		t.Errorf("a large posting is written whole after %d bytes", g.since)
	}
}

// TestReadersLetGoOfBlocks: a reader that waits for the next call refers to no packed block: the memory of a block
// goes with its tables, or would be kept for it.
func TestReadersLetGoOfBlocks(t *testing.T) {
	r := openMem(t, Options{}).reader()
	r.visits = []visit{{Visit: store.Visit{Block: 7}}}
	if err := r.close(); err != nil || r.visits[0].Visit != (store.Visit{}) {
		t.Errorf("%+v: %v", r.visits, err)
	}
}
