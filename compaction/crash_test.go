package compaction_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// task is a history whose last steps run on a file system that fails or stops.
type task struct {
	name    string
	before  []step // run once
	killed  bool   // the process is killed after the steps in before
	opening []step // run on each copy of the file system, before it fails
	steps   []step // the last steps
	reads   bool   // only reads fail

	disk *crashfs.FS
	history
}

// make runs the steps in before.
func (k *task) make(t *testing.T) {
	t.Helper()
	k.disk = crashfs.New()
	k.history = *newHistory(k.disk)
	k.must(t, k.before...)
	if k.killed {
		k.kill(t)
	}
}

// on returns a copy of the history, in the same state, on another file system.
func (k *task) on(fsys vfs.FS) *history {
	h := k.history
	h.fs, h.states = fsys, slices.Clone(k.states)
	h.newest().plan = "" // set when the index is read
	if h.newest().none { // Load creates an index first
		h.states = append(h.states, emptyIndex)
	}
	return &h
}

// tasks returns a task for each operation of this package on an index. The caller calls make.
func tasks(t *testing.T, seed uint64) []*task {
	t.Helper()
	d := newDrawer(seed, 1)
	one := func(s step) []step { return []step{s} }
	compact, open := one(step{what: "compact"}), one(step{what: "open"})
	load := one(step{what: "load", docs: d.documents(200)})
	replan := one(step{what: "compact",
		work: compaction.Options{Plan: namedPlan(t, "3", 5)}})
	add := step{what: "add", docs: d.documents(60)}
	remove := step{what: "delete", keys: d.someKeys(20)}
	freeze := []step{open[0], {what: "freeze"}, add, remove}
	frozen := slices.Concat(d.used(), freeze, one(step{what: "close"}))
	packOpen := one(step{what: "compact open"})
	meanwhile := one(step{what: "compact open",
		meanwhile: []step{add, remove, {what: "check", docs: d.documents(30)}}})
	return []*task{
		{name: "compact", before: d.used(), steps: compact},
		{name: "compact under another plan", before: d.used(), steps: replan},
		{name: "compact while open", before: d.used(), opening: open, steps: packOpen},
		{name: "compact a frozen epoch while open", before: d.used(), opening: freeze,
			steps: packOpen},
		{name: "compact while open and written to", before: d.used(), opening: open,
			steps: meanwhile},
		{name: "compact frozen entries", before: frozen, steps: compact},
		{name: "load into frozen entries", before: frozen, steps: load},
		{name: "compact after a kill", before: d.used(), killed: true, steps: compact},
		{name: "load after a kill", before: d.used(), killed: true, steps: load},
		{name: "load", before: append(d.used(), compact...), steps: load},
		{name: "load into a new index", steps: load},
	}
}

// kill continues the history in a process that is killed before its last writes are synced. It sets
// states to the states that a crash may leave.
func (k *task) kill(t *testing.T) {
	t.Helper()
	var killed atomic.Bool
	k.fs = errorfs.Wrap(k.disk, writes(func(errorfs.Op) error {
		if killed.Load() {
			return syscall.EIO
		}
		return nil
	}))
	d, states := newDrawer(1, 3), k.states[len(k.states)-1:]
	k.must(t, step{what: "open", open: index.Options{Durability: index.NoSync}})
	for i := range 8 { // Pebble writes its log in blocks of 32 KiB
		large := index.Document{Key: fmt.Sprintf("%d%012000d", i, 0)}
		k.must(t, step{what: "add", docs: append(d.documents(10), large)})
		k.newest().name = fmt.Sprintf("commit %d", i)
		states = append(states, *k.newest())
	}
	after := func(unsynced int) *state {
		fsys := k.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: k.r})
		s, err := which(fsys, states, k.r)
		must(t, err)
		return s
	}
	eventually(t, func() bool { return after(0).name != after(100).name },
		func() any { return "no unsynced data" })
	killed.Store(true)
	if err := k.x.Close(); err == nil {
		t.Error("a killed process has written")
	}
	written := after(100)
	for states[len(states)-1].NextID > written.NextID {
		states = states[:len(states)-1]
	}
	k.x, k.fs, k.states = nil, k.disk, states
}

// writes returns an injector that calls do for each operation that changes the file system.
func writes(do func(errorfs.Op) error) errorfs.Injector {
	return errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		return do(op)
	})
}

// crashing is a history in which the machine stops repeatedly. During a step, it keeps a copy of
// the files that each crash would leave.
type crashing struct {
	*history
	t       failer
	disk    *crashfs.FS
	moments int64
	going   int // goOn continues after one crash in this many; 0: after none

	mu    sync.Mutex
	r     *rand.Rand // Pebble's goroutines use it too
	every int        // one crash per this many operations
	on    bool
	left  []left
}

// left is the result of a crash.
type left struct {
	before string // the operation
	synced bool   // only synced data survived
	fsys   *crashfs.FS
}

func newCrashing(t failer, h *history, disk *crashfs.FS, r *rand.Rand, every int) *crashing {
	c := &crashing{t: t, history: h, r: r, every: every}
	c.use(disk)
	return c
}

func (c *crashing) use(disk *crashfs.FS) {
	c.disk, c.files = disk, disk
	c.fs = errorfs.Wrap(disk, writes(func(op errorfs.Op) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.on && c.r.IntN(c.every) == 0 {
			c.note(fmt.Sprintf("operation of kind %d on %s", op.Kind, op.Path))
		}
		return nil
	}))
}

// note keeps the files that a crash would leave now: the synced data, alone or with some of the
// unsynced data.
func (c *crashing) note(before string) {
	percent := pick(c.r, 0, 100, 1+c.r.IntN(99), 1+c.r.IntN(99))
	what := fmt.Sprintf("%s, with %d %% of the unsynced data", before, percent)
	for {
		fsys := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.r})
		if percent == 0 || fsys.Orderly("ix") {
			c.left = append(c.left, left{what, percent == 0, fsys})
			return
		}
	}
}

// take runs a step and checks the files that crashes leave during and after it.
func (c *crashing) take(s step) {
	c.t.Helper()
	c.mu.Lock()
	c.on, c.left = true, nil
	c.mu.Unlock()
	through, err := c.do(&s)
	c.mu.Lock()
	c.on = false
	meanwhile := c.left
	c.left = nil
	c.note("the end")
	c.mu.Unlock()
	c.states = append(c.states, through...)
	if err == nil {
		err = c.compare()
	}
	if err != nil {
		c.t.Fatalf("%s: %v", s.what, err)
	}
	possible := c.states
	for _, l := range meanwhile {
		found := c.look(&l, possible)
		for l.synced && possible[0].name != found.name { // synced states are never lost
			possible = possible[1:]
		}
	}
	if c.x == nil || c.opts.Durability == index.Sync || s.what == "sync" {
		c.states = c.states[len(c.states)-1:]
	}
	c.look(&c.left[0], c.states)
}

// look opens the index that a crash left, and returns its state.
func (c *crashing) look(l *left, states []state) *state {
	c.t.Helper()
	c.moments++
	found, err := which(l.fsys, states, c.r)
	if err != nil {
		c.t.Fatalf("moment %d, at %s: %v", c.moments, l.before, err)
	}
	if c.going > 0 && c.r.IntN(c.going) == 0 {
		c.goOn(l.fsys, *found)
	}
	return found
}

// goOn compacts the index that a crash left, or loads documents if no index exists. Crashes may
// interrupt this step too.
func (c *crashing) goOn(fsys *crashfs.FS, found state) {
	c.t.Helper()
	s := step{what: "compact"}
	h := newHistory(nil)
	h.states, h.now = []state{found}, c.now
	if found.none {
		h.states = append(h.states, emptyIndex)
	}
	if found.none || found.NextID == 1 {
		s = step{what: "load", docs: newDrawer(1, 1).documents(20)}
	}
	newCrashing(c.t, h, fsys, c.r, 60).take(s)
}

// TestCrash stops the machine before each operation on the file system, by default before one in
// four. The index must have the state before or after the step, and later steps must work.
func TestCrash(t *testing.T) {
	seed, every := testenv.Seed(t), testenv.Number(4, 4, 1, 1)
	if testenv.Race { // one goroutine does most of the work, so the race detector finds little
		every = 64
	}
	for round := range uint64(testenv.Number(1, 1, 2, 4)) {
		for _, k := range tasks(t, seed+round) {
			if testenv.Race && len(k.steps[0].meanwhile) == 0 {
				continue // TestFaults runs the goroutines of these tasks
			}
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				k.make(t)
				c := newCrashing(t, k.on(nil), k.disk, rand.New(rand.NewPCG(seed, 2)), every)
				c.going = testenv.Number(8, 8, 8, 1)
				c.must(t, k.opening...)
				c.take(k.steps[0])
				if c.x != nil {
					c.take(step{what: "close"})
				}
				t.Logf("%d crashes", c.moments)
			})
		}
	}
}

// TestCrashHistories stops the machine at random moments of random histories, during steps and
// between them. None, some or all of the unsynced data survives. The index must have one of the
// states since the last durable one. It must have every acknowledged document and no partial
// write, and answer every query from that state.
func TestCrashHistories(t *testing.T) {
	points := testenv.Number(60, 400, 10_000, 100_000)
	if testenv.Race { // one goroutine does most of the work, so the race detector finds little
		points = 25
	}
	seed, want := testenv.Seed(t), int64(testenv.EnvInt(t, "NEARDUP_CRASH_POINTS", points))
	const workers = 2
	var moments atomic.Int64
	plans := quickPlans(t, 2, 3)
	for worker := range uint64(workers) {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			n := worker
			for ; moments.Load() < want; n += workers {
				r := rand.New(rand.NewPCG(seed, ^n))
				c := newCrashing(t, newHistory(nil), crashfs.New(), r, 3)
				d := newDrawer(seed, n)
				d.plans, d.keys, d.most, c.going = plans, 20, 6, 40
				c.run(d, want-moments.Load())
				moments.Add(c.moments)
			}
			t.Logf("%d crashes of all workers, %d histories of this one", moments.Load(), n/workers)
		})
	}
}

// run runs one history that begins without an index.
func (c *crashing) run(d *drawer, most int64) {
	c.take(d.open())
	c.take(step{what: "close"})
	for range 1 + d.IntN(8) {
		if c.moments >= most {
			return
		}
		d.rule.KeepDuplicates = d.IntN(4) == 0
		c.take(d.open())
		for range 1 + d.IntN(12) {
			c.take(d.write())
		}
		if d.IntN(5) == 0 {
			c.crash()
			continue
		}
		c.take(step{what: "close"})
		c.take(d.between())
	}
}

// crash stops the machine, and continues the history with the files that remain.
func (c *crashing) crash() {
	c.t.Helper()
	after := c.disk.CrashClone(vfs.CrashCloneCfg{})
	found, err := which(after.CrashClone(vfs.CrashCloneCfg{}), c.states, c.r)
	if err == nil {
		_, err = c.do(&step{what: "close"})
	}
	if err != nil {
		c.t.Fatalf("after a crash: %v", err)
	}
	c.states = []state{*found}
	c.use(after)
}
