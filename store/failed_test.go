package store

import (
	"errors"
	"fmt"
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

// breakable is a file system of which some operations fail while it is broken.
type breakable struct {
	mem    *crashfs.FS
	broken atomic.Bool
	hits   atomic.Int64
	fails  func(kind errorfs.OpKind, base string) bool
}

func (b *breakable) fs() vfs.FS {
	return errorfs.Wrap(b.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if b.broken.Load() && strings.HasPrefix(op.Path, "ix") &&
			b.fails(op.Kind, path.Base(op.Path)) {
			b.hits.Add(1)
			return syscall.ENOSPC
		}
		return nil
	}))
}

// fillUp adds documents until an error occurs. It returns the number of durable documents and the
// largest possible number.
func fillUp(t *testing.T, s *Store, from, most uint64) (durable, applied uint64, err error) {
	t.Helper()
	durable = from - 1
	for id := from; id < most; id++ {
		sync := id%16 == 0 || id == most-1
		if err := commitOf(s, sync, func(b *Batch) {
			document(b, id)
			b.SetRecord(Record{ID: id, Key: strings.Repeat("x", 30_000)}) // a log is soon full
		}); err != nil {
			return durable, id, err
		}
		if sync {
			durable = id
		}
	}
	return durable, most - 1, nil
}

// TestFatalFaultStopsTheStore tests errors for which Pebble would end the process or retry
// forever. They must stop the store: the affected write and all later ones return the cause,
// reads continue, and Close returns. When the store is opened again in the same process, all
// acknowledged documents must be there.
func TestFatalFaultStopsTheStore(t *testing.T) {
	write := []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData,
		errorfs.OpFileSyncTo}
	for what, c := range map[string]struct {
		kinds []errorfs.OpKind
		file  string             // begins or ends so
		call  func(*Store) error // that fails; nil: fillUp
	}{
		"the MANIFEST can not be written": {write[:1], "MANIFEST", nil},
		"the MANIFEST can not be synced":  {write[1:3], "MANIFEST", nil},
		"the next log can not be made": {[]errorfs.OpKind{errorfs.OpCreate,
			errorfs.OpReuseForWrite}, ".log", nil},
		"the log can not be written":         {write, ".log", nil},
		"the log can not be written by Sync": {write, ".log", (*Store).Sync},
		"the log can not be written, and nobody waits": {write, ".log", func(s *Store) (err error) {
			for err == nil {
				err = commitOf(s, false, func(b *Batch) { b.SetKey(1, 1) })
				time.Sleep(10 * time.Microsecond)
			}
			return err
		}},
		"the folder can not be synced":        {write[1:2], "ix", nil},
		"tables can not be made, for ever":    {[]errorfs.OpKind{errorfs.OpCreate}, ".sst", nil},
		"tables can not be written, for ever": {write, ".sst", nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && (strings.HasPrefix(what, "tables can not be made") ||
				strings.HasSuffix(what, "be synced")) {
				t.Skip("much like another one")
			}
			disk := &breakable{mem: crashfs.New(), fails: func(kind errorfs.OpKind,
				base string) bool {
				return slices.Contains(c.kinds, kind) &&
					(strings.HasPrefix(base, c.file) || strings.HasSuffix(base, c.file))
			}}
			fsys := disk.fs()
			s := openIn(t, fsys)
			acknowledged, applied, err := fillUp(t, s, 1, 20)
			must(t, err)
			disk.broken.Store(true)
			if c.call != nil {
				err = c.call(s)
			} else {
				acknowledged, applied, err = fillUp(t, s, acknowledged+1, 5000)
			}
			if !errors.Is(err, fault.ErrFailed) || !errors.Is(err, syscall.ENOSPC) ||
				disk.hits.Load() == 0 {
				t.Fatalf("after %d documents: %v", acknowledged, err)
			}
			disk.broken.Store(false) // too late
			for _, sync := range []bool{true, false} {
				if err := commitOf(s, sync, func(b *Batch) {
					document(b, applied+1)
				}); !errors.Is(err, fault.ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("Apply: %v", err)
				}
			}
			if err := s.Sync(); !errors.Is(err, fault.ErrFailed) {
				t.Errorf("Sync: %v", err)
			}
			s.DiskBytes()
			if n := records(t, s); n < acknowledged || n > applied {
				t.Errorf("%d documents can be read of %d", n, acknowledged)
			}
			crashed := disk.mem.CrashClone(vfs.CrashCloneCfg{})
			if err := s.Close(); !errors.Is(err, fault.ErrFailed) {
				t.Errorf("Close: %v", err)
			}
			for _, fsys := range []vfs.FS{fsys, crashed} {
				again := openIn(t, fsys)
				n := records(t, again)
				if n < acknowledged || n > applied {
					t.Errorf("%d documents after it, of %d", n, acknowledged)
				}
				_, _, err := fillUp(t, again, n+1, n+50)
				must(t, err, again.Close())
			}
		})
	}
}

// records counts the documents from 1 on that have a record.
func records(t *testing.T, s *Store) (n uint64) {
	v, err := s.View()
	if err != nil {
		t.Error(err)
		return 0
	}
	defer v.Close()
	for r, err := range v.Records(1) {
		if err != nil || r.ID != n+1 {
			t.Errorf("record %d behind %d: %v", r.ID, n, err)
		}
		n = r.ID
	}
	return n
}

// crashedAfter returns the files that a crash leaves of a store with documents, and the number of
// acknowledged documents.
func crashedAfter(t *testing.T, documents uint64) (crashed *crashfs.FS, acknowledged uint64) {
	t.Helper()
	mem := crashfs.New()
	s := openIn(t, mem)
	acknowledged, _, err := fillUp(t, s, 1, documents)
	must(t, err)
	crashed = mem.CrashClone(vfs.CrashCloneCfg{})
	must(t, s.Close())
	return crashed, acknowledged
}

// recordsAfter opens the store, and counts its records.
func recordsAfter(t *testing.T, fsys vfs.FS) uint64 {
	t.Helper()
	s := openIn(t, fsys)
	n := records(t, s)
	must(t, s.Close())
	return n
}

// TestOpenOnFullDiskAfterCrash opens a store after a crash with a full disk, where Pebble would
// retry to flush the log forever. Open must return an error and lose nothing, however far it got.
// With free space, the next Open must find all documents.
func TestOpenOnFullDiskAfterCrash(t *testing.T) {
	crashed, acknowledged := crashedAfter(t, 200)
	for what, of := range map[string]string{"": "", "of a table": ".sst",
		"of the MANIFEST": "MANIFEST"} {
		left := crashed.CrashClone(vfs.CrashCloneCfg{})
		disk := &breakable{mem: left, fails: func(kind errorfs.OpKind, base string) bool {
			switch kind {
			case errorfs.OpCreate:
				return of == ""
			case errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData,
				errorfs.OpFileSyncTo:
				return strings.Contains(base, of)
			}
			return false
		}}
		fsys := disk.fs()
		disk.broken.Store(true)
		before, err := left.List("ix")
		must(t, err)
		for range 3 {
			if _, err := Open("ix", Options{FS: fsys}); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("the disk is full at a write %s: %v", what, err)
			}
			if after, err := left.List("ix"); err != nil ||
				!slices.Equal(slices.Sorted(slices.Values(after)),
					slices.Sorted(slices.Values(before))) {
				t.Errorf("the disk is full at a write %s: left are %q of %q, %v", what,
					after, before, err)
			}
		}
		disk.broken.Store(false)
		if n := recordsAfter(t, fsys); n != acknowledged {
			t.Errorf("%d documents of %d", n, acknowledged)
		}
	}
}

// The files of an interrupted compaction must be removed before the log is flushed. There may be
// no space for both.
func TestOpenRemovesLeftoverFilesFirst(t *testing.T) {
	left, acknowledged := crashedAfter(t, 200)
	must(t, left.MkdirAll("ix/"+incomingDir, 0o700))
	disk := &breakable{mem: left, fails: func(kind errorfs.OpKind, base string) bool {
		_, err := left.Stat("ix/" + incomingDir)
		return err == nil && kind == errorfs.OpCreate && strings.HasSuffix(base, ".sst")
	}}
	disk.broken.Store(true)
	if n := recordsAfter(t, disk.fs()); n != acknowledged {
		t.Errorf("%d documents of %d", n, acknowledged)
	}
	if names, err := left.List("ix"); err != nil || slices.Contains(names, incomingDir) {
		t.Errorf("left are %q, %v", names, err)
	}
}

// TestOpenWithEveryOperationFailing lets every operation of Open fail in turn, once and
// permanently, without a store and after a crash. Open must return an error or succeed. It must
// not panic or hang, and nothing may be lost.
func TestOpenWithEveryOperationFailing(t *testing.T) {
	crashed, acknowledged := crashedAfter(t, 20)
	for _, c := range []struct {
		left         *crashfs.FS
		acknowledged uint64
	}{{crashfs.New(), 0}, {crashed, acknowledged}} {
		refused, tried, step := 0, 0, int64(1)
		if testing.Short() {
			step = 7
		}
		for _, from := range []bool{false, true} {
			for at := int64(0); ; at += step {
				var n, hits atomic.Int64
				left := c.left.CrashClone(vfs.CrashCloneCfg{})
				s, err := Open("ix", Options{Create: &Meta{Plan: "plan"},
					FS: errorfs.Wrap(left, errorfs.InjectorFunc(func(op errorfs.Op) error {
						if i := n.Add(1) - 1; i == at || from && i > at {
							hits.Add(1)
							return fmt.Errorf("injected into kind %d of %s: %w", op.Kind,
								op.Path, syscall.EIO)
						}
						return nil
					}))})
				if err != nil && !errors.Is(err, syscall.EIO) {
					t.Errorf("operation %d, from there on %t: %v", at, from, err)
				}
				if err == nil {
					s.Close()
				} else {
					refused++
				}
				tried++
				if n := recordsAfter(t, left); n != c.acknowledged {
					t.Errorf("operation %d, from there on %t: %d documents of %d", at, from, n,
						c.acknowledged)
				}
				if hits.Load() == 0 {
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

// TestCallThatIsLateForClose tests a call that guard did not wait for and that reaches Pebble
// after Close. Pebble would end the process for it.
func TestCallThatIsLateForClose(t *testing.T) {
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

// TestStopInTheMiddleOfACheckpoint stops the store while Pebble creates a directory or a file of
// a checkpoint. Checkpoint must not wait for Pebble, which may never return. Nothing may be
// created in the directory afterwards.
func TestStopInTheMiddleOfACheckpoint(t *testing.T) {
	for what, at := range map[string]errorfs.OpKind{"folder": errorfs.OpMkdirAll,
		"file": errorfs.OpCreate, "link": errorfs.OpLink} {
		t.Run(what, func(t *testing.T) {
			mem := vfs.NewMem()
			reached, goOn := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			s := openIn(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				// For a link, errorfs reports the existing name.
				if op.Kind == at && (at == errorfs.OpLink ||
					strings.HasPrefix(op.Path, "copy.incomplete")) &&
					once.CompareAndSwap(false, true) {
					close(reached)
					<-goOn
				}
				return nil
			})))
			_, _, err := fillUp(t, s, 1, 4)
			must(t, err, s.db.Flush()) // for a table to link
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
