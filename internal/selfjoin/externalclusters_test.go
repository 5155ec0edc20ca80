package selfjoin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/testseed"
)

// wantedCluster is an ExternalCluster with its members.
type wantedCluster struct {
	copies, distinct int64
	members          []Member
}

// inMemoryClusters are those of Set, as ExternalClusters lists them.
func inMemoryClusters(t *testing.T, fps []fp, o ExternalClusterOptions) []wantedCluster {
	t.Helper()
	s := newSet(t, slices.Clone(fps))
	places := s.Places(fps)
	var clusters *Clusters
	var err error
	if o.Stars {
		clusters, err = s.Stars(t.Context(), o.Options, s.Ranks(func(a, b Node) bool { return places.Of(a)[0] < places.Of(b)[0] }))
	} else {
		clusters, err = s.Components(t.Context(), o.Options)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []wantedCluster
	for nodes := range clusters.All() {
		nodes = slices.Clone(nodes)
		slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(places.Of(a)[0], places.Of(b)[0]) })
		var c wantedCluster
		for _, node := range nodes {
			c.distinct++
			c.copies += int64(s.Copies(node))
			m := Member{s.Fingerprint(node), int64(places.Of(node)[0]), int64(s.Copies(node))}
			if !o.Copies {
				c.members = append(c.members, m)
				continue
			}
			for _, place := range places.Of(node) {
				c.members = append(c.members, Member{m.Fingerprint, int64(place), 1})
			}
		}
		all = append(all, c)
	}
	return all
}

// externalClustersOf has so little memory as no caller can ask for.
func externalClustersOf(t *testing.T, fps []fp, o ExternalClusterOptions, memory int64) []wantedCluster {
	t.Helper()
	c := &externalClusters{ctx: t.Context(), scratch: scratchIn(t), memory: memory, ExternalClusterOptions: o}
	var all []wantedCluster
	if err := c.run(inParts(fps), func(c *ExternalCluster) error {
		all = append(all, wantedCluster{c.Copies, c.Distinct, membersOf(t, c)})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(c.scratch.dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return all
}

func membersOf(t *testing.T, c *ExternalCluster) (members []Member) {
	t.Helper()
	for m, err := range c.Members() {
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	return members
}

func equalWanted(a, b wantedCluster) bool {
	return a.copies == b.copies && a.distinct == b.distinct && slices.Equal(a.members, b.members)
}

func TestExternalClustersAreThoseInMemory(t *testing.T) {
	// With the little one, groups are spooled, edges are written, clusters are in files,
	// and a window has few of the nodes.
	const little, enough = 16_000, 1 << 20
	cases := []struct {
		n, k   int
		memory int64
	}{{0, 3, enough}, {1, 3, enough}, {2, 64, enough}, {1500, 0, little}, {1500, 1, little}, {1500, 3, little}, {1500, 10, enough}}
	if testing.Short() {
		cases = cases[3:6]
	}
	r := rand.New(rand.NewPCG(testseed.Of(t), 11))
	for _, shape := range shapes {
		if testing.Short() && shape.name != "clustered" {
			continue // many small files
		}
		for _, c := range cases {
			fps := shape.make(r, c.n)
			for range c.n / 10 {
				fps[r.IntN(c.n)] = fps[r.IntN(c.n)]
			}
			o := ExternalClusterOptions{Stars: r.IntN(2) == 0, Copies: r.IntN(2) == 0}
			o.MaxDistance = c.k
			got, want := externalClustersOf(t, fps, o, c.memory), inMemoryClusters(t, fps, o)
			if !slices.EqualFunc(got, want, equalWanted) {
				t.Fatalf("%s, %+v, %+v: %d clusters, want %d: %s", shape.name, c, o, len(got), len(want), firstDifference(got, want))
			}
		}
	}
}

// TestExternalClustersOfALongChain: a window passes on a component that all others have a
// part of.
func TestExternalClustersOfALongChain(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 5000
	}
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 12))
	// Each one differs from the one before in a bit, as the numbers of a Gray code do.
	fps := fill(n, func(i int, _ []fp) fp { return fp(i^i>>1) * 0x8000_0001 })
	r.Shuffle(n, func(a, b int) { fps[a], fps[b] = fps[b], fps[a] })
	o := ExternalClusterOptions{}
	o.MaxDistance = 2
	got := externalClustersOf(t, fps, o, 400_000)
	if len(got) != 1 || got[0].distinct != int64(n) || got[0].members[0].Place != 0 {
		t.Fatalf("seed %d: %d clusters of a chain", seed, len(got))
	}
	for place, m := range got[0].members {
		if m.Place != int64(place) || m.Fingerprint != fps[place] {
			t.Fatalf("seed %d: place %d has %v", seed, place, m)
		}
	}
}

func TestExternalClustersOfCopies(t *testing.T) {
	n := 600_000 // more than fit
	if testing.Short() {
		n = 20_000
	}
	fps := slices.Repeat([]fp{7}, n)
	fps[n-1] = 1 << 60
	for _, copies := range []bool{false, true} {
		for _, k := range []int{0, 3} {
			o := ExternalClusterOptions{Copies: copies}
			o.MaxDistance, o.MemoryBytes, o.Dir = k, 1, t.TempDir()
			clusters, members, last := 0, int64(0), int64(-1)
			err := ExternalClusters(t.Context(), inParts(fps), o, func(c *ExternalCluster) error {
				clusters++
				for m, err := range c.Members() {
					if err != nil || m.Fingerprint != 7 || m.Place != last+1 {
						t.Fatalf("%v behind %d: %v", m, last, err)
					}
					members++
					last += m.Copies
				}
				if c.Copies != int64(n-1) || c.Distinct != 1 {
					t.Errorf("%d copies of %d fingerprints", c.Copies, c.Distinct)
				}
				return nil
			})
			if err != nil || clusters != 1 || last != int64(n-2) || !copies && members != 1 {
				t.Errorf("copies %v, k = %d: %d clusters, %d members: %v", copies, k, clusters, members, err)
			}
		}
	}
}

func TestExternalClustersStopOnErrors(t *testing.T) {
	fps := fill(3000, func(i int, _ []fp) fp { return fp(i/3) << 20 })
	broken := errors.New("broken")
	for _, stars := range []bool{false, true} {
		dir := t.TempDir()
		o := ExternalClusterOptions{Stars: stars}
		o.MaxDistance, o.MemoryBytes, o.Dir = 1, 1, dir
		none := func(*ExternalCluster) error { return nil }
		if err := ExternalClusters(t.Context(), inParts(fps), o, func(*ExternalCluster) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("an error of found: %v", err)
		}
		if err := ExternalClusters(t.Context(), func(yield func([]fp, error) bool) { yield(nil, broken) }, o, none); !errors.Is(err, broken) {
			t.Errorf("an error of the source: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := ExternalClusters(ctx, inParts(fps), o, none); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that is done: %v", err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		o.MaxDistance = 65
		if err := ExternalClusters(t.Context(), inParts(fps), o, none); !errors.Is(err, ErrDistance) {
			t.Errorf("k = 65: %v", err)
		}
		o.MaxDistance, o.Dir = 1, dir+"/missing"
		if err := ExternalClusters(t.Context(), inParts(fps), o, none); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("no folder for temporary files: %v", err)
		}
	}
}

// graph is nodes, and edges among them that need not be near each other.
type graph struct {
	fps    []fp // ascending
	places []int
	edges  [][2]int
}

func randomGraph(r *rand.Rand, n int) *graph {
	g := &graph{places: r.Perm(n)}
	for len(g.fps) < n {
		g.fps = append(g.fps, fp(r.Uint64()))
	}
	slices.Sort(g.fps)
	g.fps = slices.Compact(g.fps)
	if r.IntN(2) == 0 { // a path in any order
		order := r.Perm(n)
		for i := range n - 1 {
			if r.IntN(50) > 0 {
				g.edges = append(g.edges, [2]int{order[i], order[i+1]})
			}
		}
	}
	for range r.IntN(n) {
		if a, b := r.IntN(n), r.IntN(n); a != b {
			g.edges = append(g.edges, [2]int{a, b})
		}
	}
	return g
}

// files are the edges and the nodes of a graph.
func (g *graph) files(t *testing.T, home *scratch) (*recordFile[[3]uint64], *recordFile[[2]uint64]) {
	t.Helper()
	nodes, err := newRecordFile[[3]uint64](home)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range g.fps {
		err = errors.Join(err, nodes.add([3]uint64{uint64(f), uint64(g.places[i]), 1}))
	}
	edges, edgesErr := newRecordFile[[2]uint64](home)
	if err = errors.Join(err, edgesErr); err != nil {
		t.Fatal(err)
	}
	for _, e := range g.edges {
		err = errors.Join(err, edges.add([2]uint64{uint64(g.fps[max(e[0], e[1])]), uint64(g.fps[min(e[0], e[1])])}))
	}
	if err = errors.Join(err, nodes.finish(), edges.finish()); err != nil {
		t.Fatal(err)
	}
	return nodes, edges
}

// components are the labels of all nodes.
func (g *graph) components() []fp {
	roots := newForest(len(g.fps))
	for _, e := range g.edges {
		roots.join(Node(e[0]), Node(e[1]))
	}
	roots.flatten()
	labels := make([]fp, len(g.fps))
	for i, root := range roots {
		labels[i] = g.fps[root]
	}
	return labels
}

func (g *graph) stars() []fp {
	near := make([][]int, len(g.fps))
	at := make([]int, len(g.fps))
	for i, place := range g.places {
		at[place] = i
	}
	for _, e := range g.edges {
		near[e[0]] = append(near[e[0]], e[1])
		near[e[1]] = append(near[e[1]], e[0])
	}
	labels, owned := make([]fp, len(g.fps)), make([]bool, len(g.fps))
	for _, i := range at {
		if owned[i] {
			continue
		}
		owned[i], labels[i] = true, g.fps[i]
		for _, n := range near[i] {
			if !owned[n] {
				owned[n], labels[n] = true, g.fps[i]
			}
		}
	}
	return labels
}

func labelsIn(t *testing.T, file *recordFile[[1]uint64]) (labels []fp) {
	t.Helper()
	for r, err := range file.each() {
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, fp(r[0]))
	}
	return labels
}

func TestLabelsOfWindows(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 13))
	for range 30 {
		n := 1 + r.IntN(400)
		g := randomGraph(r, n)
		home := scratchIn(t)
		nodes, edges := g.files(t, home)
		memory := int64(2 * windowBytes * (1 + r.IntN(60)))
		labels, err := labelComponents(t.Context(), home, memory, nodes, edges)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := labelsIn(t, labels), g.components(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d nodes, %d edges, %d bytes: components %v, want %v", seed, n, len(g.edges), memory, got, want)
		}
	}
}

func TestLabelsOfStars(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 14))
	for range 10 {
		n := 1 + r.IntN(400)
		g := randomGraph(r, n)
		home := scratchIn(t)
		nodes, edges := g.files(t, home)
		labels, err := labelStars(t.Context(), home, 1, nodes, edges) // 64 places at a time
		if err != nil {
			t.Fatal(err)
		}
		if got, want := labelsIn(t, labels), g.stars(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d nodes, %d edges: stars %v, want %v", seed, n, len(g.edges), got, want)
		}
	}
}

func TestContractedEdgesConnectTheSame(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 15))
	for range 100 {
		g := randomGraph(r, 1+r.IntN(100))
		want := g.components()
		batch := make([][2]uint64, len(g.edges))
		for i, e := range g.edges {
			batch[i] = [2]uint64{uint64(g.fps[max(e[0], e[1])]), uint64(g.fps[min(e[0], e[1])])}
		}
		batch, err := contracted(batch)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) >= len(g.fps) {
			t.Errorf("seed %d: %d edges of %d nodes are left", seed, len(batch), len(g.fps))
		}
		g.edges = g.edges[:0]
		for _, e := range batch {
			a, _ := slices.BinarySearch(g.fps, fp(e[0]))
			b, _ := slices.BinarySearch(g.fps, fp(e[1]))
			if a <= b {
				t.Fatalf("seed %d: edge %v", seed, e)
			}
			g.edges = append(g.edges, [2]int{a, b})
		}
		if got := g.components(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: components %v, want %v", seed, got, want)
		}
	}
}

func firstDifference(got, want []wantedCluster) string {
	for i := range min(len(got), len(want)) {
		if !equalWanted(got[i], want[i]) {
			return fmt.Sprintf("number %d is %v, want %v", i, got[i], want[i])
		}
	}
	return "one ends sooner"
}
