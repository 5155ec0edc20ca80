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
func oneOf(t *testing.T, what string, fsys *crashfs.FS, models ...*model) {
	t.Helper()
	if !fsys.Orderly("ix") {
		return
	}
	s := openIn(t, fsys)
	if names, err := fsys.List("ix/" + incomingDir); err == nil && len(names) > 0 {
		t.Errorf("%s: Open left %q", what, names)
	}
	var errs []error
	for _, m := range models {
		var err error
		inView(t, s, func(v *View) { err = m.differences(v) })
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m = m.clone()
		if m.epochs == 1 {
			m.freeze(t, s)
		}
		m.take(t, s)
		m.holds(t, what+", packed", s.Now())
		break
	}
	if len(errs) == len(models) {
		t.Errorf("%s: the store holds none of %d models:\n%.3000v", what, len(models),
			errors.Join(errs...))
	}
	must(t, s.Close())
}

// TestTakeWithEveryOperationFailing lets each operation of Take fail, once. An error that is not
// ErrFailed leaves the store as it was: it is written to, and the next compaction goes well. After
// ErrFailed the tables before can be read, and the store holds the state before or after Take when
// it is opened again.
func TestTakeWithEveryOperationFailing(t *testing.T) {
	seed := testenv.Seed(t)
	failed, refused, met := 0, 0, true
	for at, step := int64(0), int64(testenv.Number(3, 1, 1, 1)); met; at += step {
		rng := rand.New(rand.NewPCG(seed, 2))
		mem := crashfs.New()
		var left atomic.Int64
		left.Store(at)
		disk := newBreakable(mem, func(errorfs.Op) bool { return left.Add(-1) == -1 })
		s, m := openIn(t, disk), newModel()
		change := func() { apply(t, s, true, func(b *Batch) { m.change(rng, b) }) }
		for range 3 {
			change()
			m.freeze(t, s)
			m.take(t, s)
			change()
		}
		m.freeze(t, s)
		change()
		r := m.packFrozen(t, s)
		change()
		disk.broken.Store(true)
		err := s.Take(t.Context(), r)
		disk.broken.Store(false)
		met = disk.hits.Load() > 0
		what := fmt.Sprintf("operation %d, Take returns %v", at, err)
		holds := func(when string) {
			t.Helper()
			// readers may share the failed read of a goroutine in the background for a moment
			for try := 0; ; try++ {
				var err error
				inView(t, s, func(v *View) { err = m.differences(v) })
				if err == nil {
					return
				}
				if try == 1000 || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
					t.Fatalf("%s%s:\n%.3000v", what, when, err)
				}
				time.Sleep(time.Millisecond)
			}
		}
		after := m.clone()
		after.pack()
		models := []*model{m}
		var ends error // what Close may return
		switch {
		case err == nil:
			m, models, ends = after, []*model{after}, syscall.ENOSPC
			holds("")
			must(t, r.Close())
		case errors.Is(err, fault.ErrFailed):
			failed++
			models, ends = []*model{m, after}, fault.ErrFailed
			holds("")
			r.Close()
		default:
			refused++
			if !errors.Is(err, syscall.ENOSPC) {
				t.Error(what)
			}
			holds("")
			must(t, r.Close())
			change()
			holds(", then a commit")
			m.take(t, s)
			holds(", then another Take")
		}
		if err := s.Close(); !errors.Is(err, ends) && (err != nil || ends == fault.ErrFailed) {
			t.Errorf("%s, and Close %v", what, err)
		}
		if oneOf(t, what, crash(mem), models...); t.Failed() {
			return
		}
	}
	t.Logf("%d faults stopped the store, %d did not", failed, refused)
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
	refuse := func(says string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
		m.holds(t, says, s.Now())
	}
	r, err := s.NewRewrite(2)
	must(t, err)
	refuse("no epoch is frozen", s.Take(t.Context(), r))
	must(t, r.Close())
	m.freeze(t, s)
	refuse("frozen already", s.Freeze())
	r = m.packFrozen(t, s)
	ended, end := context.WithCancel(t.Context())
	end()
	refuse("canceled", s.Take(ended, r))
	must(t, s.Take(t.Context(), r), r.Close())
	m.pack()
	m.holds(t, "after Take", s.Now())
	must(t, s.Close())

	s, err = Open("ix", Options{FS: fsys, ReadOnly: true})
	must(t, err)
	for call, err := range map[string]error{"Freeze": s.Freeze(), "Take": s.Take(t.Context(), r),
		"SetAnalyzer": s.SetAnalyzer("x"),
		"Apply":       commitOf(s, true, func(b *Batch) { b.SetCounters(Counters{NextID: 2}) })} {
		if !errors.Is(err, fault.ErrReadOnly) {
			t.Errorf("%s of a store that is open for reading: %v", call, err)
		}
	}
	must(t, s.Sync(), s.Close())
}
