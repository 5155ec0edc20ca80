package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// oneOf returns which of some models the store in a file system holds after it was opened. The
// store is then packed, and must hold that model packed.
func oneOf(t *testing.T, what string, fsys *crashfs.FS, models []*model) int {
	t.Helper()
	if !fsys.Orderly("ix") {
		return -1
	}
	s := openIn(t, fsys)
	if names, err := fsys.List("ix/" + incomingDir); err == nil && len(names) > 0 {
		t.Errorf("%s: Open left %q", what, names)
	}
	var errs []error
	for i, m := range models {
		v, err := s.View()
		must(t, err)
		err = m.differences(v)
		must(t, v.Close())
		if err != nil {
			errs = append(errs, fmt.Errorf("model %d: %w", i, err))
			continue
		}
		m = m.clone()
		if len(m.epochs) == 1 {
			must(t, s.Freeze())
			m.freeze()
		}
		r, err := packFrozen(s, m.counters.NextID)
		must(t, err, s.Take(t.Context(), r), r.Close())
		m.take()
		m.holds(t, what+", packed", s.View)
		must(t, s.Close())
		return i
	}
	t.Errorf("%s: the store holds none of %d models:\n%.3000v", what, len(models),
		errors.Join(errs...))
	must(t, s.Close())
	return -1
}

// TestCrashAroundCompaction takes copies of the disk, as a crash leaves it, before each operation
// of two compactions and of the commits around them. Each copy holds the store as it was after one
// of these steps. No copy lacks a step that was durable.
func TestCrashAroundCompaction(t *testing.T) {
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	mem := crashfs.New()
	m := newModel()
	models := []*model{m.clone()}
	type crash struct {
		what          string
		fs            *crashfs.FS
		first, models int // it holds one of models[first:models]
	}
	var crashes []crash
	durable := 0 // the newest model that is known to be durable
	clones := 0
	clone := func(what string) {
		clones++
		unsynced := []int{0, 0, 50, 100}[clones%4]
		crashes = append(crashes, crash{
			fmt.Sprintf("%s, %d %% of unsynced bytes kept", what, unsynced),
			mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced,
				RNG: rand.New(rand.NewPCG(seed, uint64(clones)))}), durable, len(models),
		})
	}
	var mu sync.Mutex // of all of these, which goroutines of Pebble use too
	step := ""
	s := openIn(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && mu.TryLock() {
			if step != "" {
				clone(fmt.Sprint(step, " before an operation on ", op.Path))
			}
			mu.Unlock()
		}
		return nil
	})))
	during := func(what string, isDurable bool, changed func(), call func()) {
		mu.Lock()
		changed() // a copy may hold the step before it ends
		models = append(models, m.clone())
		step = what
		mu.Unlock()
		call()
		mu.Lock()
		defer mu.Unlock()
		step = ""
		if isDurable {
			durable = len(models) - 1
		}
		clone("after " + what)
	}
	change := func() {
		isDurable := rng.IntN(2) == 0
		b := s.NewBatch()
		during("a commit", isDurable, func() { m.change(rng, b) }, func() {
			must(t, s.Apply(b, isDurable))
			if isDurable {
				must(t, s.Last().Wait())
			}
		})
	}
	for range 2 {
		for range 6 {
			change()
		}
		frozenAt := m.counters.NextID
		during("Freeze", false, m.freeze, func() { must(t, s.Freeze()) })
		for range 4 {
			change()
		}
		var r *Rewrite
		during("Prepare", true, func() {}, func() {
			var err error
			r, err = packFrozen(s, frozenAt)
			must(t, err)
		})
		change()
		taken := len(models)
		during("Take", false, func() {
			for _, m := range models[durable:] { // Take does not make the commits before it durable
				models = append(models, m.clone())
				models[len(models)-1].take()
			}
			m.take()
		}, func() { must(t, s.Take(t.Context(), r)) })
		mu.Lock()
		durable = taken
		clone("after Take")
		mu.Unlock()
		must(t, r.Close())
		change()
	}
	must(t, s.Close())
	held := map[int]bool{}
	for _, c := range crashes {
		if i := oneOf(t, c.what, c.fs, models[c.first:c.models]); i >= 0 {
			held[c.first+i] = true
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d crashes left %d of %d states", len(crashes), len(held), len(models))
	if len(held) < len(models)/3 {
		t.Errorf("%d crashes left only %d of %d states", len(crashes), len(held), len(models))
	}
}

// TestTakeWithEveryOperationFailing lets each operation of Take fail, once. An error that is not
// ErrFailed leaves the store as it was: it is written to, and the next compaction goes well. After
// ErrFailed the tables before can be read, and the store holds the state before or after Take when
// it is opened again.
func TestTakeWithEveryOperationFailing(t *testing.T) {
	seed := testenv.Seed(t)
	failed, refused := 0, 0
	for at, step := int64(0), int64(testenv.Number(3, 1, 1, 1)); ; at += step {
		rng := rand.New(rand.NewPCG(seed, 2))
		mem := crashfs.New()
		var left atomic.Int64
		left.Store(-1)
		s := openIn(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if left.Load() >= 0 && left.Add(-1) == -1 {
				return fmt.Errorf("injected into %v of %s: %w", op.Kind, op.Path, syscall.EIO)
			}
			return nil
		})))
		m := newModel()
		change := func() { apply(t, s, true, func(b *Batch) { m.change(rng, b) }) }
		for range 3 {
			change()
			must(t, s.Freeze())
			m.freeze()
			r, err := packFrozen(s, m.counters.NextID)
			must(t, err, s.Take(t.Context(), r), r.Close())
			m.take()
			change()
		}
		must(t, s.Freeze())
		m.freeze()
		change()
		r, err := packFrozen(s, m.counters.NextID)
		must(t, err)
		change()
		left.Store(at)
		err = s.Take(t.Context(), r)
		met := left.Swap(-1) < 0
		what := fmt.Sprintf("operation %d, Take returns %v", at, err)
		after := m.clone()
		after.take()
		holds := func(what string) {
			t.Helper()
			// readers may share the failed read of a goroutine in the background for a moment
			for try := 0; ; try++ {
				v, err := s.View()
				must(t, err)
				err = m.differences(v)
				must(t, v.Close())
				if err == nil {
					return
				}
				if try == 1000 || !strings.Contains(err.Error(), "injected into") {
					t.Fatalf("%s:\n%.3000v", what, err)
				}
				time.Sleep(time.Millisecond)
			}
		}
		switch {
		case err == nil:
			m = after
			holds(what)
			must(t, r.Close())
			if err := s.Close(); err != nil && (!met || !errors.Is(err, syscall.EIO)) {
				t.Errorf("%s, and Close %v", what, err)
			}
			oneOf(t, what, mem.CrashClone(vfs.CrashCloneCfg{}), []*model{m})
		case errors.Is(err, fault.ErrFailed):
			failed++
			holds(what)
			r.Close()
			if err := s.Close(); !errors.Is(err, fault.ErrFailed) {
				t.Errorf("%s, and Close %v", what, err)
			}
			oneOf(t, what, mem.CrashClone(vfs.CrashCloneCfg{}), []*model{m, after})
		default:
			refused++
			if !errors.Is(err, syscall.EIO) {
				t.Error(what)
			}
			holds(what)
			must(t, r.Close())
			change()
			holds(what + ", then a commit")
			r, err := packFrozen(s, m.counters.NextID)
			must(t, err, s.Take(t.Context(), r), r.Close())
			m.take()
			holds(what + ", then another Take")
			must(t, s.Close())
			oneOf(t, what, mem.CrashClone(vfs.CrashCloneCfg{}), []*model{m})
		}
		if t.Failed() {
			return
		}
		if !met {
			t.Logf("%d operations: %d stopped the store, %d did not", at, failed, refused)
			break
		}
	}
	if failed == 0 || refused == 0 {
		t.Errorf("%d faults stopped the store, %d did not", failed, refused)
	}
}

// TestFreezeAndTakeRefuse tests that calls that the documentation excludes are refused and change
// nothing.
func TestFreezeAndTakeRefuse(t *testing.T) {
	fsys := vfs.NewMem()
	s, m := openIn(t, fsys), newModel()
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	apply(t, s, true, func(b *Batch) { m.change(rng, b) })
	refuse := func(what, says string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
		m.holds(t, what, s.View)
	}
	r, err := s.NewRewrite(2)
	must(t, err)
	refuse("Take without a frozen epoch", "no epoch is frozen", s.Take(t.Context(), r))
	must(t, r.Close(), s.Freeze())
	m.freeze()
	refuse("Freeze twice", "frozen already", s.Freeze())
	r, err = packFrozen(s, m.counters.NextID)
	must(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	refuse("Take after its context ended", "canceled", s.Take(ended, r))
	must(t, s.Take(t.Context(), r), r.Close())
	m.take()
	m.holds(t, "after Take", s.View)
	must(t, s.Close())

	s, err = Open("ix", Options{FS: fsys, ReadOnly: true})
	must(t, err)
	defer s.Close()
	if err := s.Freeze(); !errors.Is(err, fault.ErrReadOnly) {
		t.Errorf("Freeze: %v", err)
	}
	if err := s.Take(t.Context(), r); !errors.Is(err, fault.ErrReadOnly) {
		t.Errorf("Take: %v", err)
	}
}
