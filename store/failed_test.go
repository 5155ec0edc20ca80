package store

import (
	"errors"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/crashfs"
)

// writes are the operations that write or sync a file.
var writes = []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData,
	errorfs.OpFileSyncTo}

// TestFatalFaultStopsTheStore tests errors for which Pebble would end the process or retry
// forever. They must stop the store: the affected write and all later ones return the cause,
// reads continue, and Close returns. When the store is opened again in the same process, all
// acknowledged documents must be there.
func TestFatalFaultStopsTheStore(t *testing.T) {
	apply := func(s *Store) (err error) {
		for err == nil {
			err = commitOf(s, false, func(b *Batch) { b.SetKey(1, 1) })
			time.Sleep(10 * time.Microsecond)
		}
		return err
	}
	for what, c := range map[string]struct {
		kinds []errorfs.OpKind
		file  string             // the beginning or the end of its name
		call  func(*Store) error // the call that fails; nil: fillUp
	}{
		"MANIFEST written": {writes[:1], "MANIFEST", nil},
		"MANIFEST synced":  {writes[1:3], "MANIFEST", nil},
		"next log created": {[]errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}, ".log",
			nil},
		"log written":                   {writes, ".log", nil},
		"log written by Sync":           {writes, ".log", (*Store).Sync},
		"log written, and nobody waits": {writes, ".log", apply},
		"directory synced":              {writes[1:2], "ix", nil},
		"table created":                 {[]errorfs.OpKind{errorfs.OpCreate}, ".sst", nil},
		"table written":                 {writes, ".sst", nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && (what == "table created" || strings.HasSuffix(what, "synced")) {
				t.Skip("similar to another case")
			}
			mem := crashfs.New()
			disk := newBreakable(mem, func(op errorfs.Op) bool {
				name := path.Base(op.Path)
				return slices.Contains(c.kinds, op.Kind) &&
					(strings.HasPrefix(name, c.file) || strings.HasSuffix(name, c.file))
			})
			s := openIn(t, disk)
			acknowledged, applied, err := fillUp(s, 1, 20)
			must(t, err)
			disk.broken.Store(true)
			if c.call != nil {
				err = c.call(s)
			} else {
				acknowledged, applied, err = fillUp(s, acknowledged+1, 5000)
			}
			if disk.hits.Load() == 0 {
				t.Fatal("no operation has failed")
			}
			disk.broken.Store(false) // too late
			for call, err := range map[string]error{"first": err,
				"Apply":       commitOf(s, true, func(b *Batch) { document(b, applied+1) }),
				"Apply later": commitOf(s, false, func(b *Batch) { document(b, applied+1) }),
				"Sync":        s.Sync()} {
				if !errors.Is(err, fault.ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("%s: %v", call, err)
				}
			}
			s.DiskBytes()
			check := func(when string, n uint64) {
				if n < acknowledged || n > applied {
					t.Errorf("%s: %d documents of %d to %d", when, n, acknowledged, applied)
				}
			}
			check("before Close", records(t, s))
			crashed := crash(mem)
			if err := s.Close(); !errors.Is(err, fault.ErrFailed) {
				t.Errorf("Close: %v", err)
			}
			for _, fsys := range []vfs.FS{disk, crashed} {
				again := openIn(t, fsys)
				n := records(t, again)
				check("opened again", n)
				_, _, err := fillUp(again, n+1, n+50)
				must(t, err, again.Close())
			}
		})
	}
}

// crashedAfter returns the files that a crash leaves of a store with documents.
func crashedAfter(t *testing.T, documents uint64) *crashfs.FS {
	t.Helper()
	mem := crashfs.New()
	s := openIn(t, mem)
	_, _, err := fillUp(s, 1, documents+1)
	must(t, err)
	crashed := crash(mem)
	must(t, s.Close())
	return crashed
}

// TestOpenOnFullDiskAfterCrash opens a store on a full disk after a crash. Pebble alone would retry
// to flush the log forever. Open must return an error and leave the files unchanged. With free
// space, the next Open must find all documents.
func TestOpenOnFullDiskAfterCrash(t *testing.T) {
	const documents = 200
	crashed := crashedAfter(t, documents)
	for what, fails := range map[string]func(op errorfs.Op) bool{
		"create": func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate },
		"write a table": func(op errorfs.Op) bool {
			return slices.Contains(writes, op.Kind) && strings.HasSuffix(op.Path, ".sst")
		},
		"write the MANIFEST": func(op errorfs.Op) bool {
			return slices.Contains(writes, op.Kind) && strings.Contains(op.Path, "MANIFEST")
		},
	} {
		left := crash(crashed)
		disk := newBreakable(left, fails)
		disk.broken.Store(true)
		before := filesOf(t, left, "")
		for range 3 {
			if _, err := Open("ix", Options{FS: disk}); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%s: %v", what, err)
			}
			if after := filesOf(t, left, ""); !slices.Equal(after, before) {
				t.Errorf("%s: the files are %q, and were %q", what, after, before)
			}
		}
		disk.broken.Store(false)
		if n := recordsAfter(t, disk); n != documents {
			t.Errorf("%s: %d documents of %d", what, n, documents)
		}
	}
}

// TestOpenWithEveryOperationFailing lets every operation of Open fail in turn, once and
// permanently, without a store and after a crash. Open must return an error or succeed. It must
// not panic or hang, and nothing may be lost.
func TestOpenWithEveryOperationFailing(t *testing.T) {
	step := int64(1)
	if testing.Short() {
		step = 7
	}
	for documents, files := range map[uint64]*crashfs.FS{0: crashfs.New(),
		20: crashedAfter(t, 20)} {
		refused, tried := 0, 0
		for _, permanent := range []bool{false, true} {
			for at := int64(0); ; at += step {
				var n atomic.Int64
				left := crash(files)
				disk := newBreakable(left, func(errorfs.Op) bool {
					i := n.Add(1) - 1
					return i == at || permanent && i > at
				})
				disk.broken.Store(true)
				s, err := Open("ix", Options{Create: &Meta{Plan: "plan"}, FS: disk})
				if err == nil {
					s.Close()
				} else if refused++; !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("operation %d, permanent %t: %v", at, permanent, err)
				}
				tried++
				if n := recordsAfter(t, left); n != documents {
					t.Errorf("operation %d, permanent %t: %d documents of %d", at, permanent, n,
						documents)
				}
				if disk.hits.Load() == 0 {
					break
				}
			}
		}
		t.Logf("%d faults, Open refused %d times", tried, refused)
		if refused < tried/4 {
			t.Errorf("%d of %d faults returned an error", refused, tried)
		}
	}
}

// TestCallAfterClose tests a call that guard did not wait for and that reaches Pebble after Close.
// Pebble must not end the process.
func TestCallAfterClose(t *testing.T) {
	s := openIn(t, vfs.NewMem())
	goOn, late := make(chan struct{}), make(chan error, 1)
	s.guarded.Stop(syscall.EIO)
	if err := s.guard(func() error {
		<-goOn
		late <- s.db.Flush()
		return nil
	}); !errors.Is(err, fault.ErrFailed) {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, fault.ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	time.Sleep(20 * time.Millisecond) // for a Close that runs in the background
	close(goOn)
	select {
	case err := <-late:
		t.Logf("it returned: %v", err)
	case <-time.After(50 * time.Millisecond): // it never does
	}
}

// TestStopDuringCheckpoint stops the store while Pebble creates a directory or a file of
// a checkpoint. Checkpoint must not wait for Pebble, which may never return. Nothing may be
// created in the directory afterwards.
func TestStopDuringCheckpoint(t *testing.T) {
	for what, at := range map[string]errorfs.OpKind{"directory": errorfs.OpMkdirAll,
		"file": errorfs.OpCreate, "link": errorfs.OpLink} {
		t.Run(what, func(t *testing.T) {
			mem := vfs.NewMem()
			reached, goOn := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			disk := newBreakable(mem, func(op errorfs.Op) bool {
				// For a link, errorfs reports the existing name.
				if op.Kind == at && (at == errorfs.OpLink ||
					strings.HasPrefix(op.Path, "copy.incomplete")) && !once.Swap(true) {
					close(reached)
					<-goOn
				}
				return false
			})
			s := openIn(t, disk)
			_, _, err := fillUp(s, 1, 4)
			must(t, err, s.db.Flush()) // for a table to link
			disk.broken.Store(true)
			returned := make(chan error, 1)
			go func() { returned <- s.Checkpoint(t.Context(), "copy") }()
			<-reached
			s.guarded.Stop(syscall.EIO)
			time.Sleep(10 * time.Millisecond) // for a Checkpoint that does not wait
			close(goOn)
			if err := <-returned; !errors.Is(err, fault.ErrFailed) {
				t.Error(err)
			}
			time.Sleep(10 * time.Millisecond) // for later work in the background
			if names, err := mem.List(""); err != nil || len(names) != 1 {
				t.Errorf("files after Checkpoint: %q, %v", names, err)
			}
			if err := s.Close(); !errors.Is(err, fault.ErrFailed) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}
