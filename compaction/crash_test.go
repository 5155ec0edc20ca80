package compaction_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// task is the last step of a history, and the state that precedes it.
type task struct {
	name string
	step
	before, opening []step // opening is run on the file system of the last step
	reads           bool   // only reads fail
	seed            uint64
	disk            *crashfs.FS
	history
}

// make takes the steps before the last one.
func (k *task) make(t *testing.T) {
	t.Helper()
	k.disk = crashfs.New()
	k.history = *newHistory(k.disk)
	k.must(t, k.before...)
	if strings.HasSuffix(k.name, "after a kill") {
		k.kill(t, newDrawer(k.seed, 3))
	}
}

// on returns a copy of the history, in the same state, on another file system.
func (k *task) on(fsys vfs.FS) *history {
	h := k.history
	h.fs, h.states = fsys, slices.Clone(k.states)
	h.newest().plan = "" // set when the index is read
	return &h
}

// tasks returns every operation of this package on an index. The caller calls make for each.
func tasks(t *testing.T, seed uint64) (tasks []*task) {
	t.Helper()
	d := newDrawer(seed, 1)
	task := func(name string, last step, steps ...step) *task {
		k := &task{name: name, step: last, before: steps, seed: seed}
		tasks = append(tasks, k)
		return k
	}
	compact, load := step{what: "compact"}, step{what: "load", docs: d.documents(200)}
	another := namedPlan(t, "3", 5)
	task("compact", compact, d.used()...)
	task("compact under another plan", step{what: "compact",
		work: compaction.Options{Plan: another}}, d.used()...)
	open, packed := step{what: "open"}, step{what: "compact open"}
	task("compact while open", packed, d.used()...).opening = []step{open}
	task("compact while open what was frozen", packed, d.used()...).opening =
		[]step{open, {what: "freeze"}, {what: "add", docs: d.documents(60)},
			{what: "delete", keys: d.someKeys(20)}}
	meanwhile := []step{{what: "add", docs: d.documents(60)},
		{what: "delete", keys: d.someKeys(20)}, {what: "check", docs: d.documents(30)}}
	task("compact while open and written to", step{what: "compact open", meanwhile: meanwhile,
		at: 1}, d.used()...).opening = []step{open}
	frozen := []step{open, {what: "freeze"}, {what: "add", docs: d.documents(60)},
		{what: "delete", keys: d.someKeys(20)}, {what: "close"}}
	task("compact frozen entries", compact, append(d.used(), frozen...)...)
	task("load into frozen entries", load, append(d.used(), frozen...)...)
	task("compact after a kill", compact, d.used()...)
	task("load after a kill", load, d.used()...)
	task("load", load, append(d.used(), compact)...)
	task("load into a new index", load)
	return tasks
}

// kill continues the history in a process that is killed before its last writes are synced. It
// adds the states that a crash may leave.
func (k *task) kill(t *testing.T, d *drawer) {
	t.Helper()
	states := k.states[len(k.states)-1:]
	k.must(t, step{what: "open", open: index.Options{Durability: index.NoSync}})
	for i := range 8 {
		docs := d.documents(10)
		for j := range 6 { // Pebble writes its log in blocks of 32 KiB
			docs = append(docs, index.Document{Key: fmt.Sprintf("%d/%d%02000d", i, j, 0),
				Fingerprint: docs[j].Fingerprint})
		}
		k.must(t, step{what: "add", docs: docs})
		k.newest().name = fmt.Sprintf("commit %d", i)
		states = append(states, *k.newest())
	}
	var synced, written *state
	for deadline := time.Now().Add(patience); synced == nil ||
		synced.name == written.name; time.Sleep(time.Millisecond) {
		k.disk = kill(t, k.fs.(*crashfs.FS))
		var err error
		if synced, err = which(k.disk.CrashClone(vfs.CrashCloneCfg{}), states, k.r, index.Options{},
			true); err != nil {
			t.Fatal(err)
		}
		if written, err = which(copyOf(k.disk, k.r), states, k.r, index.Options{},
			true); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("no unsynced data")
		}
	}
	must(t, k.x.Close())
	for states[len(states)-1].NextID > written.NextID {
		states = states[:len(states)-1]
	}
	k.x, k.fs, k.states = nil, k.disk, states
}

// crashing is a history in which the machine stops repeatedly.
type crashing struct {
	*history
	*crashes
	t        *testing.T
	moments  int64
	again    int              // crashes that left the same files as an earlier one
	found    map[uint64]state // by the hash of the files
	copy     string           // the checkpoint under way
	going    int              // continue from one crash in this many
	deeply   int              // check the tables after one crash in this many
	readOnly int              // open read-only after one crash in this many
	flushed  int              // flushed tables that may exist in addition to the packed ones
}

func newCrashing(t *testing.T, h *history, disk *crashfs.FS, r *rand.Rand, every int) *crashing {
	c := &crashing{t: t, history: h, found: make(map[uint64]state),
		crashes: &crashes{disk: disk, r: r, every: every}, going: 40, deeply: 4,
		readOnly: 8, flushed: 3}
	h.fs = errorfs.Wrap(disk, c.crashes)
	return c
}

// take runs a step and checks the files that crashes leave during and after it.
func (c *crashing) take(s step) {
	c.t.Helper()
	var err error
	meanwhile, after := c.during(func() {
		var through []state
		through, err = c.do(&s)
		c.states = append(c.states, through...)
	})
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
	if c.x == nil || c.opts.Durability == index.Sync || s.what == "sync" || s.what == "checkpoint" {
		c.states = c.states[len(c.states)-1:]
	}
	for _, l := range after {
		c.look(&l, c.states)
	}
}

// look opens the index that a crash left, unless an earlier crash left identical files.
func (c *crashing) look(l *left, states []state) *state {
	c.t.Helper()
	c.moments++
	content := contentOf(c.t, l.fsys)
	if known, is := c.found[content]; is && c.copy == "" {
		if i := slices.IndexFunc(states, func(s state) bool {
			return s.none == known.none && s.differs(&known) == ""
		}); i >= 0 {
			c.again++
			return &states[i]
		}
	}
	opts := index.Options{CacheBytes: 1 << 18, FilterBytes: pick[int64](c.history.r, -1, 1<<10),
		ReadOnly: c.history.r.IntN(c.readOnly) == 0}
	goesOn := c.history.r.IntN(c.going) == 0
	found, err := which(l.fsys, states, c.history.r, opts, goesOn ||
		c.history.r.IntN(c.deeply) == 0)
	if err == nil && c.copy != "" {
		err = c.lookAtCopy(l.fsys)
	}
	if err == nil && goesOn {
		err = c.goOn(l.fsys, *found)
	}
	if err != nil {
		c.t.Fatalf("moment %d, at %s: %v", c.moments, l.before, err)
	}
	c.found[content] = found.clone()
	return found
}

// contentOf hashes all files of an index.
func contentOf(t *testing.T, fsys vfs.FS) uint64 {
	hash := xxhash.New()
	for _, dir := range []string{"ix", "ix/incoming"} {
		if _, err := fsys.Stat(dir); err != nil {
			continue
		}
		files := filesOf(t, fsys, dir)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			fmt.Fprintf(hash, "%s/%s %d ", dir, name, len(files[name]))
			hash.Write(files[name])
		}
	}
	return hash.Sum64()
}

// lookAtCopy opens the checkpoint that a crash left, which may be incomplete.
func (c *crashing) lookAtCopy(fsys vfs.FS) error {
	x, err := index.Open(c.copy, &index.Options{FS: fsys, MustExist: true, CacheBytes: 1 << 18,
		FilterBytes: -1})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, index.ErrNotIndex) {
		return nil
	}
	if err == nil {
		_, err = whichOf(x, c.states[len(c.states)-1:], c.history.r)
		err = errors.Join(err, x.Close())
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// goOn compacts the index that a crash left, or loads documents if there is none. A second crash
// interrupts that, and goOn keeps a copy of its files.
func (c *crashing) goOn(fsys *crashfs.FS, found state) error {
	s := step{what: "compact"}
	if found.none || found.NextID == 1 {
		s = step{what: "load", docs: newDrawer(1, 1).documents(20)}
	}
	h := newHistory(nil)
	h.states, h.now = []state{found}, c.now
	at, operations := c.history.r.IntN(100), 0
	var copied *crashfs.FS
	var mu sync.Mutex
	h.fs = errorfs.Wrap(fsys, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			if operations++; operations == at {
				copied = fsys.CrashClone(vfs.CrashCloneCfg{})
			}
		}
		return nil
	}))
	through, err := h.do(&s)
	if err != nil {
		return fmt.Errorf("going on: %w", err)
	}
	if copied != nil {
		states := append([]state{found}, through...)
		if found.none {
			empty := state{Model: found.Model, name: "an empty index"}
			states = append(states, empty)
		}
		if _, err := which(copied, states, h.r, index.Options{}, true); err != nil {
			return fmt.Errorf("after a second crash: %w", err)
		}
	}
	done, err := which(fsys, through, h.r, index.Options{}, true)
	if err != nil {
		return fmt.Errorf("gone on: %w", err)
	}
	return checkNothingLeft(fsys, done, c.flushed)
}

// checkNothingLeft compares the number of Pebble's tables with the maximum for a packed index.
// There are two per table of the plan, one for the filters, six for other keyspaces, and in a
// history some flushed ones.
func checkNothingLeft(fsys vfs.FS, s *state, flushed int) error {
	p, err := plan.Parse(s.plan)
	if err != nil {
		return err
	}
	names, err := fsys.List("ix")
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, ".sst")
	})
	if most := 2*len(p.Tables) + 7 + flushed; len(names) > most {
		return fmt.Errorf("%d sorted tables are left, want at most %d: %v", len(names), most, names)
	}
	return nil
}

// TestCrash stops the machine before each operation on the file system, by default before one in
// four. The index must have the state before or after the step, and later steps must work.
func TestCrash(t *testing.T) {
	seed, every := testenv.Seed(t), testenv.Number(4, 4, 1, 1)
	if testenv.Race { // one goroutine does most of the work, so the race detector finds little
		every = 64
	}
	for round := range uint64(testenv.Number(1, 1, 1, 4)) {
		for _, k := range tasks(t, seed+round) {
			if testenv.Race && len(k.meanwhile) == 0 {
				continue // TestFaults runs the goroutines of these tasks
			}
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				k.make(t)
				c := newCrashing(t, k.on(nil), k.disk, rand.New(rand.NewPCG(seed, 2)), every)
				c.going, c.deeply, c.readOnly, c.flushed = testenv.Number(8, 8, 8, 1), 1, 4, 0
				if c.newest().none { // Load creates an index first
					c.states = append(c.states, state{Model: noIndex.Clone(),
						name: "an empty index"})
				}
				if len(k.opening) > 0 { // concurrent writes are flushed
					c.flushed = 3
					c.must(t, k.opening...)
				}
				c.take(k.step)
				if c.x != nil {
					c.take(step{what: "close"})
				}
				t.Logf("%d crashes, %d of them with the same files as an earlier one",
					c.moments, c.again)
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
	seed, want := testenv.Seed(t), int64(testenv.Asked(t, "NEARDUP_CRASH_POINTS", points))
	const side = 2
	var moments, histories atomic.Int64
	plans := slices.Concat(quickPlans(t, 2), quickPlans(t, 3))
	t.Run("side by side", func(t *testing.T) {
		for worker := range uint64(side) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for n := worker; moments.Load() < want; n += side {
					disk := crashfs.New()
					c := newCrashing(t, newHistory(nil), disk, rand.New(rand.NewPCG(seed, ^n)), 3)
					d := newDrawer(seed, n)
					d.plans = plans
					c.run(d, want-moments.Load())
					moments.Add(c.moments)
					histories.Add(1)
				}
			})
		}
	})
	t.Logf("NEARDUP_SEED=%d: %d crash points in %d histories", seed, moments.Load(),
		histories.Load())
	if moments.Load() < want && !t.Failed() {
		t.Errorf("%d crash points, not %d", moments.Load(), want)
	}
}

// run runs one history that begins without an index.
func (c *crashing) run(d *drawer, most int64) {
	d.keys, d.most = 20, 6
	c.take(d.open())
	c.take(step{what: "close"})
	for range 1 + d.IntN(8) {
		if c.moments >= most {
			return
		}
		d.rule.KeepDuplicates = d.IntN(4) == 0
		c.take(d.open())
		for range 1 + d.IntN(12) {
			switch d.IntN(16) {
			case 0, 1:
				c.checkpoint()
			default:
				c.take(d.write())
			}
		}
		if d.IntN(5) == 0 { // the machine stops, and the history continues from its files
			c.crash()
			continue
		}
		c.take(step{what: "close"})
		c.take(d.between())
	}
}

// checkpoint makes a checkpoint. After a crash it is either complete or not an index.
func (c *crashing) checkpoint() {
	c.copy = fmt.Sprint("copy", c.moments) // a new name, since a crash may restore a removed copy
	c.take(step{what: "checkpoint", dir: c.copy})
	x, err := index.Open(c.copy, &index.Options{FS: c.disk.CrashClone(vfs.CrashCloneCfg{}),
		MustExist: true})
	if err == nil {
		err = errors.Join(x.Close(), c.disk.RemoveAll(c.copy))
	}
	if err != nil {
		c.t.Fatalf("checkpoint: %v", err)
	}
	c.copy = ""
}

// crash continues the history with the files that a crash leaves.
func (c *crashing) crash() {
	left := c.disk.CrashClone(vfs.CrashCloneCfg{})
	found, err := which(left.CrashClone(vfs.CrashCloneCfg{}), c.states, c.history.r,
		index.Options{}, true)
	if err == nil {
		_, err = c.do(&step{what: "close"})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.states = []state{*found}
	c.disk, c.fs = left, errorfs.Wrap(left, c.crashes)
}

// loadBeyondMemory returns a load that sorts on disk.
func loadBeyondMemory(seed uint64) *task {
	r := rand.New(rand.NewPCG(seed, 1))
	k := &task{name: "load beyond memory", before: newDrawer(seed, 1).used(), seed: seed}
	k.step = step{what: "load", docs: make([]index.Document, 100_000),
		work: compaction.Options{MemoryBytes: 1}}
	for i := range k.docs {
		k.docs[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
		if i%4 == 0 {
			k.docs[i].Key = fmt.Sprint(i)
		}
	}
	return k
}

// crashes is an injector that simulates crashes before operations that change the file system.
// While it is on, it keeps a copy of the files that each crash would leave.
type crashes struct {
	mu    sync.Mutex
	disk  *crashfs.FS
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

func (c *crashes) String() string { return "crashes" }

func (c *crashes) MaybeError(op errorfs.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && c.r.IntN(c.every) == 0 {
		c.note(fmt.Sprintf("operation of kind %d on %s", op.Kind, op.Path))
	}
	return nil
}

// note keeps the files that a crash leaves now: the synced data, alone or with some of the
// unsynced data. If crashes stop the machine before every operation, it keeps both.
func (c *crashes) note(before string) {
	percents := []int{0, 1 + c.r.IntN(100)}
	if c.every > 1 {
		percents = []int{pick(c.r, 0, 100, 1+c.r.IntN(99), 1+c.r.IntN(99))}
	}
	for _, percent := range percents {
		fsys := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.r})
		for percent > 0 && !fsys.Orderly("ix") {
			fsys = c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.r})
		}
		c.left = append(c.left,
			left{fmt.Sprintf("%s, with %d %% of the unsynced data", before, percent),
				percent == 0, fsys})
	}
}

// during calls do. It returns the results of crashes during the call and of one after it.
func (c *crashes) during(do func()) (meanwhile, after []left) {
	c.mu.Lock()
	c.on, c.left = true, nil
	c.mu.Unlock()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	meanwhile = c.left
	c.on, c.left = false, nil
	c.note("the end")
	return meanwhile, c.left
}

// kill returns the files of a process that ends now. They hold everything it wrote, but the
// machine may still lose unsynced data.
func kill(t *testing.T, fsys *crashfs.FS) *crashfs.FS {
	t.Helper()
	left := crashfs.New()
	write := func(name string, data []byte) vfs.File {
		f, err := left.OpenReadWrite("ix/"+name, vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = f.WriteAt(data, 0)
		must(t, err)
		return f
	}
	must(t, left.MkdirAll("ix", 0o755))
	synced := filesOf(t, fsys.CrashClone(vfs.CrashCloneCfg{}), "ix")
	for name, data := range synced {
		f := write(name, data)
		must(t, f.Sync(), f.Close())
	}
	for _, name := range []string{"ix", "."} {
		dir, err := left.OpenDir(name)
		must(t, err)
		must(t, dir.Sync(), dir.Close())
	}
	written := filesOf(t, copyOf(fsys, rand.New(rand.NewPCG(0, 0))), "ix")
	for name, data := range written {
		must(t, write(name, data).Close())
	}
	for name := range synced {
		if _, there := written[name]; !there {
			must(t, left.Remove("ix/"+name))
		}
	}
	return left
}

func copyOf(fsys *crashfs.FS, r *rand.Rand) *crashfs.FS {
	return fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r})
}
