package index

import (
	"context"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// eachJoin calls test with indexes of up to n documents and with the options and the rule of a
// join. Many documents are near others. Some have a scope, Shingles and a length.
func eachJoin(t *testing.T, n int, test func(*Index, []Document, JoinOptions, match.Rule)) {
	t.Helper()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	options := []JoinOptions{
		{MaxDistance: Exact, MaxShingleDistance: 16, ShortAllowance: -1},
		{MaxDistance: 2, MaxShingleDistance: 16, ShortAllowance: -1},
		{MaxDistance: 3, MaxShingleDistance: -1, MaxLengthRatio: -1},
		{MaxDistance: 10, MaxShingleDistance: 8, ShortAllowance: -1, MaxLengthRatio: -1},
	}
	for i, n := range []int{0, 1, 2, n / 2, n, n, n, n} {
		docs := make([]Document, n)
		for i := range docs {
			d := &docs[i]
			d.Fingerprint = fingerprint.Fingerprint(r.Uint64())
			if i > 0 && r.IntN(3) > 0 {
				d.Fingerprint = docs[r.IntN(i)].Fingerprint
				for range r.IntN(6) {
					d.Fingerprint ^= 1 << r.IntN(64)
				}
			}
			d.Scope = []string{"", "", "", "", "", "", "one", "two"}[r.IntN(8)]
			if r.IntN(4) == 0 {
				d.Shingles = fingerprint.ShingleSignature{r.Uint64N(1 << 20)}
				d.Tokens = 100 + r.IntN(50)
			}
		}
		x, o := openMem(t, Options{Durability: NoSync}), options[i%len(options)]
		must(t, x.Add(t.Context(), docs...))
		rule, err := joinRule(x.rule, o)
		must(t, err)
		test(x, docs, o, rule)
	}
}

// membersOf returns the IDs of a group, and checks the group. all are the documents of the index.
func membersOf(t *testing.T, all []Document, g *Group) (ids []uint64) {
	t.Helper()
	for d, err := range g.All() {
		if must(t, err); d != all[d.ID-1] {
			t.Errorf("a group has %+v, want %+v", d, all[d.ID-1])
		}
		ids = append(ids, d.ID)
	}
	if len(ids) != g.Documents || ids[0] != g.ID || !slices.IsSorted(ids) {
		t.Errorf("a group of %d documents, with %v, has the IDs %v", g.Documents, g.Document, ids)
	}
	return ids
}

// TestPairsMatchBruteForce tests that every pair of matching documents is in one pair of groups.
func TestPairsMatchBruteForce(t *testing.T) {
	eachJoin(t, 400, func(x *Index, docs []Document, o JoinOptions, rule match.Rule) {
		want, got := map[[2]uint64]int{}, map[[2]uint64]int{}
		for _, a := range docs {
			for _, b := range docs[a.ID:] {
				if rule.Matches(&a, &b) {
					want[[2]uint64{a.ID, b.ID}] = a.Fingerprint.Distance(b.Fingerprint)
				}
			}
		}
		for p, err := range x.Pairs(t.Context(), o) {
			must(t, err)
			if p.First.ID > p.Second.ID {
				t.Errorf("pair of %d and %d", p.First.ID, p.Second.ID)
			}
			for _, a := range membersOf(t, docs, &p.First) {
				for _, b := range membersOf(t, docs, &p.Second) {
					ids := [2]uint64{min(a, b), max(a, b)}
					if p.First.ID == p.Second.ID && a >= b {
						continue
					}
					if _, twice := got[ids]; twice {
						t.Errorf("the pair %v is found twice", ids)
					}
					got[ids] = p.Distance
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("n = %d, %+v: %d pairs, want %d", len(docs), o, len(got), len(want))
		}
	})
}

// naiveClusters merges clusters that have a pair of matching documents until none remain. With
// stars, it assigns each document to the first star whose first document it matches.
func naiveClusters(docs []Document, rule match.Rule, stars bool) (clusters [][]uint64) {
	owner := make([]int, len(docs))
	for i := range docs {
		owner[i] = i
		for k := range docs[:i] {
			if stars && owner[k] == k && rule.Matches(&docs[k], &docs[i]) {
				owner[i] = k
				break
			}
		}
	}
	for changed := !stars; changed; {
		changed = false
		for i := range docs {
			for k := range docs[:i] {
				if owner[i] != owner[k] && rule.Matches(&docs[i], &docs[k]) {
					owner[i] = min(owner[i], owner[k])
					owner[k], changed = owner[i], true
				}
			}
		}
	}
	all := make([][]uint64, len(docs))
	for i, owner := range owner {
		all[owner] = append(all[owner], docs[i].ID)
	}
	return slices.DeleteFunc(all, func(ids []uint64) bool { return len(ids) < 2 })
}

func TestClustersMatchBruteForce(t *testing.T) {
	eachJoin(t, 250, func(x *Index, docs []Document, o JoinOptions, rule match.Rule) {
		for _, o.Stars = range []bool{false, true} {
			got := [][]uint64{}
			for c, err := range x.Clusters(t.Context(), o) {
				must(t, err)
				var ids []uint64
				for i := range c.Members {
					ids = append(ids, membersOf(t, docs, &c.Members[i])...)
				}
				if first := ids[0]; c.Documents() != len(ids) || slices.Min(ids) != first {
					t.Errorf("%d documents in %v", c.Documents(), ids)
				}
				slices.Sort(ids)
				got = append(got, ids)
			}
			slices.SortFunc(got, slices.Compare)
			if want := naiveClusters(docs, rule, o.Stars); !reflect.DeepEqual(got, want) {
				t.Fatalf("n = %d, %+v:\n%v, want\n%v", len(docs), o, got, want)
			}
		}
	})
}

// TestStarsOfALongChain tests both methods for stars with a chain in which neighbours differ in one
// bit. Comparing members with all stars would take n*n/4 comparisons, so the pairs are sorted.
func TestStarsOfALongChain(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 4))
	for _, n := range []int{10, 65, 3000} {
		chain := make([]Group, n)
		for i := range chain {
			chain[i].Document = Document{ID: uint64(i + 1),
				Fingerprint: fingerprint.Fingerprint(i ^ i>>1)}
			if r.IntN(3) == 0 {
				chain[i].Shingles = fingerprint.ShingleSignature{r.Uint64N(1 << 24)}
			}
		}
		r.Shuffle(n, func(a, b int) { chain[a], chain[b] = chain[b], chain[a] })
		j := &joiner{rule: match.Rule{MaxDistance: 1 + r.IntN(3), MaxShingleDistance: 12,
			MaxLengthRatio: -1}}
		var want [][]Group
		for _, g := range chain {
			i := slices.IndexFunc(want, func(star []Group) bool {
				return j.rule.Matches(&star[0].Document, &g.Document)
			})
			if i < 0 {
				want = append(want, []Group{g})
			} else {
				want[i] = append(want[i], g)
			}
		}
		for name, stars := range map[string]func(context.Context, []Group) ([][]Group, error){
			"stars": j.stars, "of pairs": j.starsOfPairs} {
			if got, err := stars(t.Context(), chain); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %+v: %d of %d, want %d: %v", name, j.rule, len(got), n, len(want),
					err)
			}
		}
	}
}
