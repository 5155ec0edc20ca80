package selfjoin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testenv"
)

// wantedCluster is an ExternalCluster with its members.
type wantedCluster struct {
	copies  int64
	members []Member
}

// inMemoryClusters are those of Set, as ExternalClusters lists them.
func inMemoryClusters(t *testing.T, fps []fp, o ExternalClusterOptions) []wantedCluster {
	t.Helper()
	s, places, err := NewSetWithPlaces(slices.Clone(fps))
	must(t, err)
	var clusters *Clusters
	if o.Stars {
		clusters, err = s.Stars(t.Context(), o.Options, s.Ranks(func(a, b Node) int { return cmp.Compare(places.Of(a)[0], places.Of(b)[0]) }))
	} else {
		clusters, err = s.Components(t.Context(), o.Options)
	}
	must(t, err)
	var all []wantedCluster
	for nodes := range clusters.All() {
		nodes = slices.Clone(nodes)
		slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(places.Of(a)[0], places.Of(b)[0]) })
		var c wantedCluster
		for _, node := range nodes {
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
	o.MemoryBytes = memory
	c := &externalClusters{ctx: t.Context(), files: scratchIn(t), ExternalClusterOptions: o}
	var all []wantedCluster
	if err := c.run(inParts(fps), func(c *ExternalCluster) error {
		all = append(all, wantedCluster{c.Copies, membersOf(t, c)})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(c.files.dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return all
}

func membersOf(t *testing.T, c *ExternalCluster) (members []Member) {
	t.Helper()
	for m, err := range c.Members() {
		must(t, err)
		members = append(members, m)
	}
	return members
}

func equalWanted(a, b wantedCluster) bool {
	return a.copies == b.copies && slices.Equal(a.members, b.members)
}

func TestExternalClustersAreThoseInMemory(t *testing.T) {
	// With the little one, groups are spooled and divided again.
	const little, enough = 30_000, 1 << 20
	cases := []struct {
		n, k   int
		memory int64
	}{{0, 3, enough}, {1, 3, enough}, {2, 64, enough}, {1500, 0, little}, {1500, 1, little}, {1500, 3, little}, {1500, 10, enough}}
	if testing.Short() {
		cases = cases[3:6]
	}
	r := rand.New(rand.NewPCG(testenv.Seed(t), 11))
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

// TestExternalClustersOfALongChain is one component that is as large as memory allows.
func TestExternalClustersOfALongChain(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 5000
	}
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 12))
	// Each one differs from the one before in a bit, as the numbers of a Gray code do.
	fps := fill(n, func(i int, _ []fp) fp { return fp(i^i>>1) * 0x8000_0001 })
	r.Shuffle(n, func(a, b int) { fps[a], fps[b] = fps[b], fps[a] })
	o := ExternalClusterOptions{}
	o.MaxDistance = 2
	got := externalClustersOf(t, fps, o, 20*int64(n))
	if len(got) != 1 || len(got[0].members) != n || got[0].members[0].Place != 0 {
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
				if c.Copies != int64(n-1) {
					t.Errorf("%d copies", c.Copies)
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
		if err := ExternalClusters(t.Context(), inParts(fps), o, none); !errors.Is(err, errDistance) {
			t.Errorf("k = 65: %v", err)
		}
		o.MaxDistance, o.Dir = 1, dir+"/missing"
		if err := ExternalClusters(t.Context(), inParts(fps), o, none); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("no folder for temporary files: %v", err)
		}
	}
}

// TestExternalClustersSayWhatIsTooMuch: the fingerprints that are near others must fit.
func TestExternalClustersSayWhatIsTooMuch(t *testing.T) {
	fps := fill(10_000, func(i int, _ []fp) fp { return fp(i^i>>1) * 0x8000_0001 })
	o := ExternalClusterOptions{}
	o.MaxDistance, o.MemoryBytes = 2, 19*int64(len(fps))
	c := &externalClusters{ctx: t.Context(), files: scratchIn(t), ExternalClusterOptions: o}
	err := c.run(inParts(fps), func(*ExternalCluster) error { return nil })
	if !errors.Is(err, errMemory) || !strings.Contains(err.Error(), "10000 fingerprints are near others") {
		t.Errorf("19 bytes for each: %v", err)
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
