package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"github.com/neardup/neardup/internal/testing/testhook"
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

// TestLoadEqualsAdd tests that Load stores documents as single calls of Add do. The first load
// creates an index with most of the documents, and the second adds the rest.
func TestLoadEqualsAdd(t *testing.T) {
	s := testenv.Seed(t)
	// most of the last size does not fit into the minimal memory
	sizes := []int{10, 300, 3000, 60_000}
	if testenv.Race {
		sizes = sizes[:2]
	}
	for i, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			d := newDrawer(s, uint64(i))
			d.keys = n / 3
			docs := d.documents(n)
			h := newHistory(vfs.NewMem())
			h.session(t, index.Options{})
			for some := range slices.Chunk(docs, n*5/6) {
				h.must(t, step{what: "load", docs: some, work: compaction.Options{MemoryBytes: 1}},
					step{what: "open"})
				must(t, h.newest().Compare(h.x))
				h.must(t, step{what: "query", k: 3, method: oneByOne, docs: docs[:min(n, 100)]},
					step{what: "close"})
			}
		})
	}
}

// TestLoadOfEqualFingerprints loads equal fingerprints, whose posting is a bitmap that is larger
// than a block.
func TestLoadOfEqualFingerprints(t *testing.T) {
	t.Parallel()
	const fp = 0x0123456789abcdef
	n := 140_000
	if testenv.Race {
		n = 20_000
	}
	// Other documents in between keep the bitmap from having runs.
	docs, rng := make([]index.Document, n), rand.New(rand.NewPCG(1, 1))
	for i := range docs {
		docs[i].Fingerprint = fp
		if i%2 == 1 {
			docs[i].Fingerprint = fingerprint.Fingerprint(rng.Uint64())
		}
		if i%1000 == 0 {
			docs[i].Key = fmt.Sprint(i)
		}
	}
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
	opts := index.Options{Durability: index.NoSync}
	h.session(t, opts,
		step{what: "add", docs: []index.Document{{Fingerprint: fp},
			{Fingerprint: fp, Key: "5000"}}})
	h.must(t,
		step{what: "load", docs: docs, work: compaction.Options{MemoryBytes: 1,
			Progress: progress}})
	entries := h.states[len(h.states)-1].entries() * uint64(strings.Count(h.report.Plan, " "))
	// Progress is reported every 65,536 documents. With the race detector there are fewer.
	if !testenv.Race && (last[compaction.StageRead].Done < uint64(n/2) ||
		last[compaction.StageMerge].Done == 0 ||
		last[compaction.StageTables].Total != entries) {
		t.Errorf("progress %+v of %+v", last, h.report)
	}
	h.session(t, opts, step{what: "delete", keys: []string{"5000", "6000", "nobody's"}},
		step{what: "query", method: oneByOne, limit: 16_000,
			docs: []index.Document{{Fingerprint: fp}}})
}

// TestShortHistories runs histories that once failed or nearly failed.
func TestShortHistories(t *testing.T) {
	const fp = 0x0123456789abcdef
	var near []uint64
	for flips := uint64(7); flips != 0; flips <<= 1 { // beyond the prefix of each table in turn
		near = append(near, fp, fp^flips&-flips, fp^flips)
	}
	// more than fit into one commit
	many := bare(testgen.Uniform(rand.New(rand.NewPCG(1, 1)), 3000))
	for i := range many {
		many[i].Key = fmt.Sprint(i)
	}
	load := func(docs ...index.Document) step { return step{what: "load", docs: docs} }
	var key, clock []step
	for i := range fingerprint.Fingerprint(3) {
		key = append(key,
			opened(step{what: "add", docs: []index.Document{{Key: "live", Fingerprint: i}}})...)
	}
	for i, wait := range []time.Duration{0, 0, -1000 * time.Second, 2000 * time.Second} {
		clock = append(clock, step{what: "wait", wait: wait},
			load(index.Document{Fingerprint: fingerprint.Fingerprint(i)},
				index.Document{Key: fmt.Sprint(i)}))
	}
	for what, steps := range map[string][]step{
		"live changes of bare packed documents": append(
			[]step{load(bare([]uint64{fp, fp, ^uint64(fp)})...)},
			opened(step{what: "delete IDs", ids: []uint64{1}},
				step{what: "add", docs: bare([]uint64{fp})},
				step{what: "query", method: oneByOne, k: 3, docs: bare(near)})...),
		"loads with a clock that goes back": append(clock, opened()...),
		"first key after a compaction": append(
			[]step{load(index.Document{Key: "packed"})}, key...),
		"expiry in several commits": append([]step{load(many...)},
			opened(step{what: "expire", before: epoch.Add(time.Hour)})...),
	} {
		t.Run(what, func(t *testing.T) { newHistory(vfs.NewMem()).must(t, steps...) })
	}
}

// opened returns the steps of a session.
func opened(steps ...step) []step {
	return slices.Concat([]step{{what: "open"}}, steps, []step{{what: "close"}})
}

// TestLoadOfDocumentsWithoutText tests that an index of texts refuses a load if one document has
// no text.
func TestLoadOfDocumentsWithoutText(t *testing.T) {
	docs := []index.Document{{Key: "other", Fingerprint: 1}, {Key: "empty"}}
	for name, want := range map[string]error{check.DefaultSigner().Name(): index.ErrNoText,
		"phash 64": nil, "": nil} {
		opts := index.Options{FS: vfs.NewMem(), Analyzer: name}
		if err := load(t.Context(), docs, compaction.LoadOptions{Index: opts}); !errors.Is(err,
			want) {
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

// TestLoadChoosesThePlan tests that Load chooses the plan of a new index for the loaded
// documents. It must keep a plan that was set in the options.
func TestLoadChoosesThePlan(t *testing.T) {
	chosen := func(k int, n int64) string {
		c, err := plan.Choose(k, n)
		must(t, err)
		return c.Plan.String()
	}
	for _, c := range []struct {
		name string
		made *index.Options // before
		load index.Options
		want string
	}{
		{"new", nil, index.Options{}, chosen(3, 1000)},
		{"new, another k", nil, index.Options{MaxDistance: 6}, chosen(6, 1000)},
		{"new, more to come", nil, index.Options{ExpectedDocuments: 1e10}, chosen(3, 1e10)},
		{"new, with a plan", nil, index.Options{Plan: namedPlan(t, "4", 3)},
			namedPlan(t, "4", 3).String()},
		{"made, and empty", &index.Options{MaxDistance: 6}, index.Options{}, chosen(6, 1000)},
		{"made with design 4", &index.Options{Plan: namedPlan(t, "4", 3)}, index.Options{},
			namedPlan(t, "4", 3).String()},
		{"made with design 3", &index.Options{Plan: namedPlan(t, "3", 3)}, index.Options{},
			namedPlan(t, "3", 3).String()},
		{"made for more to come", &index.Options{MaxDistance: 8, ExpectedDocuments: 1e11},
			index.Options{}, chosen(8, 1e11)},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory(vfs.NewMem())
			if c.made != nil {
				h.session(t, *c.made)
			}
			h.must(t, step{what: "load", open: c.load,
				docs: bare(testgen.Uniform(rand.New(rand.NewPCG(1, 1)), 1000))}, step{what: "open"})
			if p := h.newest().plan; p != c.want {
				t.Errorf("plan %s, not %s", p, c.want)
			}
			h.must(t, step{what: "close"})
		})
	}
}

// TestErrors tests that a missing or an open index is refused and that nothing is created.
func TestErrors(t *testing.T) {
	ctx, fsys := t.Context(), vfs.NewMem()
	load := func(opts index.Options, docs func(func(index.Document, error) bool)) error {
		opts.FS = fsys
		_, err := compaction.Load(ctx, "ix", docs, compaction.LoadOptions{Index: opts})
		return err
	}
	if _, err := compaction.Run(ctx, "nowhere", compaction.Options{FS: fsys}); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("no index: %v", err)
	}
	x, err := index.Open("ix", &index.Options{FS: fsys, Analyzer: "one"})
	if err == nil {
		err = x.Add(ctx, index.Document{})
	}
	must(t, err)
	if _, err := compaction.Run(ctx, "ix", compaction.Options{FS: fsys}); !errors.Is(err,
		index.ErrLocked) {
		t.Errorf("open index: %v", err)
	}
	if err := load(index.Options{}, seqOf(nil, nil)); !errors.Is(err, index.ErrLocked) {
		t.Errorf("open index: %v", err)
	}
	must(t, x.Close())
	for _, c := range []struct {
		opts index.Options
		want error
	}{
		{index.Options{MaxDistance: 5}, index.ErrMismatch},
		{index.Options{Analyzer: "another"}, index.ErrMismatch},
		{index.Options{ReadOnly: true}, index.ErrReadOnly},
	} {
		asked := false
		if err := load(c.opts, func(func(index.Document, error) bool) {
			asked = true
		}); !errors.Is(err, c.want) || asked {
			t.Errorf("%+v: %v, asked for documents: %v", c.opts, err, asked)
		}
	}
}

// counting counts changes of a file system as checks of the context.
func counting(ctx *testhook.Countdown, fsys vfs.FS) vfs.FS {
	return errorfs.Wrap(fsys, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			_ = ctx.Err()
		}
		return nil
	}))
}

// usedIndex returns an index that is partly packed and has deleted documents.
func usedIndex(t *testing.T, d *drawer) (*crashfs.FS, state) {
	t.Helper()
	disk := crashfs.New()
	h := newHistory(disk)
	h.must(t, d.used()...)
	return disk, *h.newest()
}

// TestCancelledWorkChangesNothing cancels loads at points where they check their context, and
// compactions where they check it or change the file system.
func TestCancelledWorkChangesNothing(t *testing.T) {
	d := newDrawer(testenv.Seed(t), 3)
	other := namedPlan(t, "3", 6)
	used, before := usedIndex(t, d)
	docs, moments := d.documents(3000), int64(testenv.Number(15, 15, 25, 25))
	if testenv.Race {
		docs, moments = docs[:1000], 6
	}
	loaded := before.clone()
	loaded.Now = epoch
	loaded.load(false, docs...)
	loaded = loaded.repacked(before.plan)
	compact := func(ctx *testhook.Countdown, fsys vfs.FS) error {
		x, err := index.Open("ix", &index.Options{FS: counting(ctx, fsys)})
		if err != nil {
			return err
		}
		_, err = compaction.Compact(ctx, x, compaction.Options{MemoryBytes: 1})
		return errors.Join(err, x.Close())
	}
	run := func(ctx *testhook.Countdown, plan *plan.Plan, fsys vfs.FS) error {
		_, err := compaction.Run(ctx, "ix", compaction.Options{FS: counting(ctx, fsys),
			MemoryBytes: 1, Plan: plan})
		return err
	}
	for _, c := range []struct {
		name    string
		after   state
		halfway bool // the tables may be packed, and other data not
		work    func(*testhook.Countdown, vfs.FS) error
	}{
		{"Load", loaded, false, func(ctx *testhook.Countdown, fsys vfs.FS) error {
			opts := index.Options{FS: fsys, Now: func() time.Time { return epoch }}
			return load(ctx, docs, compaction.LoadOptions{Index: opts, MemoryBytes: 1})
		}},
		{"Compact", before.repacked(before.plan), false, compact},
		{"Run", before.repacked(before.plan), true, func(ctx *testhook.Countdown,
			fsys vfs.FS) error {
			return run(ctx, nil, fsys)
		}},
		{"Run with a plan", before.repacked(other.String()), true,
			func(ctx *testhook.Countdown, fsys vfs.FS) error { return run(ctx, other, fsys) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := testhook.NewCountdown(-1)
			must(t, c.work(whole, used.CrashClone(vfs.CrashCloneCfg{})))
			states := []state{before.clone(), c.after.clone()}
			states[0].name, states[1].name = "before", "after"
			goroutines, cancelled, packed := runtime.NumGoroutine(), 0, 0
			points := whole.Asked()
			for n := int64(1); n <= points+1; n += 1 + int64(d.IntN(int(1+points/moments))) {
				fsys := used.CrashClone(vfs.CrashCloneCfg{})
				err := c.work(testhook.NewCountdown(n), fsys)
				found, lookErr := which(fsys, states, d.source.(*rand.Rand), index.Options{}, true)
				switch {
				case lookErr != nil:
					t.Fatalf("point %d of %d, error %v: %v", n, points, err, lookErr)
				case err == nil && found.name != "after":
					t.Fatalf("point %d of %d: the index is as before", n, points)
				case err == nil:
					continue
				case !errors.Is(err, context.Canceled) || errors.Is(err, compaction.ErrDone) ||
					found.name == "after" && !c.halfway:
					t.Fatalf("point %d of %d: the index has state %s: %v", n, points,
						found.name, err)
				case found.name == "after":
					packed++
				}
				cancelled++
			}
			if cancelled < 5 || packed == cancelled {
				t.Errorf("cancelled %d times at %d points, %d times too late", cancelled,
					points, packed)
			}
			testenv.NoMoreGoroutines(t, goroutines)
		})
	}
}

// TestFailedLoadChangesNothing tests that the index is unchanged and closed if the source of the
// documents fails or panics.
func TestFailedLoadChangesNothing(t *testing.T) {
	d := newDrawer(testenv.Seed(t), 4)
	used, before := usedIndex(t, d)
	unreadable := errors.New("unreadable")
	tooLarge := string(make([]byte, match.MaxKeyBytes+1))
	// around the batch size, and more than memory holds
	sizes := []int{0, 1, 4095, 4096, 4097, 30_000}
	if testenv.Race {
		sizes = []int{0, 4096}
	}
	for _, n := range sizes {
		docs := d.documents(n)
		for what, c := range map[string]struct {
			docs func(func(index.Document, error) bool)
			want error
		}{
			"error": {seqOf(docs, unreadable), unreadable},
			"large key": {seqOf(append(docs[:n:n], index.Document{Key: tooLarge}), nil),
				index.ErrTooLarge},
			"large scope": {seqOf(append(docs[:n:n], index.Document{Scope: tooLarge}), nil),
				index.ErrTooLarge},
			"panic": {func(yield func(index.Document, error) bool) {
				seqOf(docs, nil)(yield)
				panic(unreadable)
			}, unreadable},
		} {
			fsys := used.CrashClone(vfs.CrashCloneCfg{})
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
			if _, err := which(fsys, []state{before}, d.source.(*rand.Rand), index.Options{},
				true); err != nil {
				t.Fatalf("%s after %d documents: %v", what, n, err)
			}
		}
	}
}

// load calls Load and drops the report.
func load(ctx context.Context, docs []index.Document, opts compaction.LoadOptions) error {
	_, err := compaction.Load(ctx, "ix", seqOf(docs, nil), opts)
	return err
}
