package failfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
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
//   - wrap: a checkpoint opens the logs that it copies once it has the list of them, and only
//     the last one grows;
//   - cleaner: a cleaner that needs the contents of files keeps Pebble from overwriting logs;
//
// and run the tests of these properties: FatalFault, OpenWithEveryOperationFailing,
// StatisticsOfATable, ZerosAfterLog, CheckpointWhileLogGrows, MissingOrCutTable,
// Faults, DiskUsage.
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

// TestFileThatIsUsedAfterItWasAbandoned tests Pebble's calls after the database was abandoned,
// for example between opening a file and reading its size. They must not reach a closed file,
// whose descriptor may have been reused, and must not change the disk.
func TestFileThatIsUsedAfterItWasAbandoned(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("store", 0o755))
	if f, err := mem.Create("store/1.sst", vfs.WriteCategoryUnspecified); err != nil ||
		f.Close() != nil {
		t.Fatal(err)
	}
	fsys := New(mem, "store", func(error) {})
	f, err := fsys.Open("store/1.sst")
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
		t.Errorf("a database that was abandoned answered %s", name)
	case <-time.After(20 * time.Millisecond):
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
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

// TestCallThatIsUnderWay tests calls that run when the database stops. Do waits for a write, so
// that the caller knows what became visible. It does not wait for a read.
func TestCallThatIsUnderWay(t *testing.T) {
	for _, c := range []struct {
		patience time.Duration
		want     error
	}{{2 * time.Second, nil}, {0, fault.ErrFailed}} {
		f := New(vfs.NewMem(), "ix", func(error) {})
		err := f.Do(c.patience, func() error {
			f.Stop(syscall.EIO)
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		if !errors.Is(err, c.want) || c.want != nil && !errors.Is(err, syscall.EIO) {
			t.Errorf("patience %v: %v", c.patience, err)
		}
	}
}

// fill makes a database with one table.
func fill(t *testing.T) *vfs.MemFS {
	mem := vfs.NewMem()
	f := New(mem, "ix", func(error) {})
	db, err := f.OpenDB(optionsOver(f, &linesLogger{}))
	must(t, err)
	must(t, db.Set([]byte("key"), make([]byte, 1000), nil), db.Flush(), f.CloseDB(db))
	return mem
}

type closer func() error

func (c closer) Close() error { return c() }

// TestCloseIteratorWhileExcising tests that closing an iterator waits for Pebble's lock only
// until the database stops.
func TestCloseIteratorWhileExcising(t *testing.T) {
	failure := errors.New("a failure")
	fails := closer(func() error { return failure })
	f := New(vfs.NewMem(), "", func(error) {})
	closed := func(when string, it closer, want error) {
		if err := f.CloseIterator(it); err != want {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	closed("before", fails, failure)
	if err := f.Excise(func() error {
		closed("while Pebble excises", fails, failure)
		return failure
	}); err != failure {
		t.Error(err)
	}
	closed("behind it", fails, failure)

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
	needsLock := closer(func() error {
		close(waits)
		<-lock
		return failure
	})
	closed("that needs the lock", needsLock, nil)
	close(lock)
}

// TestStatisticsOfATableThatCannotBeRead tests a table whose statistics are unreadable. Pebble
// retries to read them. That must not keep a processor busy, fill the log or delay Close.
func TestStatisticsOfATableThatCannotBeRead(t *testing.T) {
	mem := fill(t)
	var attempts atomic.Int64
	f := New(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		// Errors while a table is opened are left out, since another reader may wait for them.
		if op.Kind == errorfs.OpFileReadAt && calledBy(".ReadPropertiesBlock") {
			attempts.Add(1)
			return syscall.EIO
		}
		return nil
	})), "ix", func(error) {})
	var log linesLogger // written by one goroutine, and read after the database is closed
	began := time.Now()
	db, err := f.OpenDB(optionsOver(f, &log))
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

// calledBy reports whether a function or method, given as ".name", is among the callers.
func calledBy(name string) bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, name) {
			return true
		}
		if !more {
			return false
		}
	}
}

// TestErrorsInTheBackground tests that a failed flush stops the database. A failed compaction
// stops it only if a write waits for it. A flush without data, which FlushEnd also reports with
// an error, does not stop it.
func TestErrorsInTheBackground(t *testing.T) {
	failure := errors.New("no room")
	for what, test := range map[string]struct {
		calls func(l pebble.EventListener)
		stops bool
	}{
		"flush": {func(l pebble.EventListener) {
			l.FlushEnd(pebble.FlushInfo{Err: failure})
			l.BackgroundError(failure)
		}, true},
		"empty flush": {func(l pebble.EventListener) {
			l.FlushEnd(pebble.FlushInfo{Err: errors.New("empty")})
		}, false},
		"compaction": {func(l pebble.EventListener) {
			l.CompactionEnd(pebble.CompactionInfo{Err: failure})
			l.BackgroundError(failure)
		}, false},
		"awaited compaction": {func(l pebble.EventListener) {
			l.WriteStallBegin(pebble.WriteStallBeginInfo{})
			l.CompactionEnd(pebble.CompactionInfo{Err: failure})
		}, true},
		"later compaction": {func(l pebble.EventListener) {
			l.WriteStallBegin(pebble.WriteStallBeginInfo{})
			l.WriteStallEnd()
			l.CompactionEnd(pebble.CompactionInfo{Err: failure})
		}, false},
		"cancelled": {func(l pebble.EventListener) {
			l.WriteStallBegin(pebble.WriteStallBeginInfo{})
			l.CompactionEnd(pebble.CompactionInfo{Err: pebble.ErrCancelledCompaction})
		}, false},
	} {
		f := New(vfs.NewMem(), "", func(error) {})
		test.calls(f.eventListener(&linesLogger{}))
		if f.hasStopped() != test.stops {
			t.Errorf("%s: the database has stopped: %t", what, f.hasStopped())
		}
	}
}

// TestDoAfterAFailure tests that Do starts no call once the database has stopped. The call might
// never return and would leak its goroutine.
func TestDoAfterAFailure(t *testing.T) {
	f := New(vfs.NewMem(), "db", func(error) {})
	f.Stop(errors.New("the disk is full"))
	before := runtime.NumGoroutine()
	for range 100 {
		if err := f.Do(0, func() error { select {} }); !errors.Is(err, fault.ErrFailed) {
			t.Fatal(err)
		}
	}
	if after := runtime.NumGoroutine(); after > before+8 {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}
