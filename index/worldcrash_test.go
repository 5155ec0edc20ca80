package index_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/indextest"
)

// crashes simulates crashes during concurrent calls, and keeps the remaining files.
type crashes struct {
	w    *world
	disk *crashfs.FS
	fs   vfs.FS // disk with slow syncs

	mu      sync.Mutex
	rng     *rand.Rand
	running bool
	taken   []*moment
}

// moment is a crash at a time of the clock of a world.
type moment struct {
	before, after int64 // the crash was after the time before, and before the time after
	percent       int   // percentage of the unsynced data that survives
	left          *crashfs.FS
}

// mostMoments bounds the number of crashes of a round, since all their files are in memory.
const mostMoments = 16

func newCrashes(w *world) *crashes {
	c := &crashes{w: w, disk: crashfs.New(), rng: rand.New(rand.NewPCG(w.rng.Uint64(), 0))}
	c.fs = index.Injecting(c.disk, c.before)
	return c
}

// before delays syncs, so that other goroutines run during a sync. It also simulates a crash
// before some writes and syncs.
func (c *crashes) before(op errorfs.Op) error {
	c.mu.Lock()
	running, pause := c.running, time.Duration(c.rng.IntN(1500))*time.Microsecond
	stops := op.Kind.ReadOrWrite() == errorfs.OpIsWrite && c.rng.IntN(40) == 0 ||
		isSync(op) && c.rng.IntN(3) == 0
	c.mu.Unlock()
	if running && isSync(op) {
		time.Sleep(pause)
	}
	if stops {
		c.take()
	}
	return nil
}

func isSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData ||
		op.Kind == errorfs.OpFileSyncTo
}

// take simulates a crash now, unless the round has enough crashes.
func (c *crashes) take() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running || len(c.taken) >= mostMoments {
		return
	}
	m := &moment{percent: []int{0, 0, 0, 100, 1 + c.rng.IntN(99)}[c.rng.IntN(5)]}
	m.before = c.w.clock.Load()
	m.left = c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.percent, RNG: c.rng})
	m.after = c.w.clock.Add(1)
	if m.percent == 0 || m.left.Orderly(c.w.dir) {
		c.taken = append(c.taken, m)
	}
}

// run starts or stops the crashes of before. It also simulates a crash itself.
func (c *crashes) run(running bool) {
	c.take()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = running
}

// check checks the index that each crash left.
func (c *crashes) check() error {
	for _, m := range c.taken {
		if err := c.w.afterCrash(m); err != nil {
			return fmt.Errorf("after a crash at %d to %d, with %d %% of the unsynced data: %w",
				m.before, m.after, m.percent, err)
		}
		c.w.done++
	}
	c.taken = nil
	runtime.GC() // the clones take most of the memory
	return nil
}

// afterCrash compares the index that a crash left with the acknowledged calls.
func (w *world) afterCrash(m *moment) error {
	o := w.options
	o.FS, o.MustExist = m.left, true
	x, err := index.Open(w.dir, &o)
	if err != nil {
		return err
	}
	l := w.split(m, x.Stats().NextID)
	left, err := w.look(x)
	if err := errors.Join(err, x.Close()); err != nil {
		return err
	}
	for n, s := range w.sites {
		var calls []*call
		for _, c := range s.calls {
			if calls, err = l.take(calls, c); err != nil {
				return err
			}
		}
		calls = append(calls, found(n, m.after+1, afterAll, left[n]))
		if err := explain(s.docs, calls); err != nil {
			return fmt.Errorf("next ID %d: %w", l.next, err)
		}
	}
	for _, c := range w.copies {
		if c.end > m.before {
			continue
		}
		holds, err := w.lookAt(m.left, c.dir)
		if err != nil || !slices.EqualFunc(holds, c.holds, slices.Equal[indextest.Documents]) {
			return fmt.Errorf("an earlier checkpoint has %v, not %v: %w", holds, c.holds, err)
		}
	}
	return nil
}

// loss describes the changes that a crash lost. The newest changes are lost first.
type loss struct {
	*moment
	durable int64 // calls that ended before this time are durable
	// next ID after the crash; documents with smaller IDs survived
	next uint64
	kept int64 // calls that ended before this time precede a surviving change
	lost int64 // calls that began after this time follow a lost change
}

// split determines from the next ID which changes survived.
func (w *world) split(m *moment, next uint64) *loss {
	l := &loss{moment: m, durable: m.before, next: next, lost: never}
	if w.options.Durability == index.NoSync {
		l.durable = 0
		for _, s := range w.syncs {
			if s.end <= m.before {
				l.durable = max(l.durable, s.start)
			}
		}
	}
	for _, s := range w.sites {
		for _, c := range s.calls {
			for _, id := range c.gave {
				if id < next {
					l.kept = max(l.kept, c.start)
				} else {
					l.lost = min(l.lost, c.end)
				}
			}
		}
	}
	return l
}

// take adds a call to the calls that must, or may, have happened before the crash.
func (l *loss) take(calls []*call, c *call) ([]*call, error) {
	if c.start >= l.after || c.reads {
		return calls, nil
	}
	must := c.end <= max(l.durable, l.kept)
	survives := must
	if len(c.gave) > 0 {
		survives = slices.Max(c.gave) < l.next
		if must && !survives || slices.Min(c.gave) < l.next && !survives {
			return nil, fmt.Errorf("the next ID is %d, but this call is lost: %+v", l.next, c.said)
		}
	}
	cut := *c
	switch {
	case survives:
		cut.end = min(c.end, l.after)
	case len(c.gave) > 0 || c.start >= l.lost:
		return calls, nil
	default:
		cut.end = never
	}
	return append(calls, &cut), nil
}
