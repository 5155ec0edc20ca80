package filter

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// setPlan has the prefixes and radii of tables that begin at different bits.
type setPlan struct {
	k      int
	tables [][3]int // first bit, prefix, radius
}

var setPlans = []setPlan{
	{3, [][3]int{{0, 32, 1}, {32, 32, 1}}},
	{0, [][3]int{{0, 64, 0}}},
	{3, [][3]int{{0, 16, 0}, {16, 16, 0}, {32, 16, 0}, {48, 16, 0}}},
	{8, [][3]int{{0, 21, 2}, {21, 21, 2}, {42, 22, 2}}},
}

// packedOptions returns the options of a set of fingerprints. The stored filters of the tables in
// the mask broken cannot be loaded.
func packedOptions(t testing.TB, p setPlan, fps []uint64, budget int64, broken int) PackedOptions {
	o := PackedOptions{Budget: budget, Entries: int64(len(fps)), All: testgen.Sequence(fps),
		Done: func(err error) { testenv.Must(t, err) }}
	for _, table := range p.tables {
		o.Tables = append(o.Tables, Table{table[1], table[2],
			func(fp uint64) uint64 { return bits.RotateLeft64(fp, table[0]) }})
	}
	o.Saved = func(table int) iter.Seq2[[]byte, error] {
		f := New(o.Tables[table].Prefix, o.Entries, budget/int64(len(o.Tables)))
		if f == nil {
			panic("the set loads a filter that is useless")
		}
		if broken>>table&1 != 0 {
			return noChunks
		}
		for _, fp := range fps {
			f.Add(o.Tables[table].Permute(fp))
		}
		return chunksOf(f)
	}
	return o
}

// checkPacked fails the test if the set does not find one of the fingerprints, with a query for
// this fingerprint or near it, or if a search in memory is not exact.
func checkPacked(
	t testing.TB, rng *rand.Rand, p setPlan, s *PackedSet, fps []uint64, name string,
) {
	t.Helper()
	for _, fp := range fps[:min(len(fps), 100)] {
		if !s.MayContain(fp) {
			t.Fatalf("%s: %016x is not found", name, fp)
		}
		k := rng.IntN(p.k + 1)
		near := testgen.Flip(rng, fp, ^uint64(0), rng.IntN(k+1))
		found, known := s.AppendNear(nil, near, k)
		slices.Sort(found)
		if known && !slices.Equal(found, nearOf(fps, near, k)) {
			t.Fatalf("%s: within %d of %016x, found %016x", name, k, near, found)
		}
		for i, table := range s.tables {
			flips := uint64(0)
			if table.Radius > 0 {
				flips = 1 << (63 - rng.IntN(table.Prefix))
			}
			q := table.Permute(fp) ^ flips ^ rng.Uint64()>>table.Prefix
			if !slices.Contains(s.AppendCandidates(nil, i, q), flips) {
				t.Fatalf("%s: %016x is not found in table %d with the flips %016x", name, fp, i,
					flips)
			}
		}
	}
}

// probesLeft returns the number of probes of a random query that a set does not avoid.
func probesLeft(s *PackedSet, rng *rand.Rand) float64 {
	const queries = 1000
	var dst []uint64
	for range queries {
		q := rng.Uint64()
		for i, t := range s.tables {
			dst = s.AppendCandidates(dst, i, t.Permute(q))
		}
	}
	return float64(len(dst)) / queries
}

// TestPackedSetFindsAll compares sets with the packed fingerprints, for all plans and budgets, with
// and without stored filters. If the fingerprints fit in memory, the set searches them there.
func TestPackedSetFindsAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 0))
	for i, plan := range setPlans {
		if testenv.Race && i > 0 {
			break // the other plans load like the first one
		}
		for _, budget := range []int64{0, 100, 1000, 20_000, 1 << 20, 1 << 40} {
			for _, n := range []int{0, 1, 5000} {
				for _, broken := range []int{0, 1, -1} {
					for _, room := range []int64{0, hashTablesBytes + int64(n)*8*hashBlocks - 1,
						hashTablesBytes + int64(n)*8*hashBlocks} {
						fps := testgen.Uniform(rng, n)
						o := packedOptions(t, plan, fps, budget, broken)
						o.Near = room
						s := NewPackedSet(o)
						name := fmt.Sprintf("plan %d, budget %d, %d packed, broken %b, room %d", i,
							budget, n, broken, room)
						s.Wait(t.Context())
						checkPacked(t, rng, plan, s, fps, name)
						_, known := s.AppendNear(nil, 1, 0)
						if wanted := budget == 1<<40 && n > 0 &&
							room == hashTablesBytes+int64(n)*8*hashBlocks; known != wanted {
							t.Errorf("%s: known is %t", name, known)
						}
						if s.Bytes() > budget {
							t.Errorf("%s: %d bytes", name, s.Bytes())
						}
						if n == 0 && (s.MayContain(1) || s.AppendCandidates(nil, 0, 1) != nil) {
							t.Errorf("%s: an empty set reports a fingerprint", name)
						}
						s.Close()
					}
				}
			}
		}
	}
}

// TestPackedSetLoads tests that a set reports every fingerprint until it is loaded, also after the
// loading has failed or was cancelled. A loaded set must report few unrelated fingerprints.
func TestPackedSetLoads(t *testing.T) {
	rng := rand.New(rand.NewPCG(52, 0))
	plan, fps := setPlans[0], testgen.Uniform(rng, 5000)
	for name, fails := range map[string]error{"loads": nil, "fails": errors.New("scan fails"),
		"closed": nil} {
		begun, goOn := make(chan struct{}), make(chan struct{})
		var told []error
		o := packedOptions(t, plan, fps, 1<<30, -1)
		o.Done = func(err error) { told = append(told, err) }
		o.All = (&memStore{visible: fps}).stored(func() error {
			close(begun)
			<-goOn
			return fails
		})
		s := NewPackedSet(o)
		<-begun
		all := float64(2 * 33) // probes of a query
		if left := probesLeft(s, rng); left != all || !s.MayContain(1) {
			t.Errorf("%s: a set that is not loaded leaves %.3f probes", name, left)
		}
		if name == "closed" {
			s.cancel()
		}
		close(goOn)
		s.Wait(t.Context())
		left := probesLeft(s, rng)
		if name == "loads" && left > 0.2 || name != "loads" && left != all {
			t.Errorf("%s: %.3f probes left", name, left)
		}
		if len(told) != 1 || !errors.Is(told[0], fails) {
			t.Errorf("%s: Done was called with %v", name, told)
		}
		checkPacked(t, rng, plan, s, fps, name)
		s.Close()
	}
}

// TestPackedSetLoadsSavedFilters tests that a set uses stored filters, and builds only unusable
// filters again.
func TestPackedSetLoadsSavedFilters(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	fps := testgen.Uniform(rng, 3000)
	for broken := range 4 {
		scans := 0
		o := packedOptions(t, setPlans[0], fps, 1<<30, broken)
		o.All = func(yield func(uint64, error) bool) {
			scans++
			testgen.Sequence(fps)(yield)
		}
		s := NewPackedSet(o)
		s.Wait(t.Context())
		if left := probesLeft(s, rng); scans != min(broken, 1) || left > 0.2 {
			t.Errorf("broken %b: %d scans; %.3f probes left", broken, scans, left)
		}
		s.Close()
	}
	s := NewPackedSet(packedOptions(t, setPlan{1, [][3]int{{0, 4, 1}}}, fps, 1<<20, 0))
	defer s.Close()
	s.Wait(t.Context())
	if got := s.AppendCandidates(nil, 0, 0); len(got) != 5 {
		t.Errorf("%d candidates, want 5", len(got))
	}
}
