package store

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/testenv"
)

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

// TestTakeThatCannotReadItsTables lets the new tables be unreadable once they are installed. The
// store must fail, since the disk has the new tables. Readers keep the tables before.
func TestTakeThatCannotReadItsTables(t *testing.T) {
	mem := vfs.NewMem()
	disk := newBreakable(mem, func(op errorfs.Op) bool {
		return isTableRead(op) && bytes.Contains(debug.Stack(), []byte("openTables"))
	})
	s, m := openIn(t, disk), newModel()
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 4))
	apply(t, s, true, func(b *Batch) { m.change(rng, b) })
	m.freeze(t, s)
	r := m.packFrozen(t, s)
	disk.broken.Store(true)
	err := s.Take(t.Context(), r)
	disk.broken.Store(false)
	if disk.hits.Load() == 0 {
		t.Fatal("no read has failed")
	}
	m.holds(t, "after Take", s.Now())
	r.Close()
	for call, err := range map[string]error{"Take": err, "Sync": s.Sync(), "Close": s.Close()} {
		if !errors.Is(err, fault.ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", call, err)
		}
	}
	s = openIn(t, mem)
	m.pack()
	m.holds(t, "opened again", s.Now())
	must(t, s.Close())
}
