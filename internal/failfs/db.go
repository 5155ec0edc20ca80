package failfs

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// OpenDB opens Pebble's database over the file system, which o.FS must be. When it fails, nothing of
// it is left, and the directory can be opened again.
func (f *FS) OpenDB(o *pebble.Options) (*pebble.DB, error) {
	scheduler := newLateScheduler(f)
	o.Experimental.CompactionScheduler = scheduler
	o.EventListener = f.eventListener(o.Logger)
	o.Cleaner = cleaner{}
	opened := make(chan *pebble.DB, 1) // the call may go on after Do
	err := f.Do(0, func() error {
		db, err := pebble.Open(f.dir, o)
		opened <- db
		return err
	})
	if f.hasStopped() {
		f.abandon()
		f.sweep()
		return nil, f.cause
	}
	f.opening.Store(false)
	if err != nil {
		f.end() // where its Open fails, Pebble registers a scheduler and does not unregister it
		return nil, err
	}
	scheduler.UpdateGetAllowedWithoutPermission() // for what was refused
	return <-opened, nil
}

// CloseDB closes the database; where it has stopped, or stops meanwhile, it is abandoned.
func (f *FS) CloseDB(db *pebble.DB) error {
	f.closing.Wait()
	// A call that Do did not wait for may go on, and Pebble panics over one that comes after its Close.
	err := f.Err()
	if err == nil {
		f.end()
		err = f.Do(0, db.Close)
	}
	if f.hasStopped() {
		f.abandon()
	}
	return err
}

// CorruptionIsReturned is a listener that leaves a damaged block to the error that who reads it gets. Pebble's
// own ends the process.
func CorruptionIsReturned(pebble.DataCorruptionInfo) {}

// cleaner deletes the files that are of no use any more, logs too. Pebble keeps up to four of them to
// write over, unless its cleaner needs what a file holds, as the one that archives does.
type cleaner struct {
	pebble.DeleteCleaner
	keepsNoLogs
}

type keepsNoLogs struct{ pebble.ArchiveCleaner } // deeper than DeleteCleaner, whose methods count

// eventListener returns a listener for failures of background work. Pebble calls BackgroundError with the error
// of a failed flush or compaction, after FlushEnd or CompactionEnd. All other errors are of table statistics, and
// Pebble does not hold DB.mu during these calls. The error of a flush counts only if BackgroundError
// gets it as well: a flush that had nothing to write ends with an error, too.
func (f *FS) eventListener(logger pebble.Logger) *pebble.EventListener {
	var flush, compaction lastError
	statistics := statisticsRetry{pause: firstPause}
	return &pebble.EventListener{
		FlushEnd: func(info pebble.FlushInfo) {
			flush.set(info.Err)
			f.moments.Add(1)
			if info.Err == nil {
				f.retry.succeeded()
			}
		},
		BackgroundError: func(err error) {
			switch {
			case flush.is(err):
				logger.Errorf("flush failed: %v", err)
				f.backgroundFailed(err, true)
			case compaction.is(err):
				logger.Errorf("compaction failed: %v", err)
			default:
				statistics.failed(err, logger, f.ending)
			}
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			f.moments.Add(1)
			switch {
			case info.Err == nil:
				f.retry.succeeded()
			case !errors.Is(info.Err, pebble.ErrCancelledCompaction):
				compaction.set(info.Err)
				f.backgroundFailed(info.Err, f.stalls.begun.Load() != 0)
			}
		},
		DataCorruption:  CorruptionIsReturned,
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { f.stalls.begin(time.Now()) },
		WriteStallEnd:   func() { f.stalls.end(time.Now()) },
	}
}

// lastError is the last error of one kind of background work. It is safe for concurrent use.
type lastError struct{ atomic.Pointer[error] }

func (l *lastError) set(err error) { l.Store(&err) }

func (l *lastError) is(err error) bool {
	last := l.Load()
	return last != nil && *last != nil && errors.Is(err, *last)
}

// stalls counts the times that Pebble let writes wait for its work in the background.
type stalls struct {
	count atomic.Uint64
	begun atomic.Int64 // in Unix nanoseconds; 0: no write waits
	took  atomic.Int64 // those that have ended
}

func (s *stalls) begin(now time.Time) {
	s.count.Add(1)
	s.begun.Store(now.UnixNano())
}

func (s *stalls) end(now time.Time) {
	if begun := s.begun.Swap(0); begun != 0 {
		s.took.Add(now.UnixNano() - begun)
	}
}

// Stalls returns how often writes waited for Pebble's work in the background since Open, and how long in all.
func (f *FS) Stalls() (count uint64, took time.Duration) {
	count, took = f.stalls.count.Load(), time.Duration(f.stalls.took.Load())
	if begun := f.stalls.begun.Load(); begun != 0 {
		took += time.Since(time.Unix(0, begun))
	}
	return count, max(took, 0)
}

// Work in the background that fails waits longer and longer before it is tried again. Where others wait for
// it, the database stops after some failures.
const (
	maxFailures = 8
	firstPause  = 5 * time.Millisecond
)

type retry struct {
	failures  atomic.Int64 // one after the other
	notBefore atomic.Int64 // when it may be tried again, in Unix nanoseconds
}

func (f *FS) backgroundFailed(err error, awaited bool) {
	n := f.retry.failures.Add(1)
	if awaited && (n >= maxFailures || f.opening.Load()) {
		f.Stop(err)
	}
	f.retry.notBefore.Store(time.Now().Add(firstPause << (min(n, maxFailures) - 1)).UnixNano())
}

func (r *retry) succeeded() {
	r.failures.Store(0)
	r.notBefore.Store(0)
}

// tooEarly reports whether the work must not be tried again yet.
func (r *retry) tooEarly() bool {
	until := r.notBefore.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// wait waits until the work may be tried again.
func (r *retry) wait(stopped <-chan struct{}) {
	if until := r.notBefore.Load(); until != 0 {
		select {
		case <-time.After(time.Until(time.Unix(0, until))):
		case <-stopped:
		}
	}
}

// maxStatisticsPause is the longest pause between two attempts at them.
const maxStatisticsPause = time.Second

// statisticsRetry slows down Pebble's attempts to read the statistics of a table that it cannot read. Pebble repeats
// such an attempt at once, without end, which would keep a processor busy and write thousands of lines per
// second to the log. The call that reports the error is the only place to wait: it is without DB.mu, and there is one at a
// time.
type statisticsRetry struct {
	pause time.Duration
	last  string // what was logged
}

// failed logs an error, unless it is the last one again, and waits.
func (r *statisticsRetry) failed(err error, logger pebble.Logger, ending <-chan struct{}) {
	if what := err.Error(); what != r.last {
		logger.Errorf("the statistics of a table, in the background: %v", err)
		r.last = what
	}
	select {
	case <-time.After(r.pause):
	case <-ending: // Pebble's Close waits for this, and is perhaps not there yet
		time.Sleep(firstPause)
	}
	r.pause = min(2*r.pause, maxStatisticsPause)
}

// lateScheduler lets no compaction of Pebble's begin before the database is open. Open
// would wait for its end: after a crash, when the log leaves many small files, that
// takes a second or more. From then on as many go on at once as Pebble allows.
type lateScheduler struct {
	f       *FS
	db      pebble.DBForCompaction
	running atomic.Int64
	poke    chan struct{} // look for what waits
	stopped chan struct{}
}

// pokeEvery is for what came to wait just as the last one ended.
const pokeEvery = 100 * time.Millisecond

func newLateScheduler(f *FS) *lateScheduler {
	return &lateScheduler{f: f, poke: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// Register and the methods up to Done are what Pebble calls.
func (s *lateScheduler) Register(_ int, db pebble.DBForCompaction) {
	s.db = db
	go s.run()
}

// Unregister waits until no call of the database is under way.
func (s *lateScheduler) Unregister() {
	s.f.end()
	<-s.stopped
}

// TrySchedule grants a compaction if one may begin.
func (s *lateScheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	return s.start(), s
}

// UpdateGetAllowedWithoutPermission is called when more may be allowed than before.
func (s *lateScheduler) UpdateGetAllowedWithoutPermission() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// Done ends a compaction that was granted.
func (s *lateScheduler) Done() {
	s.running.Add(-1)
	s.UpdateGetAllowedWithoutPermission()
}

func (s *lateScheduler) Started()                                          {}
func (s *lateScheduler) MeasureCPU(pebble.CompactionGoroutineKind)         {}
func (s *lateScheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// start counts one more as running, if it may.
func (s *lateScheduler) start() bool {
	for !s.f.opening.Load() && !s.f.hasStopped() && !s.f.retry.tooEarly() {
		n := s.running.Load()
		if n >= int64(s.db.GetAllowedWithoutPermission()) {
			return false
		}
		if s.running.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (s *lateScheduler) run() {
	defer close(s.stopped)
	ticker := time.NewTicker(pokeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.poke:
		case <-ticker.C:
		case <-s.f.ending:
			return
		}
		for s.grant() {
		}
	}
}

// grant lets one begin that waits, if there is one and it may.
func (s *lateScheduler) grant() bool {
	if s.f.opening.Load() {
		return false
	}
	if waiting, _ := s.db.GetWaitingCompaction(); !waiting || !s.start() {
		return false
	}
	if !s.db.Schedule(s) {
		s.running.Add(-1)
		return false
	}
	return true
}
