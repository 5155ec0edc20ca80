package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/testseed"
)

// task is something that this package does to an index, and what must come of it.
type task struct {
	name   string
	before []state // the states that a crash may leave before the work is done
	after  state
	do     func(fsys vfs.FS) error
}

func run(opts compaction.Options) func(vfs.FS) error {
	return func(fsys vfs.FS) error {
		opts := opts
		opts.FS = fsys
		_, err := compaction.Run(context.Background(), "ix", opts)
		return err
	}
}

func loading(docs []index.Document, opts compaction.LoadOptions) func(vfs.FS) error {
	return func(fsys vfs.FS) error {
		opts := opts
		opts.Index.FS = fsys
		_, err := compaction.Load(context.Background(), "ix", yielding(docs), opts)
		return err
	}
}

func yielding(docs []index.Document) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// loaded is a state once documents are loaded into it.
func (s state) loaded(docs []index.Document) state {
	s = s.clone()
	ids := make(map[string]uint64)
	for id, d := range s.docs {
		ids[d.Key] = id
	}
	for _, d := range docs {
		if old, again := ids[d.Key]; again && d.Key != "" {
			delete(s.docs, old)
		}
		d.ID, ids[d.Key] = s.next, s.next
		s.docs[d.ID] = d
		s.next++
	}
	s.name, s.live = "after", false
	s.generation++
	return s
}

// tasks are all of them, each with the file system that it finds.
func tasks(t *testing.T, r *rand.Rand) map[*vfs.MemFS]task {
	t.Helper()
	all := make(map[*vfs.MemFS]task)
	fresh := func() (*vfs.MemFS, state) {
		fsys := vfs.NewCrashableMem()
		return fsys, makeUsed(t, fsys, r)
	}
	fsys, used := fresh()
	all[fsys] = task{"compact", []state{used}, used.packed("after"), run(compaction.Options{})}

	fsys, used = fresh()
	replanned := used.packed("after")
	design3, err := plan.Named("3", 5)
	if err != nil {
		t.Fatal(err)
	}
	replanned.plan = design3.String()
	all[fsys] = task{"compact under another plan", []state{used}, replanned, run(compaction.Options{Plan: design3})}

	fsys, used = fresh()
	killed, history := makeKilled(t, fsys, used, r)
	newest := history[len(history)-1]
	all[killed] = task{"compact after a kill", history, newest.packed("after"), run(compaction.Options{})}

	fsys, used = fresh()
	killed, history = makeKilled(t, fsys, used, r)
	docs := draw(r, 200)
	all[killed] = task{"load after a kill", history, history[len(history)-1].loaded(docs), loading(docs, compaction.LoadOptions{})}

	fsys, used = fresh()
	if err := run(compaction.Options{})(fsys); err != nil {
		t.Fatal(err)
	}
	used = used.packed("before")
	docs = draw(r, 200)
	all[fsys] = task{"load", []state{used}, used.loaded(docs), loading(docs, compaction.LoadOptions{})}

	none := state{name: "no index", none: true}
	empty := state{name: "an empty index", docs: make(map[uint64]index.Document), next: 1}
	after := empty.loaded(docs)
	chosen, err := plan.Choose(3, int64(len(docs)), plan.Limits{}, plan.Costs{})
	if err != nil {
		t.Fatal(err)
	}
	after.plan = chosen.Plan.String()
	all[vfs.NewCrashableMem()] = task{"load into a new index", []state{none, empty}, after, loading(docs, compaction.LoadOptions{})}
	return all
}

// makeKilled goes on with an index in a process that is killed: what it wrote last is
// not synced. It returns what is left and the states that it has gone through.
func makeKilled(t *testing.T, fsys *vfs.MemFS, s state, r *rand.Rand) (left *vfs.MemFS, history []state) {
	t.Helper()
	x, err := index.Open("ix", &index.Options{FS: fsys, Durability: index.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	history = append(history, s)
	for i := range 8 {
		docs := draw(r, 10)
		for j := range 6 { // Pebble hands on its log in pieces of 32 KiB
			docs = append(docs, index.Document{Key: fmt.Sprintf("%d/%d%02000d", i, j, 0), Fingerprint: docs[j].Fingerprint})
		}
		s = s.clone()
		addAll(t, x, &s, docs)
		got, err := read(x)
		if err != nil {
			t.Fatal(err)
		}
		if difference := s.differs(got); difference != "" {
			t.Fatal(difference)
		}
		s.docs, s.live, s.name = got.docs, true, fmt.Sprintf("commit %d", i)
		history = append(history, s)
	}
	var synced, written *state
	for deadline := time.Now().Add(5 * time.Minute); synced == written; time.Sleep(time.Millisecond) {
		left = kill(t, fsys)
		if synced, err = which(left.CrashClone(vfs.CrashCloneCfg{}), history, r); err != nil {
			t.Fatal(err)
		}
		if written, err = which(left.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r}), history, r); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("all that is written is synced: there is nothing to lose")
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	for history[len(history)-1].next > written.next {
		history = history[:len(history)-1]
	}
	return left, history
}

// kill returns the files as a process leaves them that ends now: all that it wrote is
// there, and what it did not sync can still be lost with the machine.
func kill(t *testing.T, fsys *vfs.MemFS) *vfs.MemFS {
	t.Helper()
	left := vfs.NewCrashableMem()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sync := func(dir string) {
		d, err := left.OpenDir(dir)
		check(err)
		check(errors.Join(d.Sync(), d.Close()))
	}
	files := func(from vfs.FS, do func(name string, data []byte)) (names []string) {
		names, err := from.List("ix")
		check(err)
		for _, name := range names {
			f, err := from.Open("ix/" + name)
			check(err)
			data, err := io.ReadAll(f)
			check(errors.Join(err, f.Close()))
			do("ix/"+name, data)
		}
		return names
	}
	write := func(name string, data []byte) vfs.File {
		f, err := left.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		check(err)
		_, err = f.WriteAt(data, 0)
		check(err)
		return f
	}
	check(left.MkdirAll("ix", 0o755))
	synced := files(fsys.CrashClone(vfs.CrashCloneCfg{}), func(name string, data []byte) {
		f := write(name, data)
		check(errors.Join(f.Sync(), f.Close()))
	})
	sync("ix")
	sync(".")
	written := files(fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))}), func(name string, data []byte) {
		check(write(name, data).Close())
	})
	for _, name := range synced {
		if !slices.Contains(written, name) {
			check(left.Remove("ix/" + name))
		}
	}
	return left
}

// crashes notes what a crash would leave before each operation that changes the file
// system: only what is synced, and that with some of the rest.
type crashes struct {
	mu     sync.Mutex
	fsys   *vfs.MemFS
	random *rand.Rand
	left   []left
}

type left struct {
	before string // the operation
	synced bool   // nothing else is there
	fsys   *vfs.MemFS
}

func (c *crashes) String() string { return "crashes" }

func (c *crashes) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		c.note(fmt.Sprintf("operation of kind %d on %s", op.Kind, op.Path))
	}
	return nil
}

func (c *crashes) note(before string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, left{before, true, c.fsys.CrashClone(vfs.CrashCloneCfg{})})
	percent := 1 + c.random.IntN(100)
	partial := c.fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.random})
	for !orderly(partial) {
		partial = c.fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.random})
	}
	c.left = append(c.left, left{fmt.Sprintf("%s, and %d %% of what is not synced", before, percent), false, partial})
}

// orderly tells whether the manifest that Pebble's marker names is there. Pebble makes
// both with one sync of the directory, and so relies on the file system to keep the
// order of names in a directory, as journals do and a clone does not.
func orderly(fsys vfs.FS) bool {
	manifest, err := atomicfs.ReadMarker(fsys, "ix", "manifest")
	if err != nil || manifest == "" {
		return true
	}
	_, err = fsys.Stat("ix/" + manifest)
	return err == nil
}

// The machine stops before every operation on the file system in turn. The index is as
// it was or as it is to be, and goes on from there.
func TestCrash(t *testing.T) {
	seed, rounds := testseed.Of(t), uint64(1)
	if atLength() {
		rounds = 4
	}
	for round := range rounds {
		crashRound(t, seed+round)
	}
}

func crashRound(t *testing.T, seed uint64) {
	for fsys, task := range tasks(t, rand.New(rand.NewPCG(seed, 1))) {
		t.Run(task.name, func(t *testing.T) {
			t.Parallel()
			c := &crashes{fsys: fsys, random: rand.New(rand.NewPCG(seed, 2))}
			if err := task.do(errorfs.Wrap(fsys, c)); err != nil {
				t.Fatal(err)
			}
			c.note("the end")
			t.Logf("%d operations", len(c.left)/2)
			states := append(slices.Clone(task.before), task.after)
			r := rand.New(rand.NewPCG(seed, 3))
			for i, l := range c.left {
				if l.before == "the end" {
					states = states[len(states)-1:]
				} else if raceEnabled && r.IntN(8) > 0 {
					continue
				}
				found, err := checkLeft(l.fsys, states, r)
				if err != nil {
					t.Fatalf("%d, before %s: %v", i/2, l.before, err)
				}
				if l.synced {
					for states[0].name != found.name { // what is on the disk stays there
						states = states[1:]
					}
				}
				if atLength() || r.IntN(8) == 0 {
					if err := goOn(l.fsys, found, &task, r); err != nil {
						t.Fatalf("%d, going on from before %s: %v", i/2, l.before, err)
					}
				}
			}
		})
	}
}

// checkLeft opens what a crash left, now and then for reading only before that.
func checkLeft(fsys vfs.FS, states []state, r *rand.Rand) (*state, error) {
	if r.IntN(4) > 0 {
		return which(fsys, states, r)
	}
	seen, err := look(fsys, states, r, index.Options{FS: fsys, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("for reading only: %w", err)
	}
	found, err := which(fsys, states, r)
	if err == nil && found.name != seen.name {
		err = fmt.Errorf("for reading it is from %s, for writing from %s", seen.name, found.name)
	}
	return found, err
}

// goOn does the work of the task again, or compacts what it has come to. That is cut
// short once more by a crash, of which a copy of the index is left.
func goOn(fsys *vfs.MemFS, found *state, task *task, r *rand.Rand) error {
	do, states := run(compaction.Options{}), []state{*found, found.packed("compacted")}
	if found.none || found.next == 1 {
		do, states = task.do, append(slices.Clone(task.before), task.after)
	}
	at, operations := r.IntN(100), 0
	var copied *vfs.MemFS
	var mu sync.Mutex
	err := do(errorfs.Wrap(fsys, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			if operations++; operations == at {
				copied = fsys.CrashClone(vfs.CrashCloneCfg{})
			}
		}
		return nil
	})))
	if err != nil {
		return err
	}
	if copied != nil {
		if _, err := which(copied, states, r); err != nil {
			return fmt.Errorf("after a second crash: %w", err)
		}
	}
	done, err := which(fsys, states[len(states)-1:], r)
	if err != nil {
		return err
	}
	return checkNothingLeft(fsys, done)
}

// checkNothingLeft compares the number of Pebble's tables with what a packed index
// has: two for each of its tables, one for the filters and four for what is beside
// them.
func checkNothingLeft(fsys vfs.FS, s *state) error {
	plan, err := plan.Parse(s.plan)
	if err != nil {
		return err
	}
	names, err := fsys.List("ix")
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".sst") })
	if most := 2*len(plan.Tables) + 5; len(names) > most {
		return fmt.Errorf("%d sorted tables are left, want at most %d: %v", len(names), most, names)
	}
	return nil
}
