package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
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
