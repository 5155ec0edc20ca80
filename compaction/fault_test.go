package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// failing is a history with a fault.
type failing struct {
	*history
	*fault
	disk    *crashfs.FS
	stopped bool   // the index refuses writes
	told    int    // number of errors that calls returned
	outcome string // of the last step
}

func newFailing(h *history, disk *crashfs.FS, f *fault) *failing {
	h.fs = &shortFS{errorfs.Wrap(disk, f)}
	return &failing{history: h, fault: f, disk: disk}
}

// inTime calls do, and returns an error if it takes too long.
func inTime(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		stack := make([]byte, 1<<20)
		stacks := strings.Split(string(stack[:runtime.Stack(stack, true)]), "\n\n")
		stacks = slices.DeleteFunc(stacks, func(s string) bool {
			return !strings.Contains(s, "neardup")
		})
		return fmt.Errorf("the call does not return:\n%s", strings.Join(stacks, "\n\n"))
	}
}

// try runs a step. If the step fails, the error must come from the file system. The index must
// answer as before or after the step.
func (f *failing) try(s step) error {
	before := slices.Clone(f.states)
	f.removed = 0
	through, err := f.do(&s)
	if err != nil {
		f.told++
	}
	switch {
	case f.states[0].none && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !isInjected(err):
		return fmt.Errorf("%s: error %v, want the error of the file system, %s",
			s.what, err, f.hit())
	case err != nil && f.stopped && !errors.Is(err, index.ErrFailed):
		return fmt.Errorf("%s: the index refuses writes with error %v, want ErrFailed", s.what, err)
	case s.what == "close":
		f.stopped = false
		if len(f.states) == 1 {
			return nil
		}
		return f.find(f.states, "closed")
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
	found, findErr := whichOf(f.x, f.states, f.history.r)
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

// goOn writes to an index that is open after a fault, and checks it before and after compactions.
func (f *failing) goOn() error {
	through, err := f.do(&step{what: "add", docs: newDrawer(1, 1).documents(20)})
	if errors.Is(err, index.ErrFailed) {
		f.stopped = true
		return nil
	}
	f.states = through
	for compactions := 0; err == nil; compactions++ {
		f.newest().generation = f.x.Stats().Generation
		if err = f.compare(); err == nil {
			err = f.try(step{what: "check", docs: newDrawer(1, 2).documents(20)})
		}
		if err != nil || compactions == 2 {
			break
		}
		_, err = compaction.Compact(context.Background(), f.x, compaction.Options{})
	}
	if err != nil {
		return fmt.Errorf("after the fault: %w", err)
	}
	return nil
}

// worked checks that the state of a closed index agrees with the error of the step.
func (f *failing) worked(s *step, err error, before, through []state) error {
	if _, stat := f.disk.Stat("ix/incoming"); stat == nil &&
		!strings.HasSuffix(f.hit(), " ix/incoming") {
		return fmt.Errorf("directory incoming still exists after error %v", err)
	}
	if err := f.find(append(before, through...), fmt.Sprint("after: ", err)); err != nil ||
		len(through) == 0 {
		return err
	}
	found := f.newest()
	after := found.generation == through[len(through)-1].generation
	switch {
	case (err == nil || errors.Is(err, compaction.ErrDone)) && !after:
		return fmt.Errorf("the index has the state after %s, but the error is: %v", found.name, err)
	case err != nil && !errors.Is(err, compaction.ErrDone) && after && s.what == "load" &&
		!(f.how == failSpace && errors.Is(err, index.ErrFailed)):
		return fmt.Errorf("all documents are loaded, but the error is: %v", err)
	case f.hit() == "":
		f.outcome = "not reached" // background work differs between runs
	case err == nil:
		f.outcome = "no error"
	case errors.Is(err, compaction.ErrDone):
		f.outcome = "done, and an error"
	default:
		f.outcome = "an error, and the index has the state after " + found.name
	}
	return nil
}

// find determines the state of a closed index and keeps only that. An unacknowledged write may be
// present, and a crash may still remove it.
func (f *failing) find(states []state, when string) error {
	found, err := which(f.disk, states, f.history.r,
		index.Options{CacheBytes: 1 << 18, FilterBytes: -1}, true)
	if err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	f.states = []state{found.clone()}
	return nil
}

// check runs the last step of a history with a fault and describes the outcome.
func (k *task) check(f *fault, r *rand.Rand) (outcome string, err error) {
	disk := copyOf(k.disk, r)
	run := newFailing(k.on(nil), disk, f)
	if run.newest().none {
		run.states = append(run.states, state{Model: noIndex.Clone(), name: "an empty index"})
	}
	err = inTime(func() error {
		f.set(false)
		for _, s := range k.opening {
			if err := run.try(s); err != nil {
				return err
			}
		}
		f.set(true)
		if err := run.try(k.step); err != nil || run.x == nil {
			return err
		}
		run.outcome = fmt.Sprintf("the index is open after %d errors", run.told)
		f.set(false)
		if !run.stopped {
			if err := run.goOn(); err != nil {
				return err
			}
		}
		return run.try(step{what: "close"})
	})
	return run.outcome, err
}

// operations counts the operations of a task without a fault, by kind and path.
func (k *task) operations(t *testing.T, r *rand.Rand) map[operation]int {
	t.Helper()
	f := newFault(operation{path: "none"}, failOnce)
	if outcome, err := k.check(f, r); err != nil || f.hit() != "" {
		t.Fatal(outcome, err)
	}
	return f.seen
}

// faulty chooses the operations that fail: by default one of every fourth kind, in CI one of
// each, and all links. With NEARDUP_LONG it chooses all of them, unless the task is slow. If only
// reads fail, it chooses some of them.
func (k *task) faulty(t *testing.T, r *rand.Rand) (chosen []operation) {
	slow, every := k.name == "load beyond memory", testenv.Number(4, 4, 1, 1)
	reads := testenv.Number(10, 30, 1000, 1<<30)
	if testenv.Race {
		every, reads = 24, 5
	}
	for at, n := range k.operations(t, r) {
		if k.reads {
			for at.n = 0; at.n < n && at.kind == errorfs.OpFileReadAt; at.n += 1 + n/reads {
				chosen = append(chosen, at)
			}
			continue
		}
		links := at.kind == errorfs.OpLink && !testenv.Race
		if slow && !testenv.Long() && !strings.Contains(at.path, "spill") ||
			r.IntN(every) > 0 && !links {
			continue
		}
		for i, n := range r.Perm(n) {
			if i == 0 || links || testenv.Long() && !slow {
				at.n = n
				chosen = append(chosen, at)
			}
		}
	}
	slices.SortFunc(chosen, func(a, b operation) int {
		return strings.Compare(a.String(), b.String())
	})
	return chosen
}

// readTasks returns a compaction and calls that write, of which only reads fail. When Pebble
// excises the middle of a file, it treats data that it cannot read as missing, and so could lose
// other keyspaces.
func readTasks(seed uint64) (tasks []*task) {
	d := newDrawer(seed, 4)
	used := append(d.used(), step{what: "wait", wait: time.Hour},
		step{what: "open"}, step{what: "add", docs: d.documents(60)}, step{what: "close"})
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
		k := &task{name: fmt.Sprintf("reads of %s %d", last.what, len(last.docs)), step: last,
			before: used, seed: seed, reads: true}
		if last.what != "compact" {
			k.opening = []step{{what: "open", open: index.Options{CacheBytes: 1}}}
		}
		tasks = append(tasks, k)
	}
	return tasks
}

// TestFaults lets operations on the file system fail: a single one, two, or all later ones that
// take space. For calls that only read before they write, single reads fail. The step must return
// the error of the file system, and the error must tell whether the index changed. No temporary
// file and no lock may remain. An open index that refuses no writes must go on.
func TestFaults(t *testing.T) {
	seed := testenv.Seed(t)
	for _, k := range slices.Concat(tasks(t, seed), readTasks(seed),
		[]*task{loadBeyondMemory(seed)}) {
		if len(k.meanwhile) > 0 {
			continue // the error does not tell which of the concurrent steps failed
		}
		if testenv.Race && len(k.docs) > 1000 {
			continue // takes minutes; the tests of package extsort cover its goroutines
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.make(t)
			r := rand.New(rand.NewPCG(seed, 2))
			outcomes := make(map[string]int)
			for _, at := range k.faulty(t, r) {
				for _, how := range []string{failOnce, failTwice, failSpace} {
					if how == failSpace && !at.takesSpace() ||
						how == failTwice && at.kind != errorfs.OpLink {
						continue
					}
					outcome, err := k.check(newFault(at, how), r)
					if err != nil {
						t.Errorf("%v, %s: %v", at, how, err)
					}
					outcomes[outcome]++
				}
			}
			told := false
			for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
				t.Logf("%4d %s", outcomes[outcome], outcome)
				told = told || strings.Contains(outcome, "an error") ||
					strings.HasSuffix(outcome, " 1 errors")
			}
			if k.reads && !told { // of other operations, few may have failed
				t.Error("no read returned an error")
			}
		})
	}
}

// eventful returns the steps of a short history. The documents are the same in every run.
func eventful() (steps []step) {
	d := newDrawer(1, 1)
	drawn := func(what string, n int) step {
		docs := d.documents(n)
		for i := range docs {
			if docs[i].Key != "" {
				docs[i].Key = keyName(i) // at most once per step
			}
		}
		return step{what: what, docs: docs}
	}
	session := func(between string, whileOpen ...step) {
		if between != "" {
			s := drawn(between, 10)
			s.work.CacheBytes, s.open.CacheBytes = 1<<18, 1<<18
			steps = append(steps, s)
		}
		steps = append(steps,
			step{what: "open", open: index.Options{CacheBytes: 1 << 18, FilterBytes: -1}})
		steps = append(append(steps, whileOpen...), step{what: "close"})
	}
	remove := func(keys ...string) step { return step{what: "delete", keys: keys} }
	session("", drawn("add", 5), drawn("check", 1), drawn("check", 6),
		remove(keyName(0), keyName(3)), step{what: "sync"}, drawn("add", 8))
	session("", drawn("check", 4), step{what: "checkpoint", dir: "copy"},
		step{what: "expire", before: epoch.Add(time.Hour)}, drawn("add", 6))
	session("compact", drawn("add", 3), remove(keyName(1)), drawn("check", 3))
	session("load", drawn("check", 2), drawn("add", 2))
	return steps
}

// run runs the steps of a history. If the index is closed, it skips the steps that need an open
// index. At the end, the index must be intact, both after a close and after a crash.
func (f *failing) run(steps []step) error {
	for _, s := range steps {
		closed := s.what == "open" || s.what == "compact" || s.what == "load"
		if closed != (f.x == nil) {
			continue
		}
		if err := f.try(s); err != nil {
			return err
		}
	}
	crashed := f.disk.CrashClone(vfs.CrashCloneCfg{})
	if f.x != nil {
		if err := f.try(step{what: "close"}); err != nil {
			return err
		}
	}
	f.set(false)
	for _, left := range []*crashfs.FS{f.disk, crashed} {
		opts := index.Options{FS: left, MustExist: true, CacheBytes: 1 << 18, FilterBytes: -1}
		found, err := which(left, f.states, f.history.r, opts, false)
		if err != nil {
			return fmt.Errorf("opened again: %w", err)
		}
		if found.none {
			continue
		}
		x, err := index.Open("ix", &opts)
		if err != nil {
			return err
		}
		if err := errors.Join(x.Add(context.Background(), index.Document{Key: "later"}),
			x.Close()); err != nil {
			return fmt.Errorf("writing again: %w", err)
		}
	}
	return nil
}

// TestEveryOperationFails lets every operation of a short history fail in turn: once, with all
// later operations that take space, and as a short write. The affected call must return an error
// or succeed. Data must stay readable, later writes must succeed or report why they fail, and the
// index must be intact when it is opened again.
func TestEveryOperationFails(t *testing.T) {
	seed, every := testenv.Seed(t), uint64(testenv.Number(150, 80, 8, 1))
	if testenv.Race {
		every = 400
	}
	steps := eventful()
	for _, how := range []string{failOnce, failSpace, failShort} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			tried, told := 0, 0
			for n := seed % every; ; n += every {
				f := newFailing(newHistory(nil), crashfs.New(), newFault(operation{n: int(n)}, how))
				if err := inTime(func() error { return f.run(steps) }); err != nil {
					t.Errorf("operation %d, %s (%s): %v", n, how, f.hit(), err)
				}
				if f.hit() == "" {
					break
				}
				tried++
				if f.told > 0 {
					told++
				}
			}
			t.Logf("%d operations failed, %d of them returned an error", tried, told)
			if tried == 0 || told < tried/3 {
				t.Errorf("only %d of %d faults returned an error", told, tried)
			}
		})
	}
}

// operation is the n-th operation of its kind on files of this path, counted from 0.
type operation struct {
	kind errorfs.OpKind
	path string // with N in place of file numbers
	n    int
}

func (o operation) String() string {
	return fmt.Sprintf("operation %d of kind %d on %s", o.n, o.kind, o.path)
}

var fileNumber = regexp.MustCompile(`[0-9a-f]{16}|[0-9]{6}`)

func sortOf(op errorfs.Op) operation {
	return operation{kind: op.Kind, path: fileNumber.ReplaceAllString(op.Path, "N")}
}

// takesSpace reports whether a full disk refuses the operation.
func (o operation) takesSpace() bool {
	switch o.kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpMkdirAll, errorfs.OpReuseForWrite,
		errorfs.OpFileWrite,
		errorfs.OpFileWriteAt, errorfs.OpFilePreallocate, errorfs.OpFileSync,
		errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return true
	}
	return false
}

// These are the ways to fail.
const (
	failOnce  = "once"
	failTwice = "and the next that takes space" // Pebble copies a file that it cannot link
	failSpace = "with all later operations that take space"
	failShort = "short write"
)

// fault is an injector that lets the operation at fail. If at has no path, it lets the n-th
// operation of all fail. With failSpace it waits for the next operation that takes space.
type fault struct {
	at  operation
	how string

	mu     sync.Mutex
	seen   map[operation]int
	off    bool
	failed string // the first operation that did; "": none
	again  bool   // a second one did
}

func newFault(at operation, how string) *fault {
	return &fault{at: at, how: how, seen: make(map[operation]int)}
}

func (f *fault) String() string { return "fault" }

func (f *fault) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.off {
		return nil
	}
	o := sortOf(op)
	sort := o
	if f.at.path == "" {
		sort = operation{}
	}
	n := f.seen[sort]
	f.seen[sort]++
	sort.n = n
	space := f.how == failSpace && o.takesSpace()
	again := f.how == failTwice && f.failed != "" && !f.again && o.takesSpace()
	if sort != f.at && !again && (!space || f.failed == "") {
		return nil
	}
	f.again = again
	if f.how == failSpace && !space && f.failed == "" && f.at.path == "" {
		f.at.n++
		return nil
	}
	if f.failed == "" {
		f.failed = o.String()
	}
	if f.how == failShort && op.Kind == errorfs.OpFileWrite {
		return errShort
	}
	cause := syscall.EIO
	if o.takesSpace() && f.how != failOnce || f.how == failSpace {
		cause = syscall.ENOSPC
	}
	return &fs.PathError{Op: injected, Path: op.Path, Err: cause}
}

// hit returns the operation that failed, or "" if none did.
func (f *fault) hit() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// set turns the fault on or off.
func (f *fault) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = !on
}

const injected = "injected"

// isInjected reports whether a fault caused err.
func isInjected(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && path.Op == injected
}

var errShort = errors.New("short write")

// shortFS writes only half of the data if the fault asks for a short write.
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
