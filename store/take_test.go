package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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
