package index

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestJoinOptionsAreChecked tests that Pairs and Clusters refuse invalid limits.
func TestJoinOptionsAreChecked(t *testing.T) {
	x := openMem(t, Options{MaxDistance: 2})
	must(t, x.Add(t.Context(), Document{Fingerprint: 1}, Document{Fingerprint: 3}))
	for o, want := range map[JoinOptions]error{{MaxDistance: 65}: ErrDistance,
		{MaxDistance: -2}: ErrDistance, {MaxLengthRatio: 0.5}: match.ErrRatio, {}: nil} {
		found := 0
		for _, err := range x.Pairs(t.Context(), o) {
			if found++; !errors.Is(err, want) {
				t.Errorf("pairs, %+v: %v", o, err)
			}
		}
		for _, err := range x.Clusters(t.Context(), o) {
			if found++; !errors.Is(err, want) {
				t.Errorf("clusters, %+v: %v", o, err)
			}
		}
		if found != 2 {
			t.Errorf("%+v: %d results", o, found)
		}
	}
}

// joinDocuments returns documents with and without scopes, Shingles and lengths, of which many are
// near to others.
func joinDocuments(r *rand.Rand, n int) []Document {
	docs := make([]Document, n)
	for i := range docs {
		d := Document{Fingerprint: fingerprint.Fingerprint(r.Uint64())}
		if i > 0 && r.IntN(3) > 0 {
			d.Fingerprint = docs[r.IntN(i)].Fingerprint
			for range r.IntN(6) {
				d.Fingerprint ^= 1 << r.IntN(64)
			}
		}
		if r.IntN(2) == 0 {
			d.Scope = []string{"", "", "one", "two"}[r.IntN(4)]
		}
		if r.IntN(4) == 0 {
			d.Shingles, d.Tokens = fingerprint.ShingleSignature{r.Uint64N(1 << 20)}, 100+r.IntN(50)
		}
		docs[i] = d
	}
	return docs
}

// openJoin opens an index that holds documents.
func openJoin(t *testing.T, docs []Document) *Index {
	t.Helper()
	x := openMem(t, Options{Durability: NoSync})
	must(t, x.Add(t.Context(), docs...))
	return x
}

// membersOf returns the documents of a group. all are the documents of the index.
func membersOf(t *testing.T, all []Document, g *Group) (docs []Document) {
	t.Helper()
	for d, err := range g.All() {
		if must(t, err); d != all[d.ID-1] {
			t.Errorf("a group has %+v, not %+v", d, all[d.ID-1])
		}
		docs = append(docs, d)
	}
	if len(docs) != g.Documents || !slices.Contains(docs, g.Document) {
		t.Errorf("a group of %d documents, with %v: it has %v", g.Documents, g.Document, docs)
	}
	return docs
}

var joinOptions = []JoinOptions{
	{MaxDistance: Exact, MaxShingleDistance: 16, ShortAllowance: -1},
	{MaxDistance: 2, MaxShingleDistance: 16, ShortAllowance: -1},
	{MaxDistance: 3, MaxShingleDistance: -1, MaxLengthRatio: -1},
	{MaxDistance: 10, MaxShingleDistance: 8, ShortAllowance: -1, MaxLengthRatio: -1},
}

// TestPairsMatchBruteForce tests that every pair of documents that match is in one pair of
// groups.
func TestPairsMatchBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for i, n := range []int{0, 1, 2, 5, 400, 400, 400, 400} {
		docs, o := joinDocuments(r, n), joinOptions[i%len(joinOptions)]
		x := openJoin(t, docs)
		rule, err := joinRule(x.rule, o)
		must(t, err)
		want, got := map[[2]uint64]int{}, map[[2]uint64]int{}
		for i := range docs {
			for k := range docs[:i] {
				if rule.Matches(&docs[k], &docs[i]) {
					want[[2]uint64{docs[k].ID, docs[i].ID}] = docs[k].Fingerprint.Distance(
						docs[i].Fingerprint)
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
					ids := [2]uint64{min(a.ID, b.ID), max(a.ID, b.ID)}
					if p.First.ID == p.Second.ID && a.ID >= b.ID {
						continue
					}
					if _, twice := got[ids]; twice {
						t.Errorf("%v are a pair twice", ids)
					}
					got[ids] = p.Distance
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("n = %d, %+v: %d pairs, want %d", n, o, len(got), len(want))
		}
	}
}

// naiveClusters joins documents until nothing changes, or assigns each to the first kept document
// that it matches.
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
					owner[i], owner[k], changed = min(owner[i], owner[k]),
						min(owner[i], owner[k]), true
				}
			}
		}
	}
	for i := range docs {
		var ids []uint64
		for k := range docs {
			if owner[k] == i {
				ids = append(ids, docs[k].ID)
			}
		}
		if len(ids) > 1 {
			slices.Sort(ids[1:])
			clusters = append(clusters, ids)
		}
	}
	slices.SortFunc(clusters, slices.Compare)
	return clusters
}

func TestClustersMatchBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	for i, n := range []int{0, 1, 2, 120, 120, 250, 250, 250, 250} {
		docs, o := joinDocuments(r, n), joinOptions[i%len(joinOptions)]
		x := openJoin(t, docs)
		rule, err := joinRule(x.rule, o)
		must(t, err)
		for _, o.Stars = range []bool{false, true} {
			var got [][]uint64
			for c, err := range x.Clusters(t.Context(), o) {
				must(t, err)
				ids := []uint64{c.Members[0].ID}
				for i := range c.Members {
					for _, d := range membersOf(t, docs, &c.Members[i]) {
						if d.ID != ids[0] {
							ids = append(ids, d.ID)
						}
					}
				}
				slices.Sort(ids[1:])
				if got = append(got, ids); c.Documents() != len(ids) {
					t.Errorf("%d documents in %v", c.Documents(), ids)
				}
			}
			slices.SortFunc(got, slices.Compare)
			if want := naiveClusters(docs, rule, o.Stars); !slices.EqualFunc(got, want,
				slices.Equal) {
				t.Fatalf("n = %d, %+v:\n%v, want\n%v", n, o, got, want)
			}
		}
	}
}

// TestStarsOfALongChain uses a chain in which neighbours differ in one bit. Comparing each member
// with all kept ones would take n*n/4 comparisons, so its pairs are sorted.
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
		var want [][]uint64
		var kept []int
	next:
		for i := range chain {
			for p, k := range kept {
				if j.rule.Matches(&chain[k].Document, &chain[i].Document) {
					want[p] = append(want[p], chain[i].ID)
					continue next
				}
			}
			kept, want = append(kept, i), append(want, []uint64{chain[i].ID})
		}
		for name, stars := range map[string]func(context.Context, []Group) ([][]Group,
			error){"stars": j.stars, "of pairs": j.starsOfPairs} {
			parts, err := stars(t.Context(), chain)
			var got [][]uint64
			for _, part := range parts {
				var ids []uint64
				for _, g := range part {
					ids = append(ids, g.ID)
				}
				got = append(got, ids)
			}
			if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s, %+v: %d of %d, want %d: %v", name, j.rule, len(got), n,
					len(want), err)
			}
		}
	}
}

// TestPairsOfOneFingerprintWithManyShingles tests that pairs are yielded before the last one is
// found.
func TestPairsOfOneFingerprintWithManyShingles(t *testing.T) {
	const n = 700
	docs := make([]Document, n+1)
	for i := range docs {
		docs[i] = Document{Fingerprint: 5, Shingles: fingerprint.ShingleSignature{uint64(i + 1)}}
	}
	docs[n] = Document{Fingerprint: 7}
	x := openJoin(t, docs)
	must(t, x.withJoiner(t.Context(), JoinOptions{MaxDistance: 3, MaxShingleDistance: 64,
		ShortAllowance: -1, MaxLengthRatio: -1}, func(j *joiner) error {
		pairs, most := 0, 0
		err := j.pairs(t.Context(), func(some []Pair) error {
			pairs, most = pairs+len(some), max(most, len(some))
			return nil
		})
		if want := n*(n-1)/2 + n; pairs != want || most > pairsAtOnce+n {
			t.Errorf("%d pairs, want %d, %d at once", pairs, want, most)
		}
		return err
	}))
}
