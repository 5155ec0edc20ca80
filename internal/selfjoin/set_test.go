package selfjoin

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

func newSet(t testing.TB, fps []fp) *Set {
	t.Helper()
	s, err := NewSet(fps)
	must(t, err)
	return s
}

func TestOccurrencesOfCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	for _, n := range []int{0, 1, 2, 100, 20_000, 200_000} {
		fps := fill(n, func(int, []fp) fp { return fp(r.IntN(1+n/2)) << (r.IntN(2) * 40) })
		want := map[fp][]uint32{}
		for i, f := range fps {
			want[f] = append(want[f], uint32(i))
		}
		s, occurrences, err := NewSetWithPlaces(slices.Clone(fps))
		must(t, err)
		if s.Len() != len(want) {
			t.Fatalf("n = %d: %d nodes, want %d", n, s.Len(), len(want))
		}
		numbers := s.nodesOf(s.fps)
		repeated := maps.Collect(s.Repeated())
		for node := range Node(s.Len()) {
			f := s.Fingerprint(node)
			at, found := s.Node(f)
			if got := occurrences.Of(node); !slices.Equal(got, want[f]) || !found || at != node ||
				max(repeated[node], 1) != len(got) || numbers[node] != node {
				t.Fatalf("n = %d: node %d is %v at %v, %d copies, want %v; found again as %d, %d",
					n, node, f, got, repeated[node], want[f], at, numbers[node])
			}
		}
		counted, err := SortedSet(slices.Clone(s.fps),
			func(node Node) int { return len(occurrences.Of(node)) })
		if err != nil || !slices.Equal(counted.repeats, s.repeats) {
			t.Errorf("n = %d: SortedSet has %v, want %v: %v", n, counted.repeats, s.repeats, err)
		}
		for range 1000 {
			f := fp(r.IntN(1+n)) << (r.IntN(2) * 40)
			if _, found := s.Node(f); found != (want[f] != nil) {
				t.Fatalf("n = %d: Node(%v) found %v", n, f, found)
			}
		}
	}
}

// TestOrder tests the order of fingerprints of which pairs differ only in their lowest bit, and of
// the only fingerprint whose highest bit is set.
func TestOrder(t *testing.T) {
	var fps []fp
	for i := range fp(1000) {
		fps = append(fps, i<<53|1, i<<53)
	}
	fps[2] |= 1 << 63
	sorted, _, err := NewSetWithPlaces(slices.Clone(fps))
	must(t, err)
	if !slices.IsSorted(sorted.fps) || !slices.IsSorted(newSet(t, fps).fps) {
		t.Error("the nodes are not in the order of their fingerprints")
	}
}
