package index

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testseed"
)

// chainOf makes a group of each document of a chain in which neighbours differ in one bit.
func chainOf(r *rand.Rand, n int) []Group {
	members := make([]Group, n)
	for i := range members {
		d := Document{ID: uint64(i + 1), Fingerprint: fingerprint.Fingerprint(i ^ i>>1)}
		if r.IntN(3) == 0 {
			d.Shingle = fingerprint.Fingerprint(r.Uint64N(1 << 24))
		}
		members[i] = Group{Document: d, Documents: 1}
	}
	r.Shuffle(n, func(a, b int) { members[a], members[b] = members[b], members[a] })
	return members
}

func groupIDs(parts [][]Group) [][]uint64 {
	var ids [][]uint64
	for _, part := range parts {
		var of []uint64
		for i := range part {
			of = append(of, part[i].ID)
		}
		ids = append(ids, of)
	}
	return ids
}

// TestStarsOfALongChain: comparing each member with all that are kept takes n*n/4
// comparisons for a chain.
func TestStarsOfALongChain(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 21))
	for _, n := range []int{10, 65, 3000} {
		members := chainOf(r, n)
		j := &join{rule: rule{k: 1 + r.IntN(3), limit: 12, ratio: -1}}
		got, err := j.stars(t.Context(), members)
		if err != nil {
			t.Fatal(err)
		}
		var want [][]Group
	next:
		for i := range members {
			for p := range want {
				if j.matches(&want[p][0], &members[i]) {
					want[p] = append(want[p], members[i])
					continue next
				}
			}
			want = append(want, []Group{members[i]})
		}
		if !slices.EqualFunc(groupIDs(got), groupIDs(want), slices.Equal) {
			t.Errorf("seed %d, k = %d: %d stars of %d, want %d", seed, j.k, len(got), n, len(want))
		}
		if got, err = j.starsOfPairs(t.Context(), members); err != nil || !slices.EqualFunc(groupIDs(got), groupIDs(want), slices.Equal) {
			t.Errorf("seed %d, k = %d: %d stars of %d by pairs, want %d: %v", seed, j.k, len(got), n, len(want), err)
		}
	}
}

// TestClustersComeInOrder: they are read by several workers, many at once.
func TestClustersComeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 22))
	x := openMem(t, Options{Durability: NoSync, KeepDuplicates: true})
	const n = 61 * componentsEach / 2
	docs := make([]Document, 0, 2*n)
	for range n {
		f := fingerprint.Fingerprint(r.Uint64())
		docs = append(docs, Document{Fingerprint: f}, Document{Fingerprint: f ^ 1<<7, Key: "k" + f.String()})
	}
	for chunk := range slices.Chunk(docs, 5000) {
		if err := x.Add(t.Context(), chunk...); err != nil {
			t.Fatal(err)
		}
	}
	clusters, last := 0, fingerprint.Fingerprint(0)
	for c, err := range x.Clusters(t.Context(), JoinOptions{MaxDistance: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		first := min(c.Members[0].Fingerprint, c.Members[1].Fingerprint)
		if len(c.Members) != 2 || c.Members[0].ID+1 != c.Members[1].ID || first <= last {
			t.Fatalf("behind %v: %+v", last, c)
		}
		clusters, last = clusters+1, first
	}
	if clusters != n {
		t.Errorf("%d clusters, want %d", clusters, n)
	}
}

// TestPairsOfOneFingerprintWithManyShingles: they are not held until the last is found.
func TestPairsOfOneFingerprintWithManyShingles(t *testing.T) {
	const n = 700
	x := openMem(t, Options{Durability: NoSync, KeepDuplicates: true, MaxDistance: 3})
	docs := make([]Document, n)
	for i := range docs {
		docs[i] = Document{Fingerprint: 5, Shingle: fingerprint.Fingerprint(i + 1)}
	}
	docs = append(docs, Document{Fingerprint: 7})
	if err := x.Add(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	pairs, most := 0, 0
	err := x.withJoin(t.Context(), JoinOptions{MaxShingleDistance: 64}, func(j *join) error {
		return j.pairs(context.Background(), func(some []Pair) error {
			pairs, most = pairs+len(some), max(most, len(some))
			return nil
		})
	})
	if err != nil || pairs != n*(n-1)/2+n || most > pairsAtOnce+n {
		t.Errorf("%d pairs, want %d, %d at once: %v", pairs, n*(n-1)/2+n, most, err)
	}
}
