package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestTakeUnreadableTables makes the new tables unreadable once they are installed. The store must
// fail, since the new tables are on disk. Readers keep the previous tables.
func TestTakeUnreadableTables(t *testing.T) {
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
