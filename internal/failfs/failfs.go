// Package failfs hides file system errors from Pebble that Pebble does not survive. Pebble ends the
// process if it cannot write to its log, its MANIFEST, a marker or a directory. It uses freed
// memory if Open fails late. It repeats a failed flush forever.
//
// After such an error, the operation does not return, and no later operation changes the disk: the
// database has stopped. Pebble can still read. Callers call Pebble through Do, which returns
// fault.ErrFailed once the database has stopped. After CloseDB the directory can be opened again.
//
// TestPebbleVersion lists the properties of Pebble that the package depends on.
package failfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
)

// FS is the file system of one Pebble database.
type FS struct {
	vfs.FS
	dir     string
	onStop  func(error) // called with the cause before stopped is closed
	once    sync.Once
	stopped chan struct{}
	cause   error // set before stopped is closed

	opening  atomic.Bool
	stalled  atomic.Bool  // a write waits for background work
	excision sync.RWMutex // locked during an excision, which may never end if the database stops
	copying  atomic.Pointer[context.Context]

	using   sync.RWMutex // read-locked during each operation on a file
	mu      sync.Mutex
	open    map[*file]struct{} // nil once Pebble is abandoned
	created []string           // tables and MANIFESTs that Open has created
	named   bool               // a marker may name one of them
}

// New returns the file system for the database in dir. If the database stops, it calls onStop with
// the cause.
func New(fsys vfs.FS, dir string, onStop func(error)) *FS {
	f := &FS{FS: fsys, dir: dir, onStop: onStop, stopped: make(chan struct{}),
		open: make(map[*file]struct{})}
	f.opening.Store(true)
	return f
}

// OpenDB opens Pebble's database with the file system, which must be o.FS. After an error the
// directory can be opened again.
func (f *FS) OpenDB(o *pebble.Options) (*pebble.DB, error) {
	listener := pebble.TeeEventListener(f.eventListener(o.Logger), *o.EventListener)
	o.EventListener, o.Cleaner = &listener, cleaner{}
	scheduler := &lateScheduler{
		CompactionScheduler: pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest(),
	}
	o.Experimental.CompactionScheduler = scheduler
	opened := make(chan *pebble.DB, 1) // the call may return after Do
	err := f.Do(0, func() error {
		db, err := pebble.Open(f.dir, o)
		opened <- db
		return err
	})
	if f.hasStopped() {
		f.abandon()
		for _, name := range f.created {
			if !f.named {
				// otherwise each attempt on a full disk would leave more files
				_ = f.FS.Remove(name)
			}
		}
		return nil, f.cause
	}
	f.opening.Store(false)
	if err != nil {
		return nil, err
	}
	scheduler.begin()
	return <-opened, nil
}

// CloseDB closes the database, or abandons it if it has stopped.
func (f *FS) CloseDB(db *pebble.DB) error {
	err := f.Do(0, db.Close)
	if f.hasStopped() {
		f.abandon()
	}
	return err
}

// Do calls Pebble. If the database has stopped, Do returns ErrFailed without calling Pebble. If the
// database stops during the call, the call may never return: Do waits up to patience for the
// result, and then returns ErrFailed.
func (f *FS) Do(patience time.Duration, call func() error) error {
	if err := f.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-f.stopped:
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return f.Err()
	}
}

// Err returns ErrFailed with the cause if the database has stopped.
func (f *FS) Err() error {
	if !f.hasStopped() {
		return nil
	}
	return fmt.Errorf("%w: %w", fault.ErrFailed, f.cause)
}

// Stop stops the database: nothing changes the disk from now on.
func (f *FS) Stop(cause error) {
	f.once.Do(func() {
		f.cause = cause
		f.onStop(cause)
		close(f.stopped)
	})
}

func (f *FS) hasStopped() bool {
	select {
	case <-f.stopped:
		return true
	default:
		return false
	}
}

// abandon waits for the operations in progress and closes every file, so that the directory can be
// opened again. Later reads do not return. Pebble's goroutines and memory remain until the process
// ends.
func (f *FS) abandon() {
	f.using.Lock()
	defer f.using.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for file := range f.open {
		file.File.Close()
	}
	f.open = nil
}

// Excise runs a call of Pebble's IngestAndExcise. If Pebble cannot read a table of which it excises
// a part, it treats the rest of the table as empty. So a failed read during the call stops the
// database before Pebble can write the result to the MANIFEST.
func (f *FS) Excise(call func() error) error {
	f.excision.Lock()
	defer f.excision.Unlock()
	return call()
}

// CloseIterator closes an iterator of Pebble. Closing the last iterator of a version of the
// database needs a lock of Pebble, which an excision never releases if the database stops during
// it.
func (f *FS) CloseIterator(it io.Closer) error {
	if f.excision.TryRLock() {
		defer f.excision.RUnlock()
		return it.Close()
	}
	if err := f.Do(0, it.Close); !errors.Is(err, fault.ErrFailed) {
		return err
	}
	return nil
}

// lateScheduler delays compactions until the database is open. Otherwise Open would wait for the
// end of a compaction, which more than doubles its time after a crash. Periodic grants are needed
// only if the concurrency of compactions changes. Here it is always one.
type lateScheduler struct {
	pebble.CompactionScheduler
	goroutines int
	db         pebble.DBForCompaction
	begun      atomic.Bool
}

func (s *lateScheduler) Register(goroutines int, db pebble.DBForCompaction) {
	s.goroutines, s.db = goroutines, db
}

func (s *lateScheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !s.begun.Load() {
		return false, nil
	}
	return s.CompactionScheduler.TrySchedule()
}

func (s *lateScheduler) UpdateGetAllowedWithoutPermission() {}

// begin starts the waiting compaction, if any: Done, at the end of a compaction, starts the next.
func (s *lateScheduler) begin() {
	s.CompactionScheduler.Register(s.goroutines, s.db)
	s.begun.Store(true)
	if ok, handle := s.CompactionScheduler.TrySchedule(); ok {
		handle.Done()
	}
}

// cleaner deletes obsolete files, including logs. Pebble overwrites up to four old logs instead,
// unless its cleaner implements NeedsFileContents, as ArchiveCleaner does.
type cleaner struct {
	pebble.DeleteCleaner
	keepsNoLogs
}

// one level deeper than DeleteCleaner, whose methods win
type keepsNoLogs struct{ pebble.ArchiveCleaner }

// retryPause is the pause after failed background work, which Pebble repeats immediately and
// forever.
const retryPause = 20 * time.Millisecond

// eventListener returns a listener that stops the database if writes depend on background work that
// failed. Pebble calls BackgroundError with the errors of flushes, after FlushEnd, of compactions
// and of table statistics.
func (f *FS) eventListener(logger pebble.Logger) pebble.EventListener {
	var flushed, logged atomic.Pointer[error]
	return pebble.EventListener{
		// the flush of an empty memtable also has an error, but BackgroundError does not get it
		FlushEnd: func(info pebble.FlushInfo) { flushed.Store(&info.Err) },
		CompactionEnd: func(info pebble.CompactionInfo) {
			if info.Err != nil && !errors.Is(info.Err, pebble.ErrCancelledCompaction) &&
				f.stalled.Load() {
				f.Stop(info.Err)
			}
		},
		BackgroundError: func(err error) {
			if last := logged.Swap(&err); last == nil || (*last).Error() != err.Error() {
				logger.Errorf("background work failed: %v", err)
			}
			if flush := flushed.Load(); flush != nil && *flush != nil && errors.Is(err, *flush) {
				f.Stop(err)
			}
			time.Sleep(retryPause)
		},
		// the read returns the error; Pebble's default listener ends the process
		DataCorruption:  func(pebble.DataCorruptionInfo) {},
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { f.stalled.Store(true) },
		WriteStallEnd:   func() { f.stalled.Store(false) },
	}
}

// change runs an operation that changes the disk. If the operation fails and Pebble would not
// survive the error, then the database stops. Once it has stopped, change does not return.
func (f *FS) change(vital bool, do func() error) error {
	f.using.RLock()
	if f.hasStopped() {
		f.using.RUnlock()
		select {}
	}
	err := do()
	f.using.RUnlock()
	if err != nil && (vital || f.opening.Load()) {
		f.Stop(err)
		select {}
	}
	return err
}

// read runs a read of an open file. It does not return once Pebble is abandoned.
func (f *FS) read(do func() error) error {
	f.using.RLock()
	if f.open == nil {
		f.using.RUnlock()
		select {}
	}
	err := do()
	f.using.RUnlock()
	if err != nil && err != io.EOF {
		if !f.excision.TryRLock() {
			f.Stop(err)
			return err
		}
		f.excision.RUnlock()
	}
	return err
}
