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

// pebbleVersion is the version for which this package was written. Before another version is used, check
//
//   - dir.Close: the first thing that Open does when it fails behind a flush is to close its directory;
//   - Excise: what a read of an excised table cannot have is taken for nothing;
//   - vital: a failed write to such a file ends the process;
//   - lateScheduler: Open registers before it waits for a flush, and does not unregister where it fails;
//   - eventListener: BackgroundError gets the errors of FlushEnd and CompactionEnd, and without DB.mu those of
//     table statistics;
//   - file.reserve: zeros behind what a log holds are its end, and Open has all logs in tables before it begins another;
//   - FS.withoutRoom: a checkpoint opens the logs that it copies once it has its list of them, and only the last grows;
//   - cleaner: one that needs what a file holds keeps Pebble from writing over logs;
//
// and the tests of these points: FatalFault, OpenWithEveryOperationFailing, StatisticsOfATable,
// MissingLogAfterCrash, RoomBehindLog, CheckpointWhileLogGrows, MissingOrCutFile, UnreadableEdge, DiskIsWhatItHolds.
const pebbleVersion = "v2.1.7"

func TestPebbleVersion(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	must(t, err)
	if !strings.Contains(string(mod), "github.com/cockroachdb/pebble/v2 "+pebbleVersion+"\n") {
		t.Errorf("what leans on Pebble was looked at for %s", pebbleVersion)
	}
}

// soon fails the test where a call does not end.
func soon(t *testing.T, what string, call func()) {
	t.Helper()
	returned := make(chan struct{})
	go func() { call(); close(returned) }()
	select {
	case <-returned:
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s does not end", what)
	}
}

// linesLogger counts the lines of Pebble's log that are errors.
type linesLogger struct{ lines bytes.Buffer }

func (l *linesLogger) Infof(string, ...any)              {}
func (l *linesLogger) Errorf(format string, args ...any) { fmt.Fprintf(&l.lines, format+"\n", args...) }
func (l *linesLogger) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func optionsOver(f *FS, logger pebble.Logger) *pebble.Options {
	return &pebble.Options{FS: f, Logger: logger}
}

// Pebble may be anywhere when it is abandoned: between opening a file and asking for its
// size, say. What it does then reaches no file that is closed, whose number another one may
// have by then, and changes nothing.
func TestFileThatIsUsedAfterItWasAbandoned(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("store", 0o755))
	if f, err := mem.Create("store/1.sst", vfs.WriteCategoryUnspecified); err != nil || f.Close() != nil {
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
		"Prefetch": func() { f.Prefetch(0, 1) },
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

// TestVitalFiles are those of the database itself: Pebble ends the process when one cannot be written.
func TestVitalFiles(t *testing.T) {
	f := New(vfs.NewMem(), "ix", nil)
	for name, want := range map[string]bool{
		"ix/000012.log": true, "ix/MANIFEST-000003": true, "ix/marker.manifest.000001.MANIFEST-000003": true,
		"ix/000013.sst": false, "ix/OPTIONS-000004": false, "ix/incoming/000012.log": false, "copy/MANIFEST-000003": false, "log": false,
	} {
		if got := f.vital(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestCallThatIsUnderWay when the database stops is waited for with patience, so that who wrote knows what
// became visible. A call that only reads is not.
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

// fill makes a database with a table in it.
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

// Whoever closes an iterator waits for Pebble's lock no longer than until the database stops.
func TestCloseIteratorWhileExcising(t *testing.T) {
	failure := errors.New("a failure")
	fails := closer(func() error { return failure })
	f := New(vfs.NewMem(), "", func(error) {})
	closed := func(when string, it closer, want error) {
		soon(t, "CloseIterator "+when, func() {
			if err := f.CloseIterator(it); err != want {
				t.Errorf("%s: %v, want %v", when, err, want)
			}
		})
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

// What makes files obsolete is another moment, and CloseDB waits for iterators that are closed later.
func TestIteratorsThatAreClosedLater(t *testing.T) {
	f := New(vfs.NewMem(), "ix", func(error) {})
	db, err := f.OpenDB(optionsOver(f, &linesLogger{}))
	must(t, err, db.Set([]byte("key"), []byte("value"), nil))
	it, err := db.NewIter(nil)
	must(t, err)
	for what, change := range map[string]func() error{
		"flush":   db.Flush,
		"compact": func() error { return db.Compact(t.Context(), []byte("a"), []byte("z"), false) },
		"excise":  func() error { return f.Excise(func() error { return nil }) },
	} {
		must(t, db.Set([]byte("key"), []byte(what), nil))
		before := f.Moment()
		must(t, change())
		if f.Moment() == before {
			t.Errorf("%s: the same moment", what)
		}
	}
	lock := make(chan struct{})
	f.CloseIteratorLater(closer(func() error {
		<-lock
		return it.Close()
	}))
	closed := make(chan error)
	go func() { closed <- f.CloseDB(db) }()
	select {
	case err := <-closed:
		t.Errorf("CloseDB does not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
		close(lock)
		must(t, <-closed)
	}
}

// Pebble reads the statistics of a table that it can not read again and again. It must not
// keep a processor busy with it, nor fill the log, nor hold up Close.
func TestStatisticsOfATableThatCannotBeRead(t *testing.T) {
	mem := fill(t)
	var attempts atomic.Int64
	f := New(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		// Not what opens a table, which another reader may be waiting for.
		if op.Kind == errorfs.OpFileReadAt && calledBy(".ReadPropertiesBlock") {
			attempts.Add(1)
			return syscall.EIO
		}
		return nil
	})), "ix", func(error) {})
	var log linesLogger // written by one goroutine, and read when the database is closed
	db, err := f.OpenDB(optionsOver(f, &log))
	must(t, err)
	soon(t, "the first attempt", func() {
		for attempts.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
	})
	time.Sleep(100 * time.Millisecond)
	soon(t, "Close", func() { err = f.CloseDB(db) })
	if err != nil {
		t.Error(err)
	}
	// With pauses of 5, 10, 20 ms and so on there are 6 in 300 ms, and later one per second.
	if n := attempts.Load(); n > 30 {
		t.Errorf("%d attempts", n)
	}
	if n := strings.Count(log.lines.String(), "statistics"); n != 1 {
		t.Errorf("%d lines of the log:\n%.500s", n, log.lines.String())
	}
}

// calledBy reports whether a function or method, as ".name", is among the callers.
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

// TestOpenThatFailsLate leaves nothing running.
func TestOpenThatFailsLate(t *testing.T) {
	mem := fill(t)
	const run = ".(*lateScheduler).run("
	before := running(run)
	f := New(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpRename && strings.HasSuffix(op.Path, ".dbtmp") {
			return syscall.ENOENT // any other error stops the database
		}
		return nil
	})), "ix", func(error) {})
	if _, err := f.OpenDB(optionsOver(f, &linesLogger{})); err == nil {
		t.Fatal("it opens")
	}
	soon(t, "the scheduler", func() {
		for running(run) > before {
			time.Sleep(time.Millisecond)
		}
	})
}

// running counts the goroutines that have a function in their stack. Some stay of databases that were abandoned.
func running(function string) int {
	stacks := make([]byte, 16<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(function))
}

// What a failed Open has made goes, unless a marker may lead to some of it.
func TestSweep(t *testing.T) {
	for _, test := range []struct {
		made []string
		left int
	}{
		{[]string{"000005.sst", "MANIFEST-000006"}, 0},
		{[]string{"000005.sst", "marker.manifest.000002.MANIFEST-000006", "000007.sst"}, 3},
	} {
		mem := vfs.NewMem()
		f := New(mem, "", func(error) {})
		for _, name := range test.made {
			file, err := f.Create(name, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			file.Close()
		}
		f.sweep()
		if left, err := mem.List(""); err != nil || len(left) != test.left {
			t.Errorf("of %q there is left %q, %v", test.made, left, err)
		}
	}
}

// TestErrorsInTheBackground: each error is logged with the work that failed. Only a flush that fails again and
// again stops the database, and nothing waits for its time except the statistics.
func TestErrorsInTheBackground(t *testing.T) {
	f := New(vfs.NewMem(), "", func(error) {})
	f.opening.Store(false)
	var log linesLogger
	listener := f.eventListener(&log)
	compaction, flush := errors.New("no room for a compaction"), errors.New("no room for a flush")
	for range maxFailures {
		listener.CompactionEnd(pebble.CompactionInfo{Err: compaction})
		listener.BackgroundError(fmt.Errorf("job: %w", compaction))
	}
	if f.hasStopped() {
		t.Error("failed compactions that nothing waits for stop the database")
	}
	listener.CompactionEnd(pebble.CompactionInfo{})
	for range maxFailures - 1 {
		listener.FlushEnd(pebble.FlushInfo{Err: flush})
		listener.BackgroundError(flush)
	}
	listener.FlushEnd(pebble.FlushInfo{Err: flush}) // had nothing to write
	if f.hasStopped() {
		t.Errorf("the database has stopped after %d failures", maxFailures-1)
	}
	listener.BackgroundError(errors.New("unreadable"))
	listener.BackgroundError(flush)
	if !f.hasStopped() || !errors.Is(f.Err(), flush) {
		t.Errorf("after %d failures: %v", maxFailures, f.Err())
	}
	lines := log.lines.String()
	for what, want := range map[string]int{"compaction failed: job: no room for a compaction": maxFailures, "flush failed: no room": maxFailures, "statistics": 1} {
		if n := strings.Count(lines, what); n != want {
			t.Errorf("%d lines with %q, not %d:\n%s", n, what, want, lines)
		}
	}
}

// The time that writes wait is counted while they do, and afterwards.
func TestStalls(t *testing.T) {
	f := New(vfs.NewMem(), "", func(error) {})
	listener := f.eventListener(pebble.DefaultLogger)
	for n := range uint64(2) {
		listener.WriteStallBegin(pebble.WriteStallBeginInfo{})
		time.Sleep(5 * time.Millisecond)
		if count, took := f.Stalls(); count != n+1 || took < time.Duration(n+1)*5*time.Millisecond {
			t.Errorf("%d stalls of %v while the %d. goes on", count, took, n+1)
		}
		listener.WriteStallEnd()
	}
	_, took := f.Stalls()
	time.Sleep(5 * time.Millisecond)
	if count, later := f.Stalls(); count != 2 || later != took {
		t.Errorf("%d stalls of %v and later %v", count, took, later)
	}
}

// TestDoAfterAFailure: once the database has stopped, Do does not begin a call, which might never end and
// would keep its goroutine.
func TestDoAfterAFailure(t *testing.T) {
	f := New(vfs.NewMem(), "db", func(error) {})
	f.Stop(errors.New("the disk is full"))
	before := runtime.NumGoroutine()
	for range 100 {
		if err := f.Do(0, func() error { select {} }); !errors.Is(err, fault.ErrFailed) {
			t.Fatal(err)
		}
	}
	if after := runtime.NumGoroutine(); after > before+maxIdleCallers {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}
