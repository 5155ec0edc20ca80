package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// failing is a history with a fault.
type failing struct {
	*history
	*fault
	disk    *crashfs.FS
	stopped bool // the index refuses writes
	told    bool // a call returned an error
}

func newFailing(h *history, disk *crashfs.FS, f *fault) *failing {
	h.fs, h.files = &shortFS{errorfs.Wrap(disk, f)}, disk
	h.ctx, f.cancel = context.WithCancel(context.Background())
	return &failing{history: h, fault: f, disk: disk}
}

// try runs a step. If the step fails, the error must come from the file system. The index must
// answer as before or after the step.
func (f *failing) try(s step) error {
	before := slices.Clone(f.states)
	f.removed = 0
	through, err := f.do(&s)
	f.told = f.told || err != nil
	switch {
	case f.states[0].none && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !f.caused(err):
		return fmt.Errorf("%s: error %v, want the error of the file system", s.what, err)
	case err != nil && f.stopped && !errors.Is(err, index.ErrFailed):
		return fmt.Errorf("%s: the index refuses writes with error %v, want ErrFailed", s.what, err)
	case s.what == "close":
		f.stopped = false
		return f.find(f.states)
	case f.stopped: // a step that succeeds had nothing to write
	case err != nil:
		f.states = append(f.states, through...)
	case len(through) > 0:
		f.states = through[len(through)-1:]
	}
	if f.x == nil {
		if s.what == "open" {
			return nil
		}
		return f.worked(&s, err, before, through)
	}
	f.stopped = f.stopped || errors.Is(err, index.ErrFailed)
	if err == nil && !f.stopped && len(f.states) == 1 {
		return nil
	}
	on := f.on.Swap(false) // verify must be able to read
	found, findErr := whichOf(f.x, f.opts, f.states, f.history.r)
	f.on.Store(on)
	if findErr != nil {
		return fmt.Errorf("%s: after error %v: %w", s.what, err, findErr)
	}
	if f.stopped {
		return nil
	}
	if removed := len(before[0].Docs) - len(found.Docs); err != nil && removed != f.removed &&
		(s.what == "expire" || strings.HasPrefix(s.what, "delete")) {
		return fmt.Errorf("%s: %d documents are removed, but %d were reported, with error %v",
			s.what, removed, f.removed, err)
	}
	f.states = []state{*found}
	return nil
}

// goOn writes to an index that a fault left open, and checks it before and after compactions.
func (f *failing) goOn() error {
	through, err := f.do(&step{what: "add", docs: newDrawer(1, 1).documents(20)})
	if errors.Is(err, index.ErrFailed) {
		f.stopped = true
		return nil
	}
	f.states = through
	for range 3 {
		if err == nil {
			f.newest().generation = f.x.Stats().Generation
			err = f.compare()
		}
		if err == nil {
			err = f.try(step{what: "check", docs: newDrawer(1, 2).documents(20)})
		}
		if err == nil {
			_, err = compaction.Compact(context.Background(), f.x, compaction.Options{})
		}
	}
	return err
}

// worked checks that the state of a closed index agrees with the error of the step.
func (f *failing) worked(s *step, err error, before, through []state) error {
	if _, stat := f.disk.Stat("ix/incoming"); stat == nil && f.at.path != "ix/incoming" {
		return fmt.Errorf("directory incoming still exists after error %v", err)
	}
	if findErr := f.find(append(before, through...)); findErr != nil || len(through) == 0 {
		return findErr
	}
	found, done := f.newest(), err == nil || errors.Is(err, compaction.ErrDone)
	after := found.generation == through[len(through)-1].generation
	switch {
	case done && !after:
		return fmt.Errorf("the index has the state after %s, but the error is: %v", found.name, err)
	case !done && after && s.what == "load" &&
		!(f.how == failSpace && errors.Is(err, index.ErrFailed)):
		return fmt.Errorf("all documents are loaded, but the error is: %v", err)
	}
	return nil
}

// find determines the state of a closed index, and keeps only this state. If only one is possible,
// find does nothing: an unacknowledged write may be present, and a crash may still remove it.
func (f *failing) find(states []state) error {
	if len(states) == 1 {
		return nil
	}
	found, err := which(f.disk, states, f.history.r)
	if err == nil {
		f.states = []state{found.clone()}
	}
	return err
}

// check runs the last steps of a task with a fault. It reports whether a call returned an error. At
// the end, the index must be intact.
func (k *task) check(f *fault, r *rand.Rand) (told bool, err error) {
	hangs := time.AfterFunc(patience, func() {
		panic(fmt.Sprintf("%s, %v, %s: a call does not return", k.name, f.at, f.how))
	})
	defer hangs.Stop()
	run := newFailing(k.on(nil), copyOf(k.disk, r), f)
	if err := run.tryAll(k.opening...); err != nil {
		return false, err
	}
	f.on.Store(true)
	if err := run.tryAll(k.steps...); err != nil {
		return false, err
	}
	f.on.Store(false)
	run.ctx = context.Background()
	if run.x != nil {
		if !run.stopped {
			err = run.goOn()
		}
		return run.told, errors.Join(err, run.try(step{what: "close"}))
	}
	if len(k.steps) > 1 { // the last step has closed the index
		crashed := run.disk.CrashClone(vfs.CrashCloneCfg{})
		err = errors.Join(writeAgain(run.disk, run.states, r), writeAgain(crashed, run.states, r))
	}
	return run.told, err
}

// tryAll runs steps. It skips steps for an open index if the index is closed, and vice versa.
func (f *failing) tryAll(steps ...step) error {
	for _, s := range steps {
		if closed := s.what == "open" || s.what == "compact" || s.what == "load"; closed !=
			(f.x == nil) {
			continue
		}
		if err := f.try(s); err != nil {
			return err
		}
	}
	return nil
}

// writeAgain opens a closed index, which must have one of the states, and adds a document.
func writeAgain(disk *crashfs.FS, states []state, r *rand.Rand) error {
	found, err := which(disk, states, r)
	if err != nil || found.none {
		return err
	}
	x, err := index.Open("ix", &index.Options{FS: disk, MustExist: true})
	if err != nil {
		return err
	}
	return errors.Join(x.Add(context.Background(), index.Document{Key: "later"}), x.Close())
}

// faults chooses faults for the operations of a run without faults. By default, one operation of
// every fourth kind fails in one way. In CI, one of every kind fails in all ways. With
// NEARDUP_LONG, every operation fails, unless the task is slow. Every link always fails. If only
// reads fail, some of them are chosen.
func (k *task) faults(t *testing.T, r *rand.Rand) (chosen []*fault) {
	t.Helper()
	counted := newFault(operation{path: "none"}, failOnce)
	if _, err := k.check(counted, r); err != nil {
		t.Fatal(err)
	}
	slow, every := len(k.steps[0].docs) > 1000, testenv.Number(4, 4, 1, 1)
	reads := testenv.Number(10, 30, 1000, 1<<30)
	if testenv.Race {
		every, reads = 24, 5
	}
	kinds := slices.SortedFunc(maps.Keys(counted.seen), func(a, b operation) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, at := range kinds {
		n, ways, count := counted.seen[at], k.ways(at), 0
		switch {
		case k.reads:
			if ways = []string{failOnce}; at.kind == errorfs.OpFileReadAt {
				count = min(n, reads)
			}
		case slow && !testenv.Long() && !strings.Contains(at.path, "spill"):
		case slices.Contains(ways, failTwice) && !testenv.Race, testenv.Long() && !slow:
			count = n
		case r.IntN(every) == 0:
			if count = 1; every > 1 {
				ways = []string{pick(r, ways...)}
			}
		}
		for _, at.n = range r.Perm(n)[:count] {
			for _, how := range ways {
				chosen = append(chosen, newFault(at, how))
			}
		}
	}
	return chosen
}

// ways returns the ways in which an operation of a task fails.
func (k *task) ways(at operation) []string {
	ways := []string{failOnce}
	if at.needsSpace() {
		ways = append(ways, failSpace)
	}
	switch {
	case at.kind == errorfs.OpLink && len(k.steps) == 1:
		ways = append(ways, failTwice)
	case len(k.steps) == 1: // cancelling a commit does not always undo it
		ways = append(ways, failCancel)
	case at.kind == errorfs.OpFileWrite:
		ways = append(ways, failShort)
	}
	return ways
}

// moreTasks returns further tasks for TestFaults: a load that sorts on disk, a short history, and a
// compaction and calls that write, in which only reads fail. When Pebble excises the middle of a
// file, it treats data that it cannot read as missing, and so could lose other keyspaces.
func moreTasks(seed uint64) []*task {
	d := newDrawer(seed, 4)
	large := step{what: "load", docs: bare(testgen.Uniform(d.source.(*rand.Rand), 100_000)),
		work: compaction.Options{MemoryBytes: 1}}
	for i := 0; i < len(large.docs); i += 4 {
		large.docs[i].Key = fmt.Sprint(i)
	}
	tasks := []*task{{name: "load beyond memory", before: d.used(), steps: []step{large}},
		{name: "history", steps: eventful()}}
	used := append(append(d.used(), step{what: "wait", wait: time.Hour}),
		opened(index.Options{}, step{what: "add", docs: d.documents(60)})...)
	ids := make([]uint64, 200)
	for i := range ids {
		ids[i] = uint64(i + 1)
	}
	for _, last := range []step{
		{what: "compact", work: compaction.Options{CacheBytes: 1}},
		{what: "delete", keys: d.someKeys(20)},
		{what: "delete IDs", ids: ids},
		{what: "expire", before: epoch.Add(time.Minute)},
		{what: "add", docs: d.documents(20)},
		{what: "check", docs: d.documents(1)},
		{what: "check", docs: d.documents(20)},
	} {
		k := &task{name: fmt.Sprintf("reads of %s %d", last.what, len(last.docs)), before: used,
			steps: []step{last}, reads: true}
		if last.what != "compact" {
			k.opening = []step{{what: "open", open: index.Options{CacheBytes: 1}}}
		}
		tasks = append(tasks, k)
	}
	return tasks
}

// eventful returns the steps of a short history.
func eventful() []step {
	d := newDrawer(1, 1)
	drawn := func(what string, n int) step {
		s := step{what: what, docs: d.documents(n)}
		for i := range s.docs {
			if s.docs[i].Key != "" {
				s.docs[i].Key = keyName(i) // at most once per step
			}
		}
		s.work.CacheBytes, s.open.CacheBytes = 1<<18, 1<<18 // for load
		return s
	}
	remove := func(keys ...string) step { return step{what: "delete", keys: keys} }
	opts := index.Options{CacheBytes: 1 << 18, FilterBytes: -1}
	return slices.Concat(
		opened(opts, drawn("add", 5), drawn("check", 1), drawn("check", 6),
			remove(keyName(0), keyName(3)), step{what: "sync"}, drawn("add", 8)),
		opened(opts, drawn("check", 4), step{what: "checkpoint"},
			step{what: "expire", before: epoch.Add(time.Hour)}, drawn("add", 6)),
		[]step{drawn("compact", 0)},
		opened(opts, drawn("add", 3), remove(keyName(1)), drawn("check", 3)),
		[]step{drawn("load", 10)},
		opened(opts, drawn("check", 2), drawn("add", 2)))
}

// TestFaults lets operations on the file system fail: one, two, or all later ones that need space.
// Instead, a write may be cut short, or the call may be cancelled. In some tasks, only reads fail.
// The step must return the error of the file system, and the error must tell whether the index has
// changed. No temporary file and no lock may remain. An index that is open and accepts writes must
// work as before, and must be intact at the end.
func TestFaults(t *testing.T) {
	seed := testenv.Seed(t)
	for _, k := range slices.Concat(tasks(t, seed), moreTasks(seed)) {
		if len(k.steps[0].meanwhile) > 0 {
			continue // the error does not tell which concurrent step has failed
		}
		if testenv.Race && len(k.steps[0].docs) > 1000 {
			continue // takes minutes
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.make(t)
			r := rand.New(rand.NewPCG(seed, 2))
			tried, told := make(map[string]int), make(map[string]int)
			for _, f := range k.faults(t, r) {
				returned, err := k.check(f, r)
				if err != nil {
					t.Errorf("%v, %s: %v", f.at, f.how, err)
				}
				if tried[f.how]++; returned {
					told[f.how]++
				}
			}
			t.Log("faults:", tried, "of which calls returned an error:", told)
			how := failCancel // other faults may have no effect
			if k.reads {
				how = failOnce
			}
			if tried[how] > 4 && told[how] == 0 {
				t.Errorf("no call returned an error: %s", how)
			}
		})
	}
}

// operation is the n-th operation of a kind on the files of a path, counted from 0.
type operation struct {
	kind errorfs.OpKind
	path string // with N in place of file numbers
	n    int
}

func (o operation) String() string {
	return fmt.Sprintf("operation %d of kind %d on %s", o.n, o.kind, o.path)
}

var fileNumber = regexp.MustCompile(`[0-9a-f]{16}|[0-9]{6}`)

// needsSpace reports whether the operation fails on a full disk.
func (o operation) needsSpace() bool {
	return slices.Contains([]errorfs.OpKind{errorfs.OpCreate, errorfs.OpLink, errorfs.OpMkdirAll,
		errorfs.OpReuseForWrite, errorfs.OpFileWrite, errorfs.OpFileWriteAt,
		errorfs.OpFilePreallocate, errorfs.OpFileSync, errorfs.OpFileSyncData,
		errorfs.OpFileSyncTo}, o.kind)
}

// These are the ways in which an operation fails.
const (
	failOnce   = "once"
	failTwice  = "with the next that needs space" // Pebble copies a file that it cannot link
	failSpace  = "with all later operations that need space"
	failShort  = "short write"
	failCancel = "cancelled" // the operation succeeds
)

// fault is an injector of an error, or of another fault, into the operation at.
type fault struct {
	at     operation
	how    string
	cancel context.CancelFunc
	on     atomic.Bool

	mu     sync.Mutex
	seen   map[operation]int
	failed int // number of operations that failed
}

func newFault(at operation, how string) *fault {
	return &fault{at: at, how: how, seen: make(map[operation]int)}
}

func (f *fault) String() string { return "fault" }

func (f *fault) MaybeError(op errorfs.Op) error {
	if !f.on.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o := operation{kind: op.Kind, path: fileNumber.ReplaceAllString(op.Path, "N")}
	at := o
	at.n = f.seen[o]
	f.seen[o]++
	later := o.needsSpace() && (f.how == failSpace && f.failed > 0 ||
		f.how == failTwice && f.failed == 1)
	if at != f.at && !later {
		return nil
	}
	f.failed++
	switch f.how {
	case failCancel:
		f.cancel()
		return nil
	case failShort:
		return errShort
	case failOnce:
		return &fs.PathError{Op: injected, Path: op.Path, Err: syscall.EIO}
	}
	return &fs.PathError{Op: injected, Path: op.Path, Err: syscall.ENOSPC}
}

const injected = "injected"

// caused reports whether the fault caused err.
func (f *fault) caused(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && path.Op == injected ||
		f.how == failCancel && errors.Is(err, context.Canceled)
}

var errShort = errors.New("short write")

// shortFS writes only half of the data if a write returns errShort.
type shortFS struct{ vfs.FS }

func (s *shortFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	return shortFile{f}, nil
}

type shortFile struct{ vfs.File }

func (f shortFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if !errors.Is(err, errShort) {
		return n, err
	}
	if n, err = f.File.Write(p[:len(p)/2]); err != nil { // later writes succeed
		return n, err
	}
	return n, &fs.PathError{Op: injected, Path: "a write that was cut short", Err: syscall.ENOSPC}
}

func copyOf(fsys *crashfs.FS, r *rand.Rand) *crashfs.FS {
	return fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r})
}
