package compaction_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestLoadIntoIsLoad: whatever is done to an index while documents are loaded into it, it is as if they came in one moment
// after all that, but for the keys that came since.
func TestLoadIntoIsLoad(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	for n := range uint64(testenv.Number(20, 40, 150, 3000)) {
		d := &drawer{source: rand.New(rand.NewPCG(seed, n)), keys: 8, most: 20}
		d.drawRule()
		h := newHistory(vfs.NewMem())
		h.must(t, d.open())
		for range 1 + d.IntN(3) {
			for range d.IntN(4) {
				h.must(t, d.write())
			}
			h.must(t, d.loadOpen())
			for range d.IntN(3) {
				h.must(t, d.write())
			}
		}
		h.must(t, step{what: "close"}, step{what: "compact"}, d.open(), step{what: "close"})
	}
}

// loadOpen draws a load into an open index with steps meanwhile.
func (d *drawer) loadOpen() step {
	s := step{what: "load open", docs: d.some(), at: d.IntN(4), work: compaction.Options{MemoryBytes: pick[int64](d, 0, 1)}}
	for range d.IntN(5) {
		w := d.write()
		for w.what == "compact open" || w.what == "freeze" { // they wait
			w = d.write()
		}
		s.meanwhile = append(s.meanwhile, w)
	}
	return s
}

// TestLoadIntoTakesLastOfFingerprint: what is loaded replaces the last document of a fingerprint that is packed, or frozen, while another
// one comes to have it. That one is found by every table.
func TestLoadIntoTakesLastOfFingerprint(t *testing.T) {
	const fp, other = 0x0123456789abcdef, 0xfedcba9876543210
	for _, packed := range []bool{true, false} {
		h := newHistory(vfs.NewMem())
		h.must(t, step{what: "open"}, step{what: "add", docs: []index.Document{{Key: "page", Fingerprint: fp}}})
		if packed {
			h.must(t, step{what: "compact open"})
		}
		load := step{what: "load open", docs: []index.Document{{Key: "page", Fingerprint: other}}, at: 1}
		load.meanwhile = []step{{what: "add", docs: []index.Document{{Key: "new", Fingerprint: fp}}}}
		ask := step{what: "query", method: oneByOne, k: 3}
		for bit := range 64 {
			ask.docs = append(ask.docs, index.Document{Fingerprint: fp ^ 1<<bit ^ 1<<((bit+1)%64) ^ 1<<((bit+2)%64)})
		}
		h.must(t, load, ask, step{what: "compact open"}, ask, step{what: "close"})
	}
}

// TestLoadedCanBeDeleted: who sees a loaded document can delete it by its ID, also while the load still removes its files.
func TestLoadedCanBeDeleted(t *testing.T) {
	var ix atomic.Pointer[index.Index]
	deleted := 0
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		x := ix.Load()
		if x == nil || op.Kind != errorfs.OpRemoveAll || op.Path != "ix/incoming" || deleted > 0 {
			return nil
		}
		d, found, err := x.Get(t.Context(), "loaded")
		if err == nil && found {
			deleted, err = x.DeleteIDs(t.Context(), d.ID)
		}
		return err
	}))
	x, err := index.Open("ix", &index.Options{FS: fs})
	must(t, err)
	defer x.Close()
	ix.Store(x)
	docs := []index.Document{{Key: "loaded", Fingerprint: 1}}
	if _, err := compaction.LoadInto(t.Context(), x, seqOf(docs, nil), compaction.LoadOptions{}); err != nil || deleted != 1 {
		t.Errorf("%d of 1 documents deleted: %v", deleted, err)
	}
}

// TestCloseEndsLoadInto: Close ends a load whose documents never end, at the next of them, and nothing of it is there.
func TestCloseEndsLoadInto(t *testing.T) {
	opts := &index.Options{FS: vfs.NewMem()}
	x, err := index.Open("ix", opts)
	must(t, err)
	closed, after := make(chan error, 1), 0
	forever := func(yield func(index.Document, error) bool) {
		for n := uint64(0); yield(index.Document{Fingerprint: fingerprint.Fingerprint(n)}, nil); n++ {
			if n == 1000 {
				go func() { closed <- x.Close() }()
				eventually(t, func() bool { return errors.Is(x.Sync(t.Context()), index.ErrClosed) }, func() any { return "it takes calls" })
				time.Sleep(time.Millisecond) // until it has told the load
			}
			if n >= 1000 {
				after++
			}
		}
	}
	_, err = compaction.LoadInto(t.Context(), x, forever, compaction.LoadOptions{})
	if !errors.Is(err, index.ErrClosed) || errors.Is(err, compaction.ErrDone) || after > 100 {
		t.Errorf("a load that Close ends: %v, behind %d documents more", err, after)
	}
	must(t, <-closed)
	x, err = index.Open("ix", opts)
	must(t, err)
	defer x.Close()
	if n := x.Stats().Documents; n != 0 {
		t.Errorf("%d documents", n)
	}
}

// TestUnsettledLoad: a crash comes between the step in which documents are loaded and what settles the keys that were written meanwhile. What
// is done to the closed index then, by whatever comes first, finds the documents that are there without the crash.
func TestUnsettledLoad(t *testing.T) {
	t.Parallel()
	ctx, all := t.Context(), tasks(t, testenv.Seed(t))
	k := all[slices.IndexFunc(all, func(k *task) bool { return k.name == "load while open and written to" })]
	k.make(t)
	c := newCrashing(t, k.on(nil), k.disk, rand.New(rand.NewPCG(1, 2)), 1)
	c.must(t, k.opening...)
	var through []state
	var err error
	crashes, _ := c.during(func() { through, err = c.do(&k.step) })
	must(t, err, c.x.Close())
	want := through[len(through)-1].Docs
	crashes = slices.DeleteFunc(crashes, func(l left) bool {
		x, err := index.Open("ix", &index.Options{FS: copyOf(l.fsys, c.history.r), ReadOnly: true})
		if err == nil {
			err = x.Close()
		}
		return !l.synced || !errors.Is(err, index.ErrReadOnly)
	})
	t.Logf("%d crashes come before all is settled", len(crashes))
	if len(crashes) == 0 {
		t.Fatal("no crash came before all was settled")
	}
	one := index.Document{Key: "one more", Fingerprint: 3}
	run := func(plan *plan.Plan) func(vfs.FS) error {
		return func(fsys vfs.FS) error {
			_, err := compaction.Run(ctx, "ix", compaction.Options{FS: fsys, Plan: plan})
			return err
		}
	}
	for name, do := range map[string]func(vfs.FS) error{
		"open": func(vfs.FS) error { return nil }, "run": run(nil), "run under another plan": run(namedPlan(t, "3", 3)),
		"load": func(fsys vfs.FS) error {
			return loadEither(ctx, false, []index.Document{one}, compaction.LoadOptions{Index: index.Options{FS: fsys}})
		},
		"repair": func(fsys vfs.FS) error {
			_, err := compaction.Repair(ctx, "ix", "new", compaction.RepairOptions{Options: compaction.Options{FS: fsys}})
			return err
		},
	} {
		for _, l := range crashes {
			fsys := copyOf(l.fsys, c.history.r)
			if err := do(fsys); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			x, err := index.Open("ix", &index.Options{FS: fsys})
			must(t, err)
			got, err := indextest.AllDocuments(x)
			got = got.WithoutKeys(one.Key)
			if err := errors.Join(err, indextest.Problems(x), x.Close()); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %s: %v", name, indextest.Difference(got, want), err)
			}
		}
	}
}
