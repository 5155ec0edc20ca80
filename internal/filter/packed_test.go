package filter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

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
	{3, [][3]int{{0, 20, 0}, {20, 20, 0}, {40, 24, 1}}},
	{6, [][3]int{{0, 13, 0}, {13, 17, 1}, {30, 17, 1}, {47, 17, 1}}},
	{8, [][3]int{{0, 21, 2}, {21, 21, 2}, {42, 22, 2}}},
}

func tablesOf(p setPlan) (tables []Table) {
	for _, t := range p.tables {
		tables = append(tables,
			Table{t[1], t[2], func(fp uint64) uint64 { return bits.RotateLeft64(fp, t[0]) }})
	}
	return tables
}

// packedOptions are the options of a set of fingerprints whose filters are stored, but for the
// tables in the mask broken.
func packedOptions(t testing.TB, p setPlan, fps []uint64, budget int64, broken int) PackedOptions {
	o := PackedOptions{Tables: tablesOf(p), Budget: budget, Entries: int64(len(fps)),
		All: testgen.Sequence(fps)}
	o.Saved = func(table int) iter.Seq2[[]byte, error] {
		prefix := o.Tables[table].Prefix
		f := New(prefix, o.Entries, budget/int64(len(o.Tables)))
		if f == nil {
			panic("a filter that would report everything is asked for")
		}
		if broken>>table&1 != 0 {
			return noChunks
		}
		for _, fp := range fps {
			f.Add(o.Tables[table].Permute(fp))
		}
		return chunksOf(f)
	}
	o.Done = func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	return o
}

// checkPacked fails if the set rules out one of the fingerprints for its own query or a query near
// it.
func checkPacked(
	t testing.TB, rng *rand.Rand, p setPlan, s *PackedSet, fps []uint64, name string,
) {
	t.Helper()
	for _, fp := range fps {
		if !s.MayContain(fp) {
			t.Fatalf("%s: %016x is there and not found", name, fp)
		}
		k := rng.IntN(p.k + 1)
		near := testgen.Flip(rng, fp, ^uint64(0), rng.IntN(k+1))
		if found, known := s.AppendNear(nil, near, k); known && !slices.Contains(found, fp) {
			t.Fatalf("%s: %016x is there and not found within %d of %016x", name, fp, k, near)
		}
		for i, table := range s.tables {
			flips := uint64(0)
			if table.Radius > 0 {
				flips = 1 << (63 - rng.IntN(table.Prefix))
			}
			q := table.Permute(fp) ^ flips ^ rng.Uint64()>>table.Prefix
			if !slices.Contains(s.AppendCandidates(nil, i, q), flips) {
				t.Fatalf("%s: %016x is there and not found in table %d from the flips %016x",
					name, fp, i, flips)
			}
		}
	}
}

// strangersLeft returns the number of probes of a random query that a set does not rule out.
func strangersLeft(s *PackedSet, rng *rand.Rand) float64 {
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
// and without stored filters.
func TestPackedSetFindsAll(t *testing.T) {
	const seed = 71
	rng := rand.New(rand.NewPCG(seed, 0))
	for i, plan := range setPlans {
		for _, budget := range []int64{0, 100, 1000, 20_000, 1 << 20, 1 << 40} {
			for _, n := range []int{0, 1, 100, 5000} {
				for _, broken := range []int{0, 1, -1} {
					fps := testgen.Uniform(rng, n)
					o := packedOptions(t, plan, fps, budget, broken)
					o.Near = rng.Int64N(2) << 30
					s := NewPackedSet(o)
					name := fmt.Sprintf("seed %d, plan %d, budget %d, %d packed, broken %b", seed,
						i, budget, n, broken)
					s.Wait(t.Context())
					checkPacked(t, rng, plan, s, fps[:min(n, 100)], name)
					if s.Bytes() > budget {
						t.Errorf("%s: %d bytes", name, s.Bytes())
					}
					if n == 0 && (s.MayContain(1) || s.AppendCandidates(nil, 0, 1) != nil) {
						t.Errorf("%s: a set of nothing has something", name)
					}
					s.Close()
				}
			}
		}
	}
}

// TestPackedSetLoads tests that a set reports everything until it is loaded, and forever if the
// loading fails or is cancelled. A loaded set must report few unrelated fingerprints.
func TestPackedSetLoads(t *testing.T) {
	rng, failed := rand.New(rand.NewPCG(52, 0)), errors.New("scan fails")
	plan, fps := setPlans[0], testgen.Uniform(rng, 5000)
	for _, c := range []struct {
		name string
		err  error
	}{{"loads", nil}, {"fails", failed}, {"closed", nil}} {
		begun, goOn := make(chan struct{}), make(chan struct{})
		var told []error
		o := packedOptions(t, plan, fps, 1<<30, -1)
		o.Done = func(err error) { told = append(told, err) }
		o.All = func(yield func(uint64, error) bool) {
			for i, fp := range fps {
				err := error(nil)
				if i == len(fps)/2 {
					close(begun)
					<-goOn
					err = c.err
				}
				if !yield(fp, err) {
					return
				}
			}
		}
		s := NewPackedSet(o)
		<-begun
		all := float64(2 * 33) // probes of a query
		if left := strangersLeft(s, rng); left != all || !s.MayContain(1) {
			t.Errorf("%s: a set that is not loaded leaves %.3f probes", c.name, left)
		}
		if c.name == "closed" {
			s.cancel()
		}
		close(goOn)
		s.Wait(t.Context())
		left := strangersLeft(s, rng)
		if c.name == "loads" && left > 0.2 || c.name != "loads" && left != all {
			t.Errorf("%s: %.3f probes of a stranger left", c.name, left)
		}
		if len(told) != 1 || !errors.Is(told[0], c.err) {
			t.Errorf("%s: reported %v", c.name, told)
		}
		checkPacked(t, rng, plan, s, fps[:300], c.name)
		s.Close()
	}
}

// TestPackedSetLoadsSavedFilters tests that stored filters are used, and that only unusable filters
// are built again.
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
		name := fmt.Sprintf("broken %b", broken)
		checkPacked(t, rng, setPlans[0], s, fps, name)
		if left := strangersLeft(s, rng); scans != min(broken, 1) || left > 0.2 {
			t.Errorf("%s: %d scans; %.3f probes left", name, scans, left)
		}
		s.Close()
	}
	s := NewPackedSet(packedOptions(t, setPlan{1, [][3]int{{0, 4, 1}}}, fps, 1<<20, 0))
	defer s.Close()
	s.Wait(t.Context())
	if got := s.AppendCandidates(nil, 0, 0); len(got) != 5 {
		t.Errorf("%d of 5 prefixes pass", len(got))
	}
}

// TestSetsSearchInMemory compares the search of a PackedSet and of a LiveSet with a scan. A LiveSet
// must also find the fingerprints that are added while it loads. If the fingerprints do not fit in
// memory, the set must report that.
func TestSetsSearchInMemory(t *testing.T) {
	const seed, k = 91, 3
	rng, plan := rand.New(rand.NewPCG(seed, 0)), setPlans[0]
	for _, same := range []uint64{0, 0xffff, 0xffff_ffff_0000_0000} {
		for _, n := range []int{1, maxFew, maxFew + 1, 3 * maxFew} {
			fps := testgen.Uniform(rng, n)
			for i := range fps {
				if fps[i] &^= same; i%3 == 2 {
					fps[i] = testgen.Flip(rng, fps[i-1], ^uint64(0), rng.IntN(5))
				}
			}
			slices.Sort(fps)
			fps = slices.Compact(fps)
			for _, room := range []int64{1 << 40,
				hashTablesBytes + int64(len(fps))*8*hashBlocks - 1, 0} {
				name := fmt.Sprintf("seed %d, %d alike in %016x, room for %d", seed, len(fps), same,
					room)
				o := packedOptions(t, plan, fps, 1<<40, 0)
				o.Near = room
				packed, live := NewPackedSet(o), NewLiveSet(room)
				live.Load(o.All, o.Done)
				added := testgen.Uniform(rng, 100)
				live.Add(added...)
				checkGrowing(t, rng, live, added, name)
				packed.Wait(t.Context())
				live.Wait(t.Context())
				all := slices.Concat(fps, added)
				checkPacked(t, rng, plan, packed, fps[max(0, len(fps)-300):], name)
				checkGrowing(t, rng, live, all[max(0, len(all)-300):], name)
				for range 50 {
					q := testgen.Flip(rng, all[rng.IntN(len(all))], ^uint64(0), rng.IntN(k+2))
					found, known := packed.AppendNear(nil, q, k)
					checkSearch(t, name+", packed", found, known, fps, q, k, room)
					found, known = live.AppendNear(nil, q, k)
					checkSearch(t, name+", live", found, known, all, q, k, room)
				}
				packed.Close()
				live.Close()
			}
		}
	}
}

func checkSearch(
	t *testing.T, name string, found []uint64, known bool, fps []uint64, q uint64, k int,
	room int64,
) {
	t.Helper()
	slices.Sort(found)
	if want := nearOf(fps, q, k); known && !slices.Equal(found, want) {
		t.Fatalf("%s: %016x near to %016x, want %016x", name, found, q, want)
	}
	if known != (room == 1<<40) {
		t.Fatalf("%s: the set can search near fingerprints: %v", name, known)
	}
}

// settle waits until a set is loaded.
func settle(s interface{ Wait(context.Context) error }) { s.Wait(context.Background()) }
