package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// lateScheduler lets no compaction of Pebble's begin before the database is open. Open
// would wait for its end: after a crash, when the log leaves many small files, that
// takes a second or more. From then on as many go on at once as Pebble allows.
type lateScheduler struct {
	db      pebble.DBForCompaction
	opened  atomic.Bool
	running atomic.Int64
	paused  func() bool   // nothing may begin now; nil: never so
	ending  chan struct{} // closed when nothing will begin any more; nil: never so
	poke    chan struct{} // look for what waits
	stop    chan struct{}
	once    sync.Once
	stopped chan struct{}
}

// pokeEvery is for what came to wait just as the last one ended.
const pokeEvery = 100 * time.Millisecond

func newLateScheduler() *lateScheduler {
	return &lateScheduler{poke: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
}

// begin grants what was refused, and everything from now on.
func (s *lateScheduler) begin() {
	s.opened.Store(true)
	s.UpdateGetAllowedWithoutPermission()
}

// Register and the methods up to UpdateGetAllowedWithoutPermission are what Pebble calls.
func (s *lateScheduler) Register(_ int, db pebble.DBForCompaction) {
	s.db = db
	go s.run()
}

// Unregister waits until no call of the database is under way.
func (s *lateScheduler) Unregister() {
	s.end()
	<-s.stopped
}

// end lets nothing begin any more. Where its Open fails, Pebble registers and does not unregister.
func (s *lateScheduler) end() { s.once.Do(func() { close(s.stop) }) }

// TrySchedule grants a compaction if one may begin.
func (s *lateScheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	return s.take(), s
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

// take counts one more as running, if it may.
func (s *lateScheduler) take() bool {
	for s.opened.Load() && (s.paused == nil || !s.paused()) {
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
		case <-s.stop:
			return
		case <-s.ending:
			return
		}
		for s.grant() {
		}
	}
}

// grant lets one begin that waits, if there is one and it may.
func (s *lateScheduler) grant() bool {
	if !s.opened.Load() {
		return false
	}
	if waiting, _ := s.db.GetWaitingCompaction(); !waiting || !s.take() {
		return false
	}
	if !s.db.Schedule(s) {
		s.running.Add(-1)
		return false
	}
	return true
}
