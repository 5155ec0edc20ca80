package beam

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

var must = testenv.Must

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// pipeline runs on Prism in this process. Tests compare the results of its transforms as lines.
type pipeline struct {
	*testing.T
	*beam.Pipeline
	root  beam.Scope
	dir   string
	wants []want
}

type want struct {
	name  string
	lines []string
}

func newPipeline(t *testing.T) *pipeline {
	p, s := beam.NewPipelineWithRoot()
	return &pipeline{T: t, Pipeline: p, root: s, dir: t.TempDir()}
}

// batches returns fingerprints as a PCollection<Batch> with n per batch.
func (p *pipeline) batches(fps []fp, n int) beam.PCollection {
	var batches []Batch
	for part := range slices.Chunk(fps, n) {
		batches = append(batches, Batch{part})
	}
	return beam.CreateList(p.root, batches)
}

// want compares a collection with lines after the pipeline has run.
func (p *pipeline) want(name string, got beam.PCollection, lines []string) {
	slices.Sort(lines)
	Write(p.root, p.file(len(p.wants)), 1, JSON(p.root, got))
	p.wants = append(p.wants, want{name, lines})
}

func (p *pipeline) file(i int) string { return filepath.Join(p.dir, fmt.Sprint(i)) }

func (p *pipeline) run() {
	p.Helper()
	if _, err := prism.Execute(context.Background(), p.Pipeline); err != nil {
		p.Fatal(err)
	}
	for i, w := range p.wants {
		if got := linesOf(p.T, p.file(i)); !slices.Equal(got, w.lines) {
			p.Errorf("%s: %d lines, want %d: %.500q, want %.500q", w.name, len(got),
				len(w.lines), got, w.lines)
		}
	}
}

// linesOf returns the lines of files, sorted.
func linesOf(t *testing.T, files ...string) (lines []string) {
	t.Helper()
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		for line := range strings.Lines(string(data)) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	slices.Sort(lines)
	return lines
}

// keysOf returns n fingerprints of a shape of testgen.
func keysOf(shape testgen.Key, r *rand.Rand, n int) []fp {
	fps := make([]fp, n)
	for i := range fps {
		fps[i] = fp(shape.Next(r, i))
	}
	return fps
}

func distinct(fps []fp) []fp {
	fps = slices.Clone(fps)
	slices.Sort(fps)
	return slices.Compact(fps)
}

// brutePairs compares all pairs.
func brutePairs(fps []fp, k int) (pairs []Pair) {
	fps = distinct(fps)
	for i, f := range fps {
		for _, g := range fps[:i] {
			if f.Distance(g) <= k {
				pairs = append(pairs, Pair{g, f})
			}
		}
	}
	return pairs
}

// pairLines returns the sorted lines of pairs.
func pairLines(pairs []Pair) (lines []string) {
	for _, p := range pairs {
		lines = append(lines, fmt.Sprintf(
			`{"first":{"fingerprint":"%016x"},"second":{"fingerprint":"%016x"},"distance":%d}`,
			uint64(p.First), uint64(p.Second), p.First.Distance(p.Second)))
	}
	slices.Sort(lines)
	return lines
}

// componentLines joins the members of pairs until nothing changes.
func componentLines(pairs []Pair) (lines []string) {
	least := map[fp]fp{}
	for _, p := range pairs {
		least[p.First], least[p.Second] = p.First, p.Second
	}
	for changed := true; changed; {
		changed = false
		for _, p := range pairs {
			if m := min(least[p.First], least[p.Second]); least[p.First] != m ||
				least[p.Second] != m {
				least[p.First], least[p.Second], changed = m, m, true
			}
		}
	}
	for node, of := range least {
		lines = append(lines, fmt.Sprintf(`{"cluster":"%016x","fingerprint":"%016x"}`,
			uint64(of), uint64(node)))
	}
	return lines
}

func TestPairsAndClustersMatchBruteForce(t *testing.T) {
	seed := testenv.Seed(t)
	for i, shape := range testgen.Keys {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		p := newPipeline(t)
		fps := keysOf(shape, r, 300)
		for _, o := range []Options{{MaxDistance: 0, Groups: 32}, {MaxDistance: 1, Groups: 1},
			{MaxDistance: 3}, {MaxDistance: 6, Groups: 1 << 16},
			{MaxDistance: 20, Groups: 4}, {MaxDistance: 64, Groups: 32}} {
			pairs := brutePairs(fps, o.MaxDistance)
			name := fmt.Sprintf("seed %d, %s, %+v", seed, shape.Name, o)
			all := p.batches(fps, 1+r.IntN(len(fps)))
			p.want(name+", pairs", Pairs(p.root, o, all), pairLines(pairs))
			if o.Groups < 16 {
				p.want(name+", clusters", Clusters(p.root, o, all), componentLines(pairs))
			}
		}
		p.run()
	}
}

func TestScanMatchesBruteForce(t *testing.T) {
	seed := testenv.Seed(t)
	for i, shape := range testgen.Keys {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		p := newPipeline(t)
		queries, collection := keysOf(shape, r, 100), keysOf(shape, r, 400)
		for _, k := range []int{0, 3, 16} {
			var lines []string
			for _, f := range collection {
				for _, q := range distinct(queries) {
					if q.Distance(f) <= k {
						lines = append(lines,
							fmt.Sprintf(`{"query":"%016x","found":"%016x","distance":%d}`,
								uint64(q), uint64(f), q.Distance(f)))
					}
				}
			}
			p.want(fmt.Sprintf("seed %d, %s, k = %d", seed, shape.Name, k),
				Scan(p.root, Options{MaxDistance: k}, p.batches(queries, 30),
					p.batches(collection, 90)), lines)
		}
		p.run()
	}
}

// blobsOfGroups returns the blobs that distribute emits for fingerprints.
func blobsOfGroups(t *testing.T, d *distribute, fps []fp) map[int][][]byte {
	t.Helper()
	ctx := context.Background()
	blobs := map[int][][]byte{}
	emit := func(key int, blob []byte) { blobs[key] = append(blobs[key], blob) }
	err := errors.Join(d.StartBundle(ctx, emit), d.ProcessElement(ctx, Batch{fps}, emit),
		d.FinishBundle(ctx, emit))
	must(t, err)
	return blobs
}

// eachOf passes values as a runner does.
func eachOf[T any](values []T) func(*T) bool {
	return func(to *T) bool {
		if len(values) == 0 {
			return false
		}
		*to, values = values[0], values[1:]
		return true
	}
}

// shuffledBytes is the model of docs/distributed.md for the bytes that Pairs shuffles for uniform
// fingerprints. Each table has each fingerprint once. A fingerprint takes 2.4 bits more than it
// takes to distinguish the fingerprints that are packed together.
func shuffledBytes(n, k int) float64 {
	return float64(n) * float64(k+1) * (64 - math.Log2(float64(min(n, mostPending))) + 2.4) / 8
}

// TestShuffleIsAsEstimated compares the shuffled bytes, at two sizes, with 25 bytes per
// fingerprint and with the model.
func TestShuffleIsAsEstimated(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for _, n := range []int{100_000, 1_000_000} {
		fps := make([]fp, n)
		for i := range fps {
			fps[i] = fp(r.Uint64())
		}
		got := 0
		for _, blobs := range blobsOfGroups(t, &distribute{Tables: tablesFor(3, 16)}, fps) {
			got += len(slices.Concat(blobs...))
		}
		if want := shuffledBytes(n, 3); math.Abs(float64(got)/want-1) > 0.02 {
			t.Errorf("%d bytes for %d fingerprints, the model says %.0f", got, n, want)
		}
		if n == 1_000_000 && got > 25*n {
			t.Errorf("%d bytes for %d fingerprints", got, n)
		}
	}
}

// TestGroupsOfSeveralBundles tests that a group joins the fingerprints of all bundles, and equal
// ones once. It must fail if they do not fit in memory.
func TestGroupsOfSeveralBundles(t *testing.T) {
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	fps := make([]fp, 3000)
	for i := range fps {
		if fps[i] = fp(r.Uint64()); i > 0 && r.IntN(3) == 0 {
			fps[i] = fps[r.IntN(i)] ^ 1<<r.IntN(64) ^ 1<<r.IntN(64)
		}
	}
	d := &distribute{Tables: tablesFor(3, 4)}
	half := len(fps) / 2
	first, second := blobsOfGroups(t, d, fps[:half]), blobsOfGroups(t, d, fps[half:])
	largest := 0
	for _, blobs := range blobsOfGroups(t, d, fps) {
		group, err := appendFingerprints(nil, blobs[0])
		testenv.Must(t, err)
		largest = max(largest, len(group))
	}
	for _, c := range []struct {
		memory int // number of fingerprints
		want   error
	}{{1 << 20, nil}, {largest*4/3 + 2, nil}, {largest, ErrMemory}, {largest / 2, ErrMemory}} {
		var got []Pair
		var failed error
		j := &joinGroup{Tables: d.Tables, Options: Options{MaxDistance: 3,
			MemoryBytes: int64(c.memory) * groupBytes}}
		for key := range first {
			// the last one is like a third bundle
			blobs := slices.Concat(first[key], second[key], first[key])
			failed = errors.Join(failed, j.ProcessElement(context.Background(), key, eachOf(blobs),
				func(p Pair) { got = append(got, p) }))
		}
		if !errors.Is(failed, c.want) {
			t.Errorf("seed %d, memory for %d of %d: %v, want %v", seed, c.memory, largest,
				failed, c.want)
		}
		if lines, want := pairLines(got), pairLines(brutePairs(fps, 3)); failed == nil &&
			!slices.Equal(lines, want) {
			t.Errorf("seed %d, memory for %d of %d: %d pairs, want %d", seed, c.memory, largest,
				len(lines), len(want))
		}
	}
}

// TestBrokenBlobs tests that damaged blobs cause an error or other fingerprints, but no panic.
func TestBrokenBlobs(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	blob := blobsOfGroups(t, &distribute{Tables: tablesFor(3, 1)},
		[]fp{1, 2, 3, 1 << 40, 1 << 63})[0][0]
	if got, err := appendFingerprints(nil, blob); err != nil ||
		!slices.Equal(got, []fp{1, 2, 3, 1 << 40, 1 << 63}) {
		t.Fatalf("an undamaged blob has %v, %v", got, err)
	}
	for n := 1; n < 4; n++ {
		if _, err := appendFingerprints(nil, blob[:n]); !errors.Is(err, errData) {
			t.Errorf("%d bytes of a blob: %v", n, err)
		}
	}
	if _, err := appendFingerprints(nil, blob[:len(blob)-1]); !errors.Is(err, errData) {
		t.Errorf("a blob without its end: %v", err)
	}
	for range 10_000 {
		broken := slices.Clone(blob)
		for range 1 + r.IntN(4) {
			broken[r.IntN(len(broken))] ^= byte(1 << r.IntN(8))
		}
		appendFingerprints(nil, broken[:r.IntN(len(broken)+1)])
	}
	if _, err := unpacked(make([]byte, 9)); !errors.Is(err, errData) {
		t.Errorf("9 bytes of fingerprints: %v", err)
	}
}

// TestTables tests that two fingerprints within the distance share a group of some table. Exactly
// one of these groups must be the first.
func TestTables(t *testing.T) {
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	for k := range 65 {
		for _, groups := range []int{1, 2, 16, 1 << 16} {
			tb := tablesFor(k, groups)
			for range 200 {
				f := fp(r.Uint64())
				g := f
				for range k {
					g ^= 1 << r.IntN(64)
				}
				firsts := 0
				for table := range tb.N {
					a, b := tb.turned(table, f), tb.turned(table, g)
					if tb.back(table, a) != f || tb.tableOf(tb.key(table, tb.group(a))) != table {
						t.Fatalf("k = %d, %d groups: table %d turns %v", k, groups, table, f)
					}
					if tb.group(a) == tb.group(b) && tb.first(table, f, g) {
						firsts++
					}
				}
				if firsts != 1 {
					t.Fatalf("seed %d, k = %d, %d groups: %v and %v are found %d times", seed, k,
						groups, f, g, firsts)
				}
			}
		}
	}
}

// TestEmittersThatPanic tests emitters that panic, as they do if a later step fails. In another
// goroutine, the panic would end the process.
func TestEmittersThatPanic(t *testing.T) {
	fps := []fp{0, 1, 2, 3}
	failing := errors.New("a later step failed")
	tables := tablesFor(1, 1)
	blobs := blobsOfGroups(t, &distribute{Tables: tables}, fps)[0]
	j := joinGroup{tables, Options{MaxDistance: 1, MemoryBytes: 16 << 20}}
	if err := j.ProcessElement(t.Context(), 0, eachOf(blobs),
		func(Pair) { panic(failing) }); err == nil || !strings.Contains(err.Error(), "later step") {
		t.Errorf("joinGroup: %v", err)
	}
	s := scanBatch{MaxDistance: 1}
	if err := s.ProcessElement(t.Context(), window.GlobalWindow{}, Batch{fps},
		eachOf([]Batch{{slices.Clone(fps)}}), func(Match) { panic(failing) }); err == nil ||
		!strings.Contains(err.Error(), "later step") {
		t.Errorf("scanBatch: %v", err)
	}
}
