package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard calls Pebble. Where the store has stopped, or stops meanwhile, it returns
// ErrFailed: the call may never end.
func (s *Store) guard(call func() error) error { return s.guardFor(0, call) }

// applyPatience is how long a batch that is being applied may take when the store stops.
// It becomes visible then, and its caller must know; after that, it is held up before.
const applyPatience = 2 * time.Second

// guardFor is guard, but a call under way has so long to end when the store stops.
func (s *Store) guardFor(patience time.Duration, call func() error) error {
	if s.watch == nil { // nothing is written
		return call()
	}
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-s.watch.stopped:
	}
	if patience > 0 {
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
		}
	}
	select {
	case err := <-done:
		return err
	default:
		return s.stoppedError()
	}
}

func (s *Store) stoppedError() error {
	return fmt.Errorf("%w: %w", ErrFailed, classify(s.watch.cause))
}

// openGuarded opens Pebble's database.
func (s *Store) openGuarded() error {
	if s.watch == nil {
		db, err := pebble.Open(s.dir, s.options)
		s.db = db
		return s.openError(err)
	}
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	go func() {
		db, err := pebble.Open(s.dir, s.options)
		done <- opened{db, err}
	}()
	select {
	case o := <-done:
		s.db = o.db
		s.watch.opening.Store(false)
		return s.openError(o.err)
	case <-s.watch.stopped:
		return errors.Join(classify(s.watch.cause), s.leave())
	}
}

var tableNumber = regexp.MustCompile(`\b\d{6,}\b`)

// openError names what Pebble's Open says of a file that is missing or too short. There is an index,
// so no caller may take that for fs.ErrNotExist.
func (s *Store) openError(err error) error {
	if errors.Is(err, pebble.ErrDBNotPristine) {
		return damaged(s.dir, "lacks its marker.format-version file")
	}
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil || !missing && !strings.Contains(err.Error(), sizeMismatch) {
		return classify(err)
	}
	path := s.fs.PathJoin(s.dir, tableNumber.FindString(err.Error())+".sst")
	var of *fs.PathError
	switch {
	case errors.As(err, &of):
		return damaged(of.Path, "is missing")
	case missing:
		return damaged(path, "is missing")
	}
	return damaged(path, "is not as long as it was written")
}

// closeDB closes Pebble's database, or leaves it behind.
func (s *Store) closeDB() error {
	if s.watch != nil && s.watch.hasStopped() {
		// A call that guard did not wait for may go on, and Pebble panics over one that
		// comes after its Close.
		return errors.Join(s.stoppedError(), s.leave())
	}
	if s.watch != nil {
		s.watch.end()
	}
	err := classify(s.guard(s.db.Close))
	if s.watch != nil && s.watch.hasStopped() {
		return errors.Join(err, s.leave())
	}
	if err == nil && !s.readOnly {
		// Everything is durable as it is; a digest that cannot be written tells of no loss.
		if err := writeDigest(s.dir, s.fs); err != nil {
			s.options.Logger.Errorf("no digest of the closed index was written: %v", err)
		}
	}
	return errors.Join(err, s.dirLock.Close())
}

// leave ends a store that has stopped. Pebble's goroutines and what it has in memory
// stay as they are until the process ends, and can do no harm.
func (s *Store) leave() error {
	s.watch.leave()
	s.options.Cache.Reserve(int(s.options.Cache.MaxSize())) // that can be given back
	return s.lock.release()
}

// eventListener tells the watch what goes wrong in the background. Pebble calls it with
// its lock held, but for errors of what is none of its duties. The error of a flush is one
// only if it also comes as one of the background: a flush that had nothing to write
// "fails" too.
func (f *failStop) eventListener(logger pebble.Logger) *pebble.EventListener {
	var flush atomic.Pointer[error]
	var stalled bool
	statistics := statisticsRetry{pause: firstPause}
	return &pebble.EventListener{
		FlushEnd: func(info pebble.FlushInfo) {
			flush.Store(&info.Err)
			if info.Err == nil {
				f.succeeded()
			}
		},
		BackgroundError: func(err error) {
			if calledBy(statisticsCaller) {
				statistics.failed(err, logger, f.ending)
				return
			}
			logger.Errorf("in the background: %v", err)
			if last := flush.Load(); last != nil && *last != nil && errors.Is(err, *last) {
				f.failed(err, true)
			}
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			switch {
			case info.Err == nil:
				f.succeeded()
			case !errors.Is(info.Err, pebble.ErrCancelledCompaction):
				f.failed(info.Err, stalled)
			}
		},
		DataCorruption:  corruptionIsReturned,
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { stalled = true },
		WriteStallEnd:   func() { stalled = false },
	}
}

// corruptionIsReturned leaves a damaged block to the error that who reads it gets. Pebble's
// own listener ends the process.
func corruptionIsReturned(pebble.DataCorruptionInfo) {}

// onceLock is the lock on a directory, which can be given back before Pebble does.
type onceLock struct {
	vfs.FS
	once sync.Once
	held io.Closer
}

func (l *onceLock) Lock(name string) (io.Closer, error) {
	held, err := l.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	l.held = held
	return l, nil
}

func (l *onceLock) release() (err error) {
	l.once.Do(func() { err = l.held.Close() })
	return err
}

// Close is Pebble's.
func (l *onceLock) Close() error { return l.release() }
