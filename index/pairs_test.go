package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testseed"
)

// joinedPair is a pair of documents, as the oracle has it.
type joinedPair struct {
	a, b     uint64 // IDs, a < b
	distance int
}

// naivePairs compares all documents with all.
func naivePairs(docs []Document, r rule) []joinedPair {
	var pairs []joinedPair
	for i := range docs {
		for k := range docs[:i] {
			a, b := &docs[i], &docs[k]
			if d := a.Fingerprint.Distance(b.Fingerprint); d <= r.k && a.Scope == b.Scope && r.lets(d, a.details(), b.details()) {
				pairs = append(pairs, joinedPair{min(a.ID, b.ID), max(a.ID, b.ID), d})
			}
		}
	}
	return sortedPairs(pairs)
}

func sortedPairs(pairs []joinedPair) []joinedPair {
	slices.SortFunc(pairs, func(p, q joinedPair) int {
		return cmp.Or(cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b))
	})
	return pairs
}

// expandedPairs lists the documents of all pairs that the index gives.
func expandedPairs(t *testing.T, x *Index, o JoinOptions) []joinedPair {
	t.Helper()
	o.Copies = true
	var pairs []joinedPair
	for p, err := range x.Pairs(context.Background(), o) {
		if err != nil {
			t.Fatal(err)
		}
		first, second := documentsInGroup(t, &p.First), documentsInGroup(t, &p.Second)
		if p.First.ID > p.Second.ID {
			t.Errorf("pair of %d and %d", p.First.ID, p.Second.ID)
		}
		same := p.First.ID == p.Second.ID
		for _, a := range first {
			for _, b := range second {
				if !same || a.ID < b.ID {
					pairs = append(pairs, joinedPair{min(a.ID, b.ID), max(a.ID, b.ID), p.Distance})
				}
			}
		}
	}
	return sortedPairs(pairs)
}

func documentsInGroup(t *testing.T, g *Group) []Document {
	t.Helper()
	var docs []Document
	for d, err := range g.All() {
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	if len(docs) != g.Documents || !slices.ContainsFunc(docs, func(d Document) bool { return d == g.Document }) {
		t.Errorf("group of %d documents, with %v: it has %v", g.Documents, g.Document, docs)
	}
	return docs
}

// joinedIndex is an index with documents of every kind, and what it holds.
func joinedIndex(t *testing.T, r *rand.Rand, n int) (*Index, []Document) {
	t.Helper()
	x := openMem(t, Options{MaxDistance: 2, Durability: NoSync, KeepDuplicates: true})
	scopes := []string{"", "", "one", "two"}
	var docs []Document
	for len(docs) < n {
		d := Document{Fingerprint: fingerprint.Fingerprint(r.Uint64())}
		if len(docs) > 0 && r.IntN(3) > 0 {
			d.Fingerprint = docs[r.IntN(len(docs))].Fingerprint
			for range r.IntN(6) {
				d.Fingerprint ^= 1 << r.IntN(64)
			}
		}
		if r.IntN(2) == 0 {
			d.Scope = scopes[r.IntN(len(scopes))]
			d.Key = fmt.Sprintf("%s/%0*d", d.Scope, 1+r.IntN(9), len(docs))
		}
		if d.Key != "" && r.IntN(2) == 0 {
			d.Shingle = fingerprint.Fingerprint(r.Uint64N(1 << 20))
			d.Tokens = 100 + r.IntN(50)
		}
		docs = append(docs, d)
	}
	if err := x.Add(context.Background(), docs...); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := 0; i < n; i += 7 {
		if docs[i].Key != "" {
			keys = append(keys, docs[i].Key)
		}
	}
	if _, err := x.Delete(context.Background(), keys...); err != nil {
		t.Fatal(err)
	}
	docs = docs[:0]
	for d, err := range x.Documents(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	return x, docs
}

func TestPairsOfAnIndexAreThoseOfComparingAll(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, n := range []int{0, 1, 2, 500} {
		x, docs := joinedIndex(t, r, n)
		for _, o := range []JoinOptions{
			{}, {MaxDistance: Exact}, {MaxDistance: 3, MaxShingleDistance: -1}, {MaxDistance: 10, MaxShingleDistance: 8},
			{MaxDistance: 2, MaxShingleDistance: -1, Prefer: ShortestKey},
		} {
			rule, err := o.rule(x)
			if err != nil {
				t.Fatal(err)
			}
			got, want := expandedPairs(t, x, o), naivePairs(docs, rule)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, n = %d, %+v: %d pairs, want %d", seed, n, o, len(got), len(want))
			}
		}
	}
}

// naiveClusters joins documents until nothing changes, or gives each to the first
// one kept that it matches.
func naiveClusters(docs []Document, j *join) [][]uint64 {
	docs = slices.Clone(docs)
	slices.SortFunc(docs, func(a, b Document) int {
		if j.prefers(&a, &b) {
			return -1
		}
		return 1
	})
	matches := func(a, b *Document) bool {
		return a.Scope == b.Scope && j.rule.matches(a.print(), b.print())
	}
	owner := make([]int, len(docs))
	for i := range docs {
		owner[i] = i
		for k := range docs[:i] {
			if j.Stars && owner[k] == k && matches(&docs[i], &docs[k]) {
				owner[i] = k
				break
			}
		}
	}
	for changed := !j.Stars; changed; {
		changed = false
		for i := range docs {
			for k := range docs[:i] {
				if owner[i] != owner[k] && matches(&docs[i], &docs[k]) {
					owner[i], owner[k], changed = min(owner[i], owner[k]), min(owner[i], owner[k]), true
				}
			}
		}
	}
	var clusters [][]uint64
	for i := range docs {
		var ids []uint64
		for k := range docs {
			if owner[k] == i {
				ids = append(ids, docs[k].ID)
			}
		}
		if len(ids) > 1 {
			slices.Sort(ids[1:]) // the first is kept
			clusters = append(clusters, ids)
		}
	}
	return sortedClusters(clusters)
}

func sortedClusters(clusters [][]uint64) [][]uint64 {
	slices.SortFunc(clusters, slices.Compare)
	return clusters
}

// longerKey prefers what ShortestKey does not.
func longerKey(a, b *Document) bool { return len(a.Key) > len(b.Key) }

func TestClustersOfAnIndexAreThoseOfComparingAll(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 2))
	for _, n := range []int{0, 1, 2, 150, 300} {
		x, docs := joinedIndex(t, r, n)
		for _, o := range []JoinOptions{
			{MaxShingleDistance: -1}, {MaxDistance: 3}, {MaxDistance: 10, Prefer: ShortestKey, MaxShingleDistance: 8},
			{Stars: true, MaxShingleDistance: -1}, {Stars: true, MaxDistance: 3, Prefer: longerKey, MaxShingleDistance: -1},
		} {
			rule, err := o.rule(x)
			if err != nil {
				t.Fatal(err)
			}
			var got [][]uint64
			for c, err := range x.Clusters(context.Background(), o) {
				if err != nil {
					t.Fatal(err)
				}
				kept := c.Members[0].ID
				ids := []uint64{kept}
				for i := range c.Members {
					for _, d := range documentsInGroup(t, &c.Members[i]) {
						if d.ID != kept {
							ids = append(ids, d.ID)
						}
					}
				}
				slices.Sort(ids[1:])
				got = append(got, ids)
			}
			want := naiveClusters(docs, &join{JoinOptions: o, rule: rule})
			if !slices.EqualFunc(sortedClusters(got), want, slices.Equal) {
				t.Fatalf("seed %d, n = %d, %+v:\n%v, want\n%v", seed, n, o, got, want)
			}
		}
	}
}

// Fingerprints are read in as many stretches as there are processors.
func TestPairsWithAnyNumberOfProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	x := openMem(t, Options{Durability: NoSync})
	if err := x.Add(context.Background(), Document{Fingerprint: 0}, Document{Fingerprint: 1}, Document{Fingerprint: 1 << 63},
		Document{Fingerprint: ^fingerprint.Fingerprint(0)}, Document{Fingerprint: ^fingerprint.Fingerprint(1)}); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 7; n++ {
		runtime.GOMAXPROCS(n)
		if got := expandedPairs(t, x, JoinOptions{MaxDistance: 1}); len(got) != 3 {
			t.Errorf("%d processors: %v", n, got)
		}
	}
}

func TestPairsStopWithTheLoopAndTheContext(t *testing.T) {
	x, _ := joinedIndex(t, rand.New(rand.NewPCG(1, 1)), 300)
	for p, err := range x.Pairs(context.Background(), JoinOptions{MaxDistance: 64}) {
		if err != nil || p.First.ID == 0 {
			t.Fatal(p, err)
		}
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	for _, err := range x.Pairs(ctx, JoinOptions{MaxDistance: 64}) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a context that is done: %v", last)
	}
	for _, err := range x.Pairs(context.Background(), JoinOptions{MaxDistance: 65}) {
		if !errors.Is(err, ErrDistance) {
			t.Errorf("k = 65: %v", err)
		}
	}
	x.Close()
	for _, err := range x.Clusters(context.Background(), JoinOptions{}) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("a closed index: %v", err)
		}
	}
}
