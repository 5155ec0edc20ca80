package selfjoin

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// naiveComponents joins the nodes of pairs until nothing changes.
func naiveComponents(s *Set, k int) [][]Node {
	owner := make([]Node, s.Len())
	for i := range owner {
		owner[i] = Node(i)
	}
	for changed := true; changed; {
		changed = false
		for a := range owner {
			for b := range a {
				if owner[a] != owner[b] &&
					s.Fingerprint(Node(a)).Distance(s.Fingerprint(Node(b))) <= k {
					owner[a], owner[b], changed = min(owner[a], owner[b]),
						min(owner[a], owner[b]), true
				}
			}
		}
	}
	return naiveGather(s, owner)
}

func naiveGather(s *Set, owner []Node) [][]Node {
	var clusters [][]Node
	repeated := maps.Collect(s.Repeated())
	for a := range owner {
		cluster := []Node{Node(a)}
		for b := range owner {
			if b != a && owner[b] == Node(a) {
				cluster = append(cluster, Node(b))
			}
		}
		if owner[a] == Node(a) && (len(cluster) > 1 || repeated[Node(a)] > 1) {
			clusters = append(clusters, cluster)
		}
	}
	return clusters
}

// naiveStars assigns each node, in the order of ranks, to the first center near it.
func naiveStars(s *Set, k int, ranks []uint32) [][]Node {
	order := make([]Node, s.Len())
	for node, rank := range ranks {
		order[rank] = Node(node)
	}
	owner := make([]Node, s.Len())
	var centers []Node
	for _, node := range order {
		owner[node] = node
		for _, c := range centers {
			if s.Fingerprint(c).Distance(s.Fingerprint(node)) <= k {
				owner[node] = c
				break
			}
		}
		if owner[node] == node {
			centers = append(centers, node)
		}
	}
	return naiveGather(s, owner)
}

func equalClusters(c *Clusters, want [][]Node) bool {
	return slices.EqualFunc(slices.Collect(c.All()), want, slices.Equal)
}

func TestClustersMatchBruteForce(t *testing.T) {
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 2))
	for _, shape := range shapes {
		for _, n := range []int{0, 1, 2, 120} {
			for _, k := range []int{0, 1, 3, 10} {
				s := newSet(t, shape.make(r, n))
				o := Options{MaxDistance: k}
				got, err := s.Components(context.Background(), o)
				must(t, err)
				if want := naiveComponents(s, k); !equalClusters(got, want) {
					t.Fatalf("seed %d, %s, n = %d, k = %d: components %v, want %v", seed,
						shape.name, n, k, slices.Collect(got.All()), want)
				}
				ranks := make([]uint32, s.Len())
				for i, p := range r.Perm(len(ranks)) {
					ranks[i] = uint32(p)
				}
				if got, err = s.Stars(context.Background(), o, ranks); err != nil {
					t.Fatal(err)
				}
				if want := naiveStars(s, k, ranks); !equalClusters(got, want) {
					t.Fatalf("seed %d, %s, n = %d, k = %d: stars %v, want %v", seed, shape.name, n,
						k, slices.Collect(got.All()), want)
				}
			}
		}
	}
}

func TestStarsWithoutRanksGoByFingerprint(t *testing.T) {
	s := newSet(t, []fp{7, 1, 3, 1 << 40})
	got, err := s.Stars(context.Background(), Options{MaxDistance: 1}, nil)
	must(t, err)
	// 1 takes 3. 7 is near only 3, which is taken. 0x10000000000 is near no other node.
	if want := [][]Node{{0, 1}}; !equalClusters(got, want) {
		t.Errorf("stars %v, want %v", slices.Collect(got.All()), want)
	}
}
