package index

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testgen"
)

// full reports whether the tests of racing are to run at full size.
func full() bool { return long() || os.Getenv("NEARDUP_CI") != "" && !testing.Short() }

// cliques makes groups of 1 to 8 fingerprints within k of each other, the groups far
// apart, and shuffles them. The group of each comes with it.
func cliques(rng *rand.Rand, n, k int) (fps []uint64, group []int) {
	for g := 0; len(fps) < n; g++ {
		center := xxhash.Sum64String(fmt.Sprint(g))
		for range min(1+rng.IntN(8), n-len(fps)) {
			fps = append(fps, testgen.Flip(rng, center, ^uint64(0), rng.IntN(k/2+1)))
			group = append(group, g)
		}
	}
	rng.Shuffle(n, func(i, j int) {
		fps[i], fps[j] = fps[j], fps[i]
		group[i], group[j] = group[j], group[i]
	})
	return fps, group
}

// TestRacingNearDuplicates lets 64 goroutines check and add documents of which each
// group is a clique: whatever the order, one of each is new.
func TestRacingNearDuplicates(t *testing.T) {
	n := 10_000
	if full() {
		n = 100_000
	}
	for _, batch := range []int{1, 7} {
		t.Run(fmt.Sprintf("batch=%d", batch), func(t *testing.T) {
			if batch > 1 {
				n /= 4
			}
			const k = 3
			rng := rand.New(rand.NewPCG(1, uint64(batch)))
			fps, group := cliques(rng, n, k)
			x := openMem(t, Options{MaxDistance: k, Durability: NoSync})
			groups := 0
			for _, g := range group {
				groups = max(groups, g+1)
			}
			admitted := make([]atomic.Int32, groups)
			var next atomic.Int64
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for {
						from := int(next.Add(int64(batch))) - batch
						if from >= n {
							return
						}
						docs := bareDocuments(fps[from:min(from+batch, n)])
						for i := range docs {
							docs[i].Key = fmt.Sprint(from + i)
						}
						verdicts, err := x.CheckAndAddBatch(context.Background(), docs)
						if err != nil {
							t.Error(err)
							return
						}
						for i, v := range verdicts {
							switch {
							case v.Status == New:
								admitted[group[from+i]].Add(1)
							case v.Status != Duplicate || v.Of.ID == 0 || v.Of.Distance > k ||
								v.Of.Fingerprint.Distance(docs[i].Fingerprint) != v.Of.Distance:
								t.Errorf("document %d: %+v", from+i, v)
							}
						}
					}
				})
			}
			wg.Wait()
			wrong := 0
			for g := range admitted {
				if got := admitted[g].Load(); got != 1 {
					wrong++
					t.Errorf("%d of group %d admitted", got, g)
				}
				if wrong > 10 {
					t.FailNow()
				}
			}
			if got := x.Stats().Documents; got != uint64(groups) {
				t.Errorf("%d documents of %d groups", got, groups)
			}
		})
	}
}

// TestCliquesAreApart checks what TestRacingNearDuplicates takes for granted.
func TestCliquesAreApart(t *testing.T) {
	fps, group := cliques(rand.New(rand.NewPCG(1, 1)), 5000, 3)
	for i, a := range fps {
		for j, b := range fps[:i] {
			if near := bits.OnesCount64(a^b) <= 3; near != (group[i] == group[j]) {
				t.Fatalf("%016x of group %d and %016x of group %d", a, group[i], b, group[j])
			}
		}
	}
}

// TestRacingRecrawlsSwapContents: two pages take each other's content at once. In
// any order the first is a duplicate of the other's old content, and the second is
// not, as that is gone by then. Both dropped would lose a page.
func TestRacingRecrawlsSwapContents(t *testing.T) {
	ctx := context.Background()
	rounds := 300
	if full() {
		rounds = 3000
	}
	x := openMem(t, Options{MaxDistance: 3, Durability: NoSync})
	rng := rand.New(rand.NewPCG(4, 4))
	lost := 0
	for i := range rounds {
		a, b := fingerprint.Fingerprint(rng.Uint64()), fingerprint.Fingerprint(rng.Uint64())
		keyA, keyB := fmt.Sprint("a", i), fmt.Sprint("b", i)
		if err := x.Add(ctx, Document{Key: keyA, Fingerprint: a}, Document{Key: keyB, Fingerprint: b}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var verdicts [2]Verdict
		for j, d := range []Document{{Key: keyA, Fingerprint: b ^ 1}, {Key: keyB, Fingerprint: a ^ 1}} {
			wg.Go(func() {
				var err error
				if verdicts[j], err = x.CheckAndAdd(ctx, d); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if verdicts[0].Status == verdicts[1].Status {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("in %d of %d rounds both verdicts are the same", lost, rounds)
	}
}

// TestVerdictNearestByID: of several at one distance, the smallest ID is reported.
func TestVerdictNearestByID(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{})
	if err := x.Add(ctx, bareDocuments([]uint64{0b111, 0b1000, 0b1, 0b10, 0b1})...); err != nil {
		t.Fatal(err)
	}
	v, err := x.CheckAndAdd(ctx, Document{Fingerprint: 0})
	if err != nil || v.Status != Duplicate || v.Of.ID != 2 || v.Of.Distance != 1 || v.Document.ID != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if got := fmt.Sprint(Status(0), New, Duplicate, Known, Status(9)); got != "no verdict new duplicate known status 9" {
		t.Error(got)
	}
}
