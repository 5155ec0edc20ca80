package selfjoin

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// near reports whether two nodes are within k bits.
func (s *Set) near(a, b Node, k int) bool {
	return s.Fingerprint(a).Distance(s.Fingerprint(b)) <= k
}

// naiveComponents returns the smallest node of the component of each node. It joins near nodes
// until nothing changes.
func naiveComponents(s *Set, k int) []Node {
	owner := make([]Node, s.Len())
	for i := range owner {
		owner[i] = Node(i)
	}
	for changed := true; changed; {
		changed = false
		for a := range owner {
			for b := range a {
				if owner[a] != owner[b] && s.near(Node(a), Node(b), k) {
					least := min(owner[a], owner[b])
					owner[a], owner[b], changed = least, least, true
				}
			}
		}
	}
	return owner
}

// naiveStars returns the center of each node: the first center near the node in the order of ranks.
func naiveStars(s *Set, k int, ranks []uint32) []Node {
	order := make([]Node, s.Len())
	for node := range order {
		order[node] = Node(node)
	}
	if ranks != nil {
		slices.SortFunc(order, func(a, b Node) int { return int(ranks[a]) - int(ranks[b]) })
	}
	owner := make([]Node, s.Len())
	var centers []Node
	for _, node := range order {
		owner[node] = node
		if i := slices.IndexFunc(centers,
			func(c Node) bool { return s.near(c, node, k) }); i >= 0 {
			owner[node] = centers[i]
		} else {
			centers = append(centers, node)
		}
	}
	return owner
}

// gather returns the clusters with several documents, each with its owner first.
func gather(s *Set, owner []Node) [][]Node {
	clusters := make([][]Node, len(owner))
	for _, o := range owner {
		clusters[o] = []Node{o}
	}
	for node, o := range owner {
		if Node(node) != o {
			clusters[o] = append(clusters[o], Node(node))
		}
	}
	repeated := maps.Collect(s.Repeated())
	return slices.DeleteFunc(clusters, func(c []Node) bool {
		return len(c) == 0 || len(c) == 1 && repeated[c[0]] <= 1
	})
}

func TestClustersMatchBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	for _, shape := range shapes {
		for _, n := range []int{0, 1, 2, 120} {
			for _, k := range []int{0, 1, 3, 10} {
				s := newSet(t, shape.make(r, n))
				o := Options{MaxDistance: k}
				check := func(what string, c *Clusters, err error, owner []Node) {
					t.Helper()
					must(t, err)
					got, want := slices.Collect(c.All()), gather(s, owner)
					if !slices.EqualFunc(got, want, slices.Equal) {
						t.Fatalf("%s, n = %d, k = %d: %s %v, want %v", shape.name, n, k, what, got,
							want)
					}
				}
				c, err := s.Components(t.Context(), o)
				check("components", c, err, naiveComponents(s, k))
				ranks := make([]uint32, s.Len())
				for i, p := range r.Perm(len(ranks)) {
					ranks[i] = uint32(p)
				}
				for _, ranks := range [][]uint32{ranks, nil} {
					c, err = s.Stars(t.Context(), o, ranks)
					check("stars", c, err, naiveStars(s, k, ranks))
				}
			}
		}
	}
}
