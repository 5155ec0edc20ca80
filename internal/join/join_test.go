package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/store"
)

// documents are a Reader, by ID.
type documents []match.Document

func stored(d *match.Document) uint64 { return store.Stored(uint64(d.Fingerprint), d.Scope) }

func (docs documents) Postings(first uint64) iter.Seq2[store.Posting, error] {
	return func(yield func(store.Posting, error) bool) {
		ids := map[uint64][]uint64{}
		var fps []uint64
		for i := range docs {
			s := stored(&docs[i])
			if ids[s] == nil && s >= first {
				fps = append(fps, s)
			}
			ids[s] = append(ids[s], docs[i].ID)
		}
		slices.Sort(fps)
		for _, s := range fps {
			if !yield(store.Posting{Stored: s, IDs: store.NewIDs(ids[s]...)}, nil) {
				return
			}
		}
	}
}

func (docs documents) Document(id, s uint64) (match.Document, error) {
	i, found := slices.BinarySearchFunc(docs, id, func(d match.Document, id uint64) int { return cmp.Compare(d.ID, id) })
	if !found || stored(&docs[i]) != s {
		return match.Document{}, fmt.Errorf("document %d is not %x", id, s)
	}
	return docs[i], nil
}

func (docs documents) source(rule match.Rule, workers int) Source {
	s := Source{Rule: rule, Bare: !slices.ContainsFunc(docs, func(d match.Document) bool { return d.Scope != "" || d.Key != "" || !d.Shingles.IsZero() })}
	for range workers + 1 {
		s.Readers = append(s.Readers, docs)
	}
	return s
}

// some returns documents of every kind; bare ones have nothing but a fingerprint.
func some(r *rand.Rand, n int, bare bool) (docs documents) {
	for id := uint64(1); len(docs) < n; id += 1 + r.Uint64N(3) {
		d := match.Document{ID: id, Fingerprint: fingerprint.Fingerprint(r.Uint64())}
		if len(docs) > 0 && r.IntN(3) > 0 {
			d.Fingerprint = docs[r.IntN(len(docs))].Fingerprint
			for range r.IntN(6) {
				d.Fingerprint ^= 1 << r.IntN(64)
			}
		}
		if !bare && r.IntN(2) == 0 {
			d.Scope = []string{"", "", "one", "two"}[r.IntN(4)]
			d.Key = fmt.Sprintf("%s/%0*d", d.Scope, 1+r.IntN(9), id)
		}
		if d.Key != "" && r.IntN(2) == 0 {
			d.Shingles, d.Tokens = fingerprint.ShingleSignature{r.Uint64N(1 << 20)}, 100+r.IntN(50)
		}
		docs = append(docs, d)
	}
	return docs
}

// members returns the documents of a group.
func members(t *testing.T, g *Group) (docs []match.Document) {
	t.Helper()
	for d, err := range g.All() {
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	if len(docs) != g.Documents || !slices.Contains(docs, g.Document) {
		t.Errorf("a group of %d documents, with %v: it has %v", g.Documents, g.Document, docs)
	}
	return docs
}

var rules = []match.Rule{
	{MaxDistance: 0, MaxShingleDistance: 16, MaxLengthRatio: 1.3},
	{MaxDistance: 2, MaxShingleDistance: 16, MaxLengthRatio: 1.3},
	{MaxDistance: 3, MaxShingleDistance: -1, MaxLengthRatio: -1},
	{MaxDistance: 10, MaxShingleDistance: 8, MaxLengthRatio: -1},
}

// TestPairsAreThoseOfComparingAll: every pair of documents that match is in one pair of
// groups, however many workers read the parts.
func TestPairsAreThoseOfComparingAll(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for i, n := range []int{0, 1, 2, 5, 400, 400, 400, 400} {
		docs, workers, rule, o := some(r, n, i%3 == 2), 1+i, rules[i%len(rules)], Options{}
		want, got := map[[2]uint64]int{}, map[[2]uint64]int{}
		for i := range docs {
			for k := range docs[:i] {
				if rule.Matches(&docs[k], &docs[i]) {
					want[[2]uint64{docs[k].ID, docs[i].ID}] = docs[k].Fingerprint.Distance(docs[i].Fingerprint)
				}
			}
		}
		err := Pairs(t.Context(), docs.source(rule, workers), o, func(p Pair) bool {
			if p.First.ID > p.Second.ID {
				t.Errorf("pair of %d and %d", p.First.ID, p.Second.ID)
			}
			for _, a := range members(t, &p.First) {
				for _, b := range members(t, &p.Second) {
					ids := [2]uint64{min(a.ID, b.ID), max(a.ID, b.ID)}
					if itself := p.First.ID == p.Second.ID; itself && a.ID >= b.ID {
						continue
					}
					if _, twice := got[ids]; twice {
						t.Errorf("%v are a pair twice", ids)
					}
					got[ids] = p.Distance
				}
			}
			return true
		})
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("n = %d, %+v: %d pairs, want %d: %v", n, rule, len(got), len(want), err)
		}
	}
}

// naiveClusters joins documents until nothing changes, or gives each to the first one kept
// that it matches. The first ID of a cluster is that of the one kept.
func naiveClusters(docs documents, rule match.Rule, o Options) (clusters [][]uint64) {
	docs = slices.Clone(docs)
	slices.SortFunc(docs, func(a, b match.Document) int { return cmp.Compare(a.ID, b.ID) })
	owner := make([]int, len(docs))
	for i := range docs {
		owner[i] = i
		for k := range docs[:i] {
			if o.Stars && owner[k] == k && rule.Matches(&docs[k], &docs[i]) {
				owner[i] = k
				break
			}
		}
	}
	for changed := !o.Stars; changed; {
		changed = false
		for i := range docs {
			for k := range docs[:i] {
				if owner[i] != owner[k] && rule.Matches(&docs[i], &docs[k]) {
					owner[i], owner[k], changed = min(owner[i], owner[k]), min(owner[i], owner[k]), true
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

func TestClustersAreThoseOfComparingAll(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	for i, n := range []int{0, 1, 2, 120, 120, 250, 250, 250, 250} {
		for _, o := range []Options{{}, {Stars: true}} {
			docs, rule := some(r, n, i%3 == 2), rules[i%len(rules)]
			var got [][]uint64
			err := Clusters(t.Context(), docs.source(rule, 1+i%3), o, func(c Cluster) bool {
				ids := []uint64{c.Members[0].ID}
				for i := range c.Members {
					for _, d := range members(t, &c.Members[i]) {
						if d.ID != ids[0] {
							ids = append(ids, d.ID)
						}
					}
				}
				slices.Sort(ids[1:])
				if got = append(got, ids); c.Documents() != len(ids) {
					t.Errorf("%d documents in %v", c.Documents(), ids)
				}
				return true
			})
			slices.SortFunc(got, slices.Compare)
			if want := naiveClusters(docs, rule, o); err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("n = %d, %+v, stars %v:\n%v, want\n%v: %v", n, rule, o.Stars, got, want, err)
			}
		}
	}
}

// TestClustersComeInOrder of their fingerprints: several workers read them, many at once.
func TestClustersComeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	const n = 61 * componentsEach / 2
	var docs documents
	for i := range uint64(n) {
		fp := fingerprint.Fingerprint(r.Uint64())
		docs = append(docs, match.Document{ID: 2*i + 1, Fingerprint: fp}, match.Document{ID: 2*i + 2, Fingerprint: fp ^ 1<<7, Key: "k"})
	}
	clusters, last := 0, fingerprint.Fingerprint(0)
	err := Clusters(t.Context(), docs.source(match.Rule{MaxDistance: 1, MaxLengthRatio: -1}, 3), Options{}, func(c Cluster) bool {
		first := min(c.Members[0].Fingerprint, c.Members[1].Fingerprint)
		if len(c.Members) != 2 || c.Members[0].ID+1 != c.Members[1].ID || first <= last {
			t.Fatalf("behind %v: %+v", last, c)
		}
		clusters, last = clusters+1, first
		return true
	})
	if clusters != n || err != nil {
		t.Errorf("%d clusters, want %d: %v", clusters, n, err)
	}
}

// TestStarsOfALongChain: comparing each member with all that are kept takes n*n/4
// comparisons for a chain in which neighbours differ in one bit, so its pairs are sorted.
func TestStarsOfALongChain(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 4))
	for _, n := range []int{10, 65, 3000} {
		chain := make([]Group, n)
		for i := range chain {
			chain[i].Document = match.Document{ID: uint64(i + 1), Fingerprint: fingerprint.Fingerprint(i ^ i>>1)}
			if r.IntN(3) == 0 {
				chain[i].Shingles = fingerprint.ShingleSignature{r.Uint64N(1 << 24)}
			}
		}
		r.Shuffle(n, func(a, b int) { chain[a], chain[b] = chain[b], chain[a] })
		j := &joiner{Source: Source{Rule: match.Rule{MaxDistance: 1 + r.IntN(3), MaxShingleDistance: 12, MaxLengthRatio: -1}}}
		var want [][]uint64
		var kept []int
	next:
		for i := range chain {
			for p, k := range kept {
				if j.Rule.Matches(&chain[k].Document, &chain[i].Document) {
					want[p] = append(want[p], chain[i].ID)
					continue next
				}
			}
			kept, want = append(kept, i), append(want, []uint64{chain[i].ID})
		}
		for name, stars := range map[string]func(context.Context, []Group) ([][]Group, error){"stars": j.stars, "of pairs": j.starsOfPairs} {
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
				t.Errorf("%s, %+v: %d of %d, want %d: %v", name, j.Rule, len(got), n, len(want), err)
			}
		}
	}
}

// TestPairsOfOneFingerprintWithManyShingles: they are not held until the last is found.
func TestPairsOfOneFingerprintWithManyShingles(t *testing.T) {
	const n = 700
	docs := documents{{ID: n + 1, Fingerprint: 7}}
	for i := range uint64(n) {
		docs = slices.Insert(docs, int(i), match.Document{ID: i + 1, Fingerprint: 5, Shingles: fingerprint.ShingleSignature{i + 1}})
	}
	j, err := newJoiner(t.Context(), docs.source(match.Rule{MaxDistance: 3, MaxShingleDistance: 64, MaxLengthRatio: -1}, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	pairs, most := 0, 0
	err = j.pairs(t.Context(), func(some []Pair) error {
		pairs, most = pairs+len(some), max(most, len(some))
		return nil
	})
	if want := n*(n-1)/2 + n; err != nil || pairs != want || most > pairsAtOnce+n {
		t.Errorf("%d pairs, want %d, %d at once: %v", pairs, want, most, err)
	}
}

func TestStops(t *testing.T) {
	docs := some(rand.New(rand.NewPCG(1, 1)), 300, false)
	source := docs.source(match.Rule{MaxDistance: 64, MaxShingleDistance: -1, MaxLengthRatio: -1}, 2)
	n := 0
	if err := Pairs(t.Context(), source, Options{}, func(Pair) bool { n++; return false }); n != 1 || err != nil {
		t.Errorf("%d pairs after the first one: %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := Pairs(ctx, source, Options{}, func(Pair) bool { cancel(); return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends: %v", err)
	}
	if err := Clusters(ctx, source, Options{}, func(Cluster) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is over: %v", err)
	}
	if err := Pairs(t.Context(), documents{{ID: 2}, {ID: 1}}.source(source.Rule, 1), Options{}, func(Pair) bool { return true }); err == nil {
		t.Error("a document that cannot be read is passed over")
	}
}
