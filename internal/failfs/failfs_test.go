package failfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var must = testenv.Must

// pebbleVersion is the version for which this package was written. Before another version is used,
// check
//
//   - vital: a failed write to such a file ends the process;
//   - FS.change, List: nothing else that Open does after a flush can fail; if it did, Open would
//     free memory in use;
//   - Excise: a read error in an excised table is ignored;
//   - eventListener: BackgroundError gets the errors of FlushEnd, and Pebble repeats
//     failed work without a pause;
//   - lateScheduler: Open registers the database before it waits for a flush, and the
//     default concurrency is one;
//   - Copy: Checkpoint panics if it cannot sync a directory, and holds no lock then;
//   - file.reserve: zeros after the records of a log are its end, and Open flushes all logs
//     before it creates one;
//   - wrap: a checkpoint first lists the logs and then opens them, and only the last log grows;
//   - cleaner: a cleaner that needs the contents of files keeps Pebble from overwriting logs;
//
// and run the tests of these properties: FatalFault, OpenWithEveryOperationFailing,
// UnreadableStatistics, ZerosAfterLog, CheckpointWhileLogGrows, MissingOrCutTable, Faults.
const pebbleVersion = "v2.1.7"

func TestPebbleVersion(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	must(t, err)
	if !strings.Contains(string(mod), "github.com/cockroachdb/pebble/v2 "+pebbleVersion+"\n") {
		t.Errorf("this package was checked for Pebble %s", pebbleVersion)
	}
}

// linesLogger collects the lines of Pebble's log that are errors.
type linesLogger struct{ lines bytes.Buffer }

func (l *linesLogger) Infof(string, ...any) {}
func (l *linesLogger) Errorf(format string, args ...any) {
	fmt.Fprintf(&l.lines, format+"\n", args...)
}
func (l *linesLogger) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func optionsOver(f *FS, logger pebble.Logger) *pebble.Options {
	return &pebble.Options{FS: f, Logger: logger, EventListener: &pebble.EventListener{}}
}

// TestCallsAfterAbandon tests Pebble's calls after the database was abandoned, for example between
// opening a file and reading its size. They must not reach a closed file, whose descriptor may have
// been reused, and must not change the disk.
func TestCallsAfterAbandon(t *testing.T) {
	mem := vfs.NewMem()
	fsys := New(mem, "store", func(error) {})
	must(t, fsys.MkdirAll("store", 0o755))
	f, err := fsys.Create("store/1.sst", vfs.WriteCategoryUnspecified)
	must(t, err, f.Close())
	f, err = fsys.Open("store/1.sst")
	must(t, err)
	fsys.Stop(syscall.EIO)
	fsys.abandon()
	calls := map[string]func(){
		"Stat":     func() { f.Stat() },
		"ReadAt":   func() { f.ReadAt(make([]byte, 1), 0) },
		"Write":    func() { f.Write(make([]byte, 1)) },
		"Open":     func() { fsys.Open("store/1.sst") },
		"MkdirAll": func() { fsys.MkdirAll("more", 0o755) },
	}
	answered := make(chan string, len(calls))
	for name, call := range calls {
		go func() {
			call()
			answered <- name
		}()
	}
	select {
	case name := <-answered:
		t.Errorf("%s returned after the database was abandoned", name)
	case <-time.After(20 * time.Millisecond):
	}
	must(t, f.Close())
}

// TestVitalFiles tests which files are vital. Pebble ends the process if it cannot write to one
// of them.
func TestVitalFiles(t *testing.T) {
	f := New(vfs.NewMem(), "ix", nil)
	for name, want := range map[string]bool{
		"ix/000012.log": true, "ix/MANIFEST-000003": true,
		"ix/marker.manifest.000001.MANIFEST-000003": true,
		"ix": true, "ix/000013.sst": false, "ix/OPTIONS-000004": false,
		"ix/incoming/000012.log": false, "copy/MANIFEST-000003": false, "log": false,
	} {
		if got := f.vital(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestStopDuringDo tests calls that run when the database stops. With patience, Do waits for a
// write, so that the caller knows whether it became visible. Later, Do must not begin a call, which
// might never return.
func TestStopDuringDo(t *testing.T) {
	for patience, want := range map[time.Duration]error{2 * time.Second: nil, 0: fault.ErrFailed} {
		f := New(vfs.NewMem(), "ix", func(error) {})
		err := f.Do(patience, func() error {
			f.Stop(syscall.EIO)
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		if !errors.Is(err, want) || want != nil && !errors.Is(err, syscall.EIO) {
			t.Errorf("patience %v: %v", patience, err)
		}
		for range 100 {
			if err := f.Do(patience, func() error {
				t.Error("Do began a call after the stop")
				return nil
			}); !errors.Is(err, fault.ErrFailed) {
				t.Fatal(err)
			}
		}
	}
}

type closer func() error

func (c closer) Close() error { return c() }

// TestCloseIteratorWhileExcising tests that closing an iterator waits for Pebble's lock only
// until the database stops.
func TestCloseIteratorWhileExcising(t *testing.T) {
	failure := errors.New("a failure")
	f := New(vfs.NewMem(), "", func(error) {})
	closes := func() error {
		err := f.CloseIterator(closer(func() error { return failure }))
		if err != failure {
			t.Errorf("CloseIterator: %v", err)
		}
		return err
	}
	closes()
	if err := f.Excise(closes); err != failure {
		t.Errorf("Excise: %v", err)
	}
	closes()

	lock, waits := make(chan struct{}), make(chan struct{})
	go f.Excise(func() error {
		<-waits
		f.Stop(failure)
		<-lock
		return nil
	})
	for f.excision.TryRLock() {
		f.excision.RUnlock()
		runtime.Gosched()
	}
	if err := f.CloseIterator(closer(func() error {
		close(waits)
		<-lock
		return failure
	})); err != nil {
		t.Errorf("CloseIterator of an iterator that needs the lock: %v", err)
	}
	close(lock)
}

// TestUnreadableStatistics tests a table whose statistics are unreadable. Pebble reads them again
// and again. This must not keep a processor busy, fill the log or delay Close.
func TestUnreadableStatistics(t *testing.T) {
	mem := vfs.NewMem()
	f := New(mem, "ix", func(error) {})
	db, err := f.OpenDB(optionsOver(f, &linesLogger{}))
	must(t, err, db.Set([]byte("key"), make([]byte, 1000), nil), db.Flush(), f.CloseDB(db))
	var attempts atomic.Int64
	f = New(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		// Only reads of statistics fail. Errors while a table is opened could fail other readers.
		if op.Kind == errorfs.OpFileReadAt &&
			bytes.Contains(debug.Stack(), []byte(".ReadPropertiesBlock(")) {
			attempts.Add(1)
			return syscall.EIO
		}
		return nil
	})), "ix", func(error) {})
	var log linesLogger // written by one goroutine, and read after the database is closed
	began := time.Now()
	db, err = f.OpenDB(optionsOver(f, &log))
	must(t, err)
	for attempts.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	must(t, f.CloseDB(db))
	if n, most := attempts.Load(), int64(time.Since(began)/retryPause)+10; n > most {
		t.Errorf("%d attempts, expected at most %d", n, most)
	}
	if n := strings.Count(log.lines.String(), "background"); n != 1 {
		t.Errorf("%d lines of the log:\n%.500s", n, log.lines.String())
	}
}

// TestBackgroundErrors tests that a failed flush stops the database. A failed compaction stops it
// only if a write waits for the compaction. A flush without data, which FlushEnd also reports with
// an error, does not stop it.
func TestBackgroundErrors(t *testing.T) {
	failure := errors.New("no room")
	for events, stops := range map[string]bool{
		"flush,background": true, "empty flush": false, "compaction,background": false,
		"stall,compaction": true, "stall,end,compaction": false, "stall,cancelled": false,
	} {
		f := New(vfs.NewMem(), "", func(error) {})
		l := f.eventListener(&linesLogger{})
		for event := range strings.SplitSeq(events, ",") {
			switch event {
			case "flush":
				l.FlushEnd(pebble.FlushInfo{Err: failure})
			case "empty flush":
				l.FlushEnd(pebble.FlushInfo{Err: errors.New("empty")})
			case "background":
				l.BackgroundError(failure)
			case "compaction":
				l.CompactionEnd(pebble.CompactionInfo{Err: failure})
			case "cancelled":
				l.CompactionEnd(pebble.CompactionInfo{Err: pebble.ErrCancelledCompaction})
			case "stall":
				l.WriteStallBegin(pebble.WriteStallBeginInfo{})
			case "end":
				l.WriteStallEnd()
			}
		}
		if f.hasStopped() != stops {
			t.Errorf("%s: the database has stopped: %t", events, f.hasStopped())
		}
	}
}
