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
	"pgregory.net/rapid"
)

// full reports whether the tests of racing are to run at full size.
func full() bool { return long() || os.Getenv("NEARDUP_CI") != "" && !testing.Short() }

// cliques makes groups of 1 to 8 fingerprints within k of each other, the groups far
// apart, and shuffles them. The group of each comes with it.
func cliques(rng *rand.Rand, n, k int) (fps []uint64, group []int) {
	for g := 0; len(fps) < n; g++ {
		center := xxhash.Sum64String(fmt.Sprint(g))
		for range min(1+rng.IntN(8), n-len(fps)) {
			fps = append(fps, flip(rng, center, ^uint64(0), rng.IntN(k/2+1)))
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

// checker is what CheckAndAdd means: one document after the other, in memory.
type checker struct {
	k       int
	shingle int     // Options.MaxShingleDistance
	ratio   float64 // Options.MaxLengthRatio
	keep    bool
	next    uint64
	docs    []Document // by ID
}

// matches is the rule as Options has it, for documents of one scope within k bits.
func (c *checker) matches(a, b *Document) bool {
	limit, ratio := c.shingle, c.ratio
	if limit == 0 {
		limit = 16
	}
	if ratio == 0 {
		ratio = 1.3
	}
	if limit >= 0 && a.Shingle != 0 && b.Shingle != 0 &&
		bits.OnesCount64(uint64(a.Fingerprint^b.Fingerprint))+bits.OnesCount64(uint64(a.Shingle^b.Shingle)) > limit {
		return false
	}
	x, y := float64(a.Tokens), float64(b.Tokens)
	return ratio < 0 || x == 0 || y == 0 || x <= y*ratio && y <= x*ratio
}

func (c *checker) checkAndAdd(d Document) Verdict {
	v := Verdict{Document: d}
	known := false
	for i, old := range c.docs {
		if d.Key != "" && old.Key == d.Key {
			known = true
			c.docs = append(c.docs[:i:i], c.docs[i+1:]...)
			break
		}
	}
	found := false
	for _, other := range c.docs {
		distance := other.Fingerprint.Distance(d.Fingerprint)
		if other.Scope == d.Scope && distance <= c.k && c.matches(&other, &d) && (!found || distance < v.Of.Distance) {
			found, v.Of = true, Match{other, distance}
		}
	}
	switch {
	case found:
		v.Status = Duplicate
	case known:
		v.Status = Known
	}
	v.Document.ID = 0
	if !found || c.keep {
		c.next++
		v.Document.ID = c.next
		c.docs = append(c.docs, v.Document)
	}
	return v
}

// shingleLimits for Options.MaxShingleDistance, and lengthRatios for
// Options.MaxLengthRatio: the default, others, and none.
var (
	shingleLimits = []int{0, 0, 13, 15, 18, -1}
	lengthRatios  = []float64{0, 0, 1, 1.5, -1}
)

// withoutTimes makes verdicts of one second and of another comparable.
func withoutTimes(v Verdict) Verdict {
	v.Document.Added, v.Of.Added = fixed, fixed
	return v
}

// drawDocument draws from few fingerprints, keys and scopes, so that all of them meet.
func drawDocument(t *rapid.T) Document {
	fp := rapid.SampledFrom([]uint64{0, 0xffff, 0xffff << 24, ^uint64(0)}).Draw(t, "center")
	for range rapid.IntRange(0, 5).Draw(t, "flips") {
		fp ^= 1 << rapid.SampledFrom([]int{0, 1, 15, 16, 31, 32, 47, 48, 62, 63}).Draw(t, "bit")
	}
	d := Document{
		Fingerprint: fingerprint.Fingerprint(fp),
		Key:         rapid.SampledFrom(append(collidingKeys(), "", "", "", "a", "b", "c", "d", "e", "f")).Draw(t, "key"),
		Scope:       rapid.SampledFrom(append(collidingKeys(), "", "", "s")).Draw(t, "scope"),
		ID:          rapid.Uint64Range(0, 9).Draw(t, "ID of the caller, to be ignored"),
	}
	// None, and some within 16 bits of each other, some just beyond.
	d.Shingle = rapid.SampledFrom([]fingerprint.Fingerprint{0, 0, 0, 7, 0xffff, 0x3ffff, ^fingerprint.Fingerprint(0)}).Draw(t, "shingle")
	d.Tokens = rapid.SampledFrom([]int{0, 0, 100, 130, 131, 150, 1000}).Draw(t, "length")
	return d
}

// TestCheckAndAddBatchIsOneByOne compares batches, with keys repeated in them, and
// single calls, with the model.
func TestCheckAndAddBatchIsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &checker{
			k:       rapid.SampledFrom([]int{0, 1, 3, 5}).Draw(t, "k"),
			shingle: rapid.SampledFrom(shingleLimits).Draw(t, "shingle limit"),
			ratio:   rapid.SampledFrom(lengthRatios).Draw(t, "length ratio"),
			keep:    rapid.Bool().Draw(t, "keep duplicates"),
		}
		k := c.k
		if k == 0 {
			k = Exact
		}
		x := openRapid(t, Options{MaxDistance: k, MaxShingleDistance: c.shingle, MaxLengthRatio: c.ratio, KeepDuplicates: c.keep, Durability: NoSync})
		defer x.Close()
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			docs := make([]Document, rapid.IntRange(0, 12).Draw(t, "documents"))
			for i := range docs {
				docs[i] = drawDocument(t)
			}
			before := append([]Document(nil), docs...)
			verdicts, err := x.CheckAndAddBatch(context.Background(), docs)
			if err != nil || len(verdicts) != len(docs) {
				t.Fatal(len(verdicts), err)
			}
			for i, d := range docs {
				if d != before[i] {
					t.Fatalf("document %d is changed from %+v to %+v", i, before[i], d)
				}
				want := c.checkAndAdd(d)
				if got := withoutTimes(verdicts[i]); got != withoutTimes(want) {
					t.Fatalf("document %d, %+v:\n%+v, not\n%+v", i, d, got, want)
				}
				if stored := verdicts[i].Document.ID != 0; stored == verdicts[i].Document.Added.IsZero() {
					t.Fatalf("document %d, stored %v, was added %v", i, stored, verdicts[i].Document.Added)
				}
			}
			checkInvariants(t, x, c.docs, c.next)
		}
	})
}

// TestCheckAndAddOverWindows runs a batch of several windows with chains of near
// duplicates across their borders, against the model.
func TestCheckAndAddOverWindows(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, keep := range []bool{false, true} {
		c := &checker{k: 3, keep: keep}
		x := openMem(t, Options{KeepDuplicates: keep, Durability: NoSync})
		fps := clustered(rng, 3*checkWindow+100)
		docs := bareDocuments(fps)
		for i := range docs {
			if rng.IntN(2) == 0 {
				docs[i].Key = fmt.Sprint(rng.IntN(600))
			}
			if rng.IntN(3) > 0 {
				docs[i].Shingle = fingerprint.Fingerprint(flip(rng, 1, ^uint64(0), rng.IntN(15)))
				docs[i].Tokens = 100 + rng.IntN(50)
			}
		}
		verdicts, err := x.CheckAndAddBatch(context.Background(), docs)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range verdicts {
			if got, want := withoutTimes(v), withoutTimes(c.checkAndAdd(docs[i])); got != want {
				t.Fatalf("document %d, %+v:\n%+v, not\n%+v", i, docs[i], got, want)
			}
		}
		checkInvariants(t, x, c.docs, c.next)
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
	if got := fmt.Sprint(New, Duplicate, Known, Status(9)); got != "new duplicate known unknown" {
		t.Error(got)
	}
}
