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

// failing is a history in which something fails.
type failing struct {
	*history
	*fault
	disk    *crashfs.FS
	stopped bool   // the index takes no more writes
	told    int    // errors
	outcome string // of the last step
}

func newFailing(h *history, disk *crashfs.FS, f *fault) *failing {
	h.fs = &shortFS{errorfs.Wrap(disk, f)}
	return &failing{history: h, fault: f, disk: disk}
}

// inTime calls do, and gives up after a while.
func inTime(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		stack := make([]byte, 1<<20)
		stacks := strings.Split(string(stack[:runtime.Stack(stack, true)]), "\n\n")
		stacks = slices.DeleteFunc(stacks, func(s string) bool { return !strings.Contains(s, "neardup") })
		return fmt.Errorf("no end:\n%s", strings.Join(stacks, "\n\n"))
	}
}

// try takes a step. If it fails the error is that of the file system, and the index
// answers as it did before or as it should after it.
func (f *failing) try(s step) error {
	before := slices.Clone(f.states)
	through, err := f.do(&s)
	if err != nil {
		f.told++
	}
	switch {
	case f.states[0].none && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !isInjected(err):
		return fmt.Errorf("%s: error %v, not that of the file system, %s", s.what, err, f.hit())
	case err != nil && f.stopped && !errors.Is(err, index.ErrFailed):
		return fmt.Errorf("%s: it takes no more writes, and says %v", s.what, err)
	case s.what == "close":
		f.stopped = false
		if len(f.states) == 1 {
			return nil
		}
		return f.find(f.states, "closed")
	case f.stopped: // what goes well had nothing to write, and changed nothing
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
	if !f.stopped {
		f.states = []state{*found}
	}
	return nil
}

// worked looks at what became of a closed index, and whether the error says so.
func (f *failing) worked(s *step, err error, before, through []state) error {
	if _, stat := f.disk.Stat("ix/incoming"); stat == nil && !strings.HasSuffix(f.hit(), " ix/incoming") {
		return fmt.Errorf("the folder incoming is left after: %v", err)
	}
	if err := f.find(append(before, through...), fmt.Sprint("after: ", err)); err != nil || len(through) == 0 {
		return err
	}
	found := f.newest()
	after := found.generation == through[len(through)-1].generation
	switch {
	case (err == nil || errors.Is(err, compaction.ErrDone)) && !after:
		return fmt.Errorf("the index is from %s, and the error is: %v", found.name, err)
	case err != nil && !errors.Is(err, compaction.ErrDone) && after && s.what == "load" && !(f.how == failSpace && errors.Is(err, index.ErrFailed)):
		return fmt.Errorf("all is loaded, and the error is: %v", err)
	case f.hit() == "":
		f.outcome = "not reached" // what goes on in the background is not always the same
	case err == nil:
		f.outcome = "of no account"
	case errors.Is(err, compaction.ErrDone):
		f.outcome = "done, and an error"
	default:
		f.outcome = "an error, and the index is from " + found.name
	}
	return nil
}

// find looks which of the states a closed index is in, and makes it last: what was
// not acknowledged may be there, and yet be lost with the machine.
func (f *failing) find(states []state, when string) error {
	found, err := which(f.disk, states, f.history.r, index.Options{CacheBytes: 1 << 18, FilterBytes: -1}, true)
	if err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	f.states = []state{found.clone()}
	return nil
}

// check does the last step of a history with a fault, and says what came of it.
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
		run.outcome = fmt.Sprintf("the index is open, and has told of %d errors", run.told)
		return run.try(step{what: "close"})
	})
	return run.outcome, err
}

// operations are those of a task without a fault, by sort.
func (k *task) operations(t *testing.T, r *rand.Rand) map[operation]int {
	t.Helper()
	f := newFault(operation{path: "none"}, failOnce)
	if outcome, err := k.check(f, r); err != nil || f.hit() != "" {
		t.Fatal(outcome, err)
	}
	return f.seen
}

// faulty chooses the operations that are to fail: by default one of every fourth sort, in CI of each; or all of them, but
// for a task that takes long.
func (k *task) faulty(t *testing.T, r *rand.Rand) (chosen []operation) {
	slow, every := k.name == "load beyond memory", testenv.Number(4, 4, 1, 1)
	if testenv.Race {
		every = 24
	}
	for at, n := range k.operations(t, r) {
		if slow && !testenv.Long() && !strings.Contains(at.path, "spill") || r.IntN(every) > 0 {
			continue
		}
		for i, n := range r.Perm(n) {
			if i == 0 || testenv.Long() && !slow {
				at.n = n
				chosen = append(chosen, at)
			}
		}
	}
	slices.SortFunc(chosen, func(a, b operation) int { return strings.Compare(a.String(), b.String()) })
	return chosen
}

// Operations on the file system fail, one at a time or all that take space from one
// on. An error comes back that is the file system's, the index is as it was or as it is
// to be, which the error tells, nothing is left beside it, and it is not locked.
func TestFaults(t *testing.T) {
	seed := testenv.Seed(t)
	for _, k := range append(tasks(t, seed), loadBeyondMemory(seed)) {
		if len(k.meanwhile) > 0 {
			continue // it is not told which of these failed
		}
		if testenv.Race && len(k.docs) > 1000 {
			continue // takes minutes; package extsort tests its goroutines with the race detector
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.make(t)
			r := rand.New(rand.NewPCG(seed, 2))
			outcomes := make(map[string]int)
			for _, at := range k.faulty(t, r) {
				for _, how := range []string{failOnce, failSpace} {
					if how == failSpace && !at.takesSpace() {
						continue
					}
					outcome, err := k.check(newFault(at, how), r)
					if err != nil {
						t.Errorf("%v, %s: %v", at, how, err)
					}
					outcomes[outcome]++
				}
			}
			for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
				t.Logf("%4d %s", outcomes[outcome], outcome)
			}
		})
	}
}

// Pebble takes what it can not read of a file for nothing when it excises the middle of
// it, and so would lose what is beside the tables. Every read of a compaction fails in turn.
func TestReadErrorWhileExcisingLosesNothing(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	k := tasks(t, seed)[0]
	k.make(t)
	k.work.CacheBytes = 1
	read := operation{kind: errorfs.OpFileReadAt, path: "ix/N.sst"}
	reads, told := k.operations(t, r)[read], 0
	for read.n = range reads {
		if testenv.Race && read.n%24 > 0 {
			continue
		}
		outcome, err := k.check(newFault(read, failOnce), r)
		if err != nil {
			t.Errorf("%v of %d: %v", read, reads, err)
		}
		if strings.Contains(outcome, "an error") {
			told++
		}
	}
	t.Logf("%d reads, of which %d were told", reads, told)
	if told == 0 {
		t.Error("no read failed")
	}
}

// eventful are the steps of a short history. Documents are the same in every run.
func eventful() (steps []step) {
	d := newDrawer(1, 1)
	drawn := func(what string, n int) step {
		docs := d.documents(n)
		for i := range docs {
			if docs[i].Key != "" {
				docs[i].Key = keyName(i) // once in each
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
		steps = append(steps, step{what: "open", open: index.Options{CacheBytes: 1 << 18, FilterBytes: -1}})
		steps = append(append(steps, whileOpen...), step{what: "close"})
	}
	remove := func(keys ...string) step { return step{what: "delete", keys: keys} }
	session("", drawn("add", 5), drawn("check", 1), drawn("check", 6), remove(keyName(0), keyName(3)), step{what: "sync"}, drawn("add", 8))
	session("", drawn("check", 4), step{what: "checkpoint", dir: "copy"}, step{what: "expire", before: epoch.Add(time.Hour)}, drawn("add", 6))
	session("compact", drawn("add", 3), remove(keyName(1)), drawn("check", 3))
	session("load", drawn("check", 2), drawn("add", 2))
	return steps
}

// run goes through the history; what needs an open index is left out while it is not.
// Then what is left of it, closed or by a crash, is whole.
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
		if err := errors.Join(x.Add(context.Background(), index.Document{Key: "later"}), x.Close()); err != nil {
			return fmt.Errorf("writing again: %w", err)
		}
	}
	return nil
}

// Every operation on the file system of a short history fails in turn: once, with all
// that takes space after it for ever, and as a write that is cut short. The call that
// meets it says so or does what it should; what is there can be read, later writes
// work or say why they do not, and opened again the index is whole.
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
			t.Logf("%d operations failed, of which %d were told", tried, told)
			if tried == 0 || told < tried/3 {
				t.Errorf("%d of %d faults were told", told, tried)
			}
		})
	}
}

// operation is the n-th of its kind on files of such a name; the first is 0.
type operation struct {
	kind errorfs.OpKind
	path string // without numbers
	n    int
}

func (o operation) String() string {
	return fmt.Sprintf("operation %d of kind %d on %s", o.n, o.kind, o.path)
}

var fileNumber = regexp.MustCompile(`[0-9a-f]{16}|[0-9]{6}`)

func sortOf(op errorfs.Op) operation {
	return operation{kind: op.Kind, path: fileNumber.ReplaceAllString(op.Path, "N")}
}

// takesSpace tells the operations that a full disk refuses.
func (o operation) takesSpace() bool {
	switch o.kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpMkdirAll, errorfs.OpReuseForWrite, errorfs.OpFileWrite,
		errorfs.OpFileWriteAt, errorfs.OpFilePreallocate, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return true
	}
	return false
}

// The ways in which an operation fails.
const (
	failOnce  = "once"
	failSpace = "and whatever takes space after it, for ever"
	failShort = "a write that is cut short"
)

// fault is an injector that lets one operation fail: at, or if that has no path the n-th
// of all. What is to fail for want of space is the next one that takes some.
type fault struct {
	at  operation
	how string

	mu     sync.Mutex
	seen   map[operation]int
	off    bool
	failed string // the first operation that did; "": none
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
	if sort != f.at && (!space || f.failed == "") {
		return nil
	}
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

// hit returns the operation that failed; "" if none did.
func (f *fault) hit() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// set turns the faults on, or off.
func (f *fault) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = !on
}

const injected = "injected"

// isInjected reports whether an error is that of a fault.
func isInjected(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && path.Op == injected
}

var errShort = errors.New("short write")

// shortFS writes the first half where a write is to be cut short.
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
	if n, err = f.File.Write(p[:len(p)/2]); err != nil { // the fault is past
		return n, err
	}
	return n, &fs.PathError{Op: injected, Path: "a write that was cut short", Err: syscall.ENOSPC}
}
