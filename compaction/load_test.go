package compaction_test

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

var must = testenv.Must

// bare returns documents that have only a fingerprint.
func bare(fps []uint64) []index.Document {
	docs := make([]index.Document, len(fps))
	for i, fp := range fps {
		docs[i].Fingerprint = fingerprint.Fingerprint(fp)
	}
	return docs
}

// TestLoadsBeyondMemory loads more documents than fit in the minimal memory into an index that has
// documents. Half of the documents of one load have equal fingerprints. Their posting is a bitmap
// that is larger than a block.
func TestLoadsBeyondMemory(t *testing.T) {
	const equal = 0x0123456789abcdef
	n := 140_000
	if testenv.Race {
		n = 20_000
	}
	d := newDrawer(testenv.Seed(t), 3)
	d.keys = n / 7
	random := bare(testgen.Uniform(d.source.(*rand.Rand), n))
	for i := range random {
		if i%2 == 0 { // every second ID, so that the bitmap has no runs
			random[i].Fingerprint = equal
		}
		if i%1000 == 0 {
			random[i].Key = fmt.Sprint(i)
		}
	}
	for name, docs := range map[string][]index.Document{
		"repeated keys": d.documents(n * 3 / 7), "equal fingerprints": random,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			last := map[string]compaction.Progress{}
			progress := func(p compaction.Progress) {
				mu.Lock()
				defer mu.Unlock()
				if p.Done == 0 || p.Total > 0 && p.Done > p.Total {
					t.Errorf("%+v", p)
				}
				p.Done = max(p.Done, last[p.Stage].Done)
				last[p.Stage] = p
			}
			h := newHistory(vfs.NewMem())
			first := []index.Document{{Fingerprint: equal}, {Fingerprint: equal, Key: "5000"}}
			h.must(t, opened(index.Options{}, step{what: "add", docs: first})...)
			h.must(t, step{what: "load", docs: docs,
				work: compaction.Options{MemoryBytes: 1, Progress: progress}})
			h.must(t, opened(index.Options{Durability: index.NoSync},
				step{what: "delete", keys: []string{"5000", "6000", keyName(7), "nobody's"}},
				step{what: "query", method: oneByOne, limit: 16_000, docs: docs[:1]},
				step{what: "query", method: oneByOne, k: 3, limit: 3, docs: docs[:40]})...)
			// Progress is reported every 65,536 documents; with the race detector, n is smaller.
			entries := make(map[fingerprint.Fingerprint]bool)
			for _, d := range docs {
				entries[d.Fingerprint] = true
			}
			total := uint64(len(entries) * strings.Count(h.newest().plan, " "))
			if name == "equal fingerprints" && !testenv.Race &&
				(last[compaction.StageRead].Done < uint64(n/2) ||
					last[compaction.StageMerge].Done == 0 ||
					last[compaction.StageTables].Total != total) {
				t.Errorf("progress %+v, want a total of %d", last, total)
			}
		})
	}
}

// TestLoadOfDocumentsWithoutText tests that an index of texts refuses a load if one document has
// no text.
func TestLoadOfDocumentsWithoutText(t *testing.T) {
	docs := []index.Document{{Key: "other", Fingerprint: 1}, {Key: "empty"}}
	for name, want := range map[string]error{check.DefaultSigner().Name(): index.ErrNoText,
		"phash 64": nil, "": nil} {
		opts := index.Options{FS: vfs.NewMem(), Analyzer: name}
		_, err := compaction.Load(t.Context(), "ix", testgen.Sequence(docs),
			compaction.LoadOptions{Index: opts})
		if !errors.Is(err, want) {
			t.Errorf("analyzer %q: %v", name, err)
		}
		x, err := index.Open("ix", &opts)
		must(t, err)
		if n := x.Stats().Documents; (n == 0) != (want != nil) {
			t.Errorf("analyzer %q: %d documents", name, n)
		}
		must(t, x.Close())
	}
}

// TestLoadChoosesThePlan tests that Load chooses the plan of an index without documents for the
// number of loaded documents. It must keep a plan that the options of Load or Open have set.
func TestLoadChoosesThePlan(t *testing.T) {
	chosen := func(k int, n int64) *plan.Plan {
		c, err := plan.Choose(k, n)
		must(t, err)
		return c.Plan
	}
	three, four := namedPlan(t, "3", 3), namedPlan(t, "4", 3)
	for _, c := range []struct {
		name string
		made *index.Options // of an index that exists before the load
		load index.Options
		want *plan.Plan
	}{
		{"new", nil, index.Options{}, chosen(3, 1000)},
		{"new, another k", nil, index.Options{MaxDistance: 6}, chosen(6, 1000)},
		{"new, ExpectedDocuments", nil, index.Options{ExpectedDocuments: 1e10}, chosen(3, 1e10)},
		{"new, with a plan", nil, index.Options{Plan: four}, four},
		{"empty", &index.Options{MaxDistance: 6}, index.Options{}, chosen(6, 1000)},
		{"empty, with design 4", &index.Options{Plan: four}, index.Options{}, four},
		{"empty, with design 3", &index.Options{Plan: three}, index.Options{}, three},
		{"empty, ExpectedDocuments", &index.Options{MaxDistance: 8, ExpectedDocuments: 1e11},
			index.Options{}, chosen(8, 1e11)},
	} {
		h := newHistory(vfs.NewMem())
		if c.made != nil {
			h.must(t, opened(*c.made)...)
		}
		docs := bare(testgen.Uniform(rand.New(rand.NewPCG(1, 1)), 1000))
		h.must(t, step{what: "load", open: c.load, docs: docs})
		h.must(t, opened(index.Options{})...)
		if p := h.newest().plan; p != c.want.String() {
			t.Errorf("%s: plan %s, want %s", c.name, p, c.want)
		}
	}
}

// TestFailedLoadChangesNothing tests that the index is unchanged and closed if the source of the
// documents fails or panics. No goroutine may remain.
func TestFailedLoadChangesNothing(t *testing.T) {
	d, disk := newDrawer(testenv.Seed(t), 4), crashfs.New()
	h := newHistory(disk)
	h.must(t, d.used()...)
	defer testenv.NoMoreGoroutines(t, runtime.NumGoroutine())
	unreadable := errors.New("unreadable")
	tooLarge := string(make([]byte, match.MaxKeyBytes+1))
	for _, n := range []int{0, 4096, 30_000} { // 30,000 do not fit in memory
		docs := d.documents(n)
		for what, c := range map[string]struct {
			docs iter.Seq2[index.Document, error]
			want error
		}{
			"error": {func(yield func(index.Document, error) bool) {
				testgen.Sequence(docs)(yield)
				yield(index.Document{}, unreadable)
			}, unreadable},
			"large scope": {testgen.Sequence(append(docs[:n:n], index.Document{Scope: tooLarge})),
				index.ErrTooLarge},
			"panic": {func(yield func(index.Document, error) bool) {
				testgen.Sequence(docs)(yield)
				panic(unreadable)
			}, unreadable},
		} {
			fsys := copyOf(disk, h.r)
			load := func() (err error) {
				defer func() {
					if caught := recover(); caught != nil {
						err = caught.(error)
					}
				}()
				_, err = compaction.Load(t.Context(), "ix", c.docs,
					compaction.LoadOptions{Index: index.Options{FS: fsys}, MemoryBytes: 1})
				return err
			}
			if err := load(); !errors.Is(err, c.want) {
				t.Fatalf("%s after %d documents: %v", what, n, err)
			}
			if _, err := which(fsys, h.states, h.r); err != nil {
				t.Fatalf("%s after %d documents: %v", what, n, err)
			}
		}
	}
}

// TestErrors tests the errors for invalid options and for an index that is missing or open. No call
// may create an index.
func TestErrors(t *testing.T) {
	ctx, fsys := t.Context(), vfs.NewMem()
	x, err := index.Open("ix", &index.Options{FS: fsys, Analyzer: "one"})
	must(t, err, x.Add(ctx, index.Document{}))
	run := func(dir string, o compaction.Options) error {
		o.FS = fsys
		_, err := compaction.Run(ctx, dir, o)
		return err
	}
	load := func(dir string, memory int64, o index.Options) error {
		o.FS = fsys
		_, err := compaction.Load(ctx, dir, func(func(index.Document, error) bool) {
			t.Error("Load reads documents")
		}, compaction.LoadOptions{Index: o, MemoryBytes: memory})
		return err
	}
	repair := func(dir, dest string, o compaction.Options) error {
		o.FS = fsys
		_, err := compaction.Repair(ctx, dir, dest, compaction.RepairOptions{Options: o})
		return err
	}
	refused := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) && !strings.Contains(fmt.Sprint(err), want.Error()) {
			t.Errorf("%s: error %v, want %v", what, err, want)
		}
	}
	refused("Run of no index", run("new", compaction.Options{}), fs.ErrNotExist)
	refused("Run of an open index", run("ix", compaction.Options{}), index.ErrLocked)
	refused("Load into an open index", load("ix", 0, index.Options{}), index.ErrLocked)
	memory := errors.New("MemoryBytes is -1")
	_, err = compaction.Compact(ctx, x, compaction.Options{MemoryBytes: -1})
	refused("Compact", err, memory)
	for what, p := range map[string]compaction.Policy{
		"Share is -0.5":     {Share: -.5},
		"Share is NaN":      {Share: math.NaN()},
		"Every is -1s":      {Every: -time.Second},
		"MemoryBytes is -1": {MemoryBytes: -1},
		"MaxAge is -1h0m0s": {Expiry: index.Expiry{MaxAge: -time.Hour}},
	} {
		_, err := compaction.Background(ctx, x, p)
		refused("Background", err, errors.New(what))
	}
	must(t, x.Close())
	refused("Run", run("ix", compaction.Options{CacheBytes: -1}), errors.New("CacheBytes is -1"))
	refused("Load", load("new", -1, index.Options{}), memory)
	refused("Repair", repair("ix", "new", compaction.Options{MemoryBytes: -1}), memory)
	refused("another k", load("ix", 0, index.Options{MaxDistance: 5}), index.ErrMismatch)
	refused("another analyzer", load("ix", 0, index.Options{Analyzer: "other"}), index.ErrMismatch)
	refused("read-only", load("ix", 0, index.Options{ReadOnly: true}), index.ErrReadOnly)
	if _, err := fsys.Stat("new"); err == nil {
		t.Error("a call that failed has created an index")
	}
}
