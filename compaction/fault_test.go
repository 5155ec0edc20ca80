package compaction_test

import (
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
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testseed"
)

// operation is the n-th of its kind on files of such a name; the first is 0.
type operation struct {
	kind errorfs.OpKind
	path string // without numbers
	n    int
}

func (o operation) String() string {
	return fmt.Sprintf("operation %d of kind %d on %s", o.n, o.kind, o.path)
}

var number = regexp.MustCompile(`[0-9a-f]{16}|[0-9]{6}`)

func sortOf(op errorfs.Op) operation {
	return operation{kind: op.Kind, path: number.ReplaceAllString(op.Path, "N")}
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

// fault lets one operation fail; with full every one from there on that takes space.
type fault struct {
	at   operation
	full bool

	mu     sync.Mutex
	seen   map[operation]int
	failed error // the first one
}

func (f *fault) String() string { return "fault" }

func (f *fault) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := sortOf(op)
	o.n, f.seen[o] = f.seen[o], f.seen[o]+1
	if o != f.at && (!f.full || f.failed == nil || !o.takesSpace()) {
		return nil
	}
	cause := syscall.EIO
	if o.takesSpace() {
		cause = syscall.ENOSPC
	}
	err := &fs.PathError{Op: fmt.Sprintf("injected into kind %d", op.Kind), Path: op.Path, Err: cause}
	if f.failed == nil {
		f.failed = err
	}
	return err
}

func stacks() string {
	stack := make([]byte, 1<<20)
	return string(stack[:runtime.Stack(stack, true)])
}

// operations are those of a task without a fault, by sort.
func operations(t *testing.T, found *vfs.MemFS, task *task, r *rand.Rand) map[operation]int {
	t.Helper()
	f := &fault{at: operation{n: -1}, seen: make(map[operation]int)}
	if err := task.do(errorfs.Wrap(copyOf(found, r), f)); err != nil {
		t.Fatal(err)
	}
	return f.seen
}

func copyOf(fsys *vfs.MemFS, r *rand.Rand) *vfs.MemFS {
	return fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r})
}

// loadBeyondMemory is a load that sorts on disk.
func loadBeyondMemory(t *testing.T, r *rand.Rand) (*vfs.MemFS, task) {
	fsys := vfs.NewCrashableMem()
	used := makeUsed(t, fsys, r)
	docs := make([]index.Document, 100_000)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
		if i%4 == 0 {
			docs[i].Key = fmt.Sprintf("%d", i)
		}
	}
	return fsys, task{"load beyond memory", []state{used}, used.loaded(docs), loading(docs, compaction.LoadOptions{MemoryBytes: 1})}
}

// Operations on the file system fail, one at a time or all that take space from one
// on. An error comes back that is the file system's, the index is as it was or as it is
// to be, which the error tells, nothing is left beside it, and it is not locked.
func TestFaults(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	all := tasks(t, r)
	fsys, beyond := loadBeyondMemory(t, r)
	all[fsys] = beyond
	for found, task := range all {
		t.Run(task.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			outcomes := make(map[string]int)
			for _, at := range faulty(operations(t, found, &task, r), task.name == beyond.name, r) {
				for _, full := range []bool{false, true} {
					if full && !at.takesSpace() {
						continue
					}
					f := &fault{at: at, full: full, seen: make(map[operation]int)}
					outcome, err := checkFault(copyOf(found, r), &task, f, r)
					if err != nil {
						t.Errorf("%v, disk full %t: %v", at, full, err)
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

// faulty chooses the operations that are to fail: one of each sort, or all of them, but
// for a task that takes long.
func faulty(sorts map[operation]int, slow bool, r *rand.Rand) (chosen []operation) {
	for at, n := range sorts {
		if slow && !atLength() && !strings.Contains(at.path, "spill") || raceEnabled && r.IntN(8) > 0 {
			continue
		}
		for i, n := range r.Perm(n) {
			if i == 0 || atLength() && !slow {
				at.n = n
				chosen = append(chosen, at)
			}
		}
	}
	slices.SortFunc(chosen, func(a, b operation) int { return strings.Compare(a.String(), b.String()) })
	return chosen
}

// patience is how long a call may take that has lost nothing but time.
const patience = 5 * time.Minute

// checkFault does the task with a fault, and says what came of it.
func checkFault(fsys *vfs.MemFS, task *task, f *fault, r *rand.Rand) (outcome string, err error) {
	returned := make(chan error, 1)
	go func() { returned <- task.do(errorfs.Wrap(fsys, f)) }()
	select {
	case err = <-returned:
	case <-time.After(patience):
		stacks := slices.DeleteFunc(strings.Split(stacks(), "\n\n"), func(s string) bool { return !strings.Contains(s, "neardup") })
		return "no end", fmt.Errorf("no end:\n%s", strings.Join(stacks, "\n\n"))
	}
	f.mu.Lock()
	failed := f.failed
	f.mu.Unlock()

	var injected *fs.PathError
	if err != nil && (failed == nil || !errors.As(err, &injected) || !strings.HasPrefix(injected.Op, "injected")) {
		return "", fmt.Errorf("error %v, of the file system %v", err, failed)
	}
	if _, stat := fsys.Stat("ix/incoming"); stat == nil && f.at.path != "ix/incoming" {
		return "", fmt.Errorf("the folder incoming is left after: %v", err)
	}
	found, lookErr := which(fsys, append(slices.Clone(task.before), task.after), r)
	if lookErr != nil {
		return "", fmt.Errorf("%v, after: %v", lookErr, err)
	}
	after := found.name == task.after.name
	switch {
	case (err == nil || errors.Is(err, compaction.ErrDone)) && !after:
		return "", fmt.Errorf("the index is from %s, and the error is: %v", found.name, err)
	case err != nil && !errors.Is(err, compaction.ErrDone) && after && strings.HasPrefix(task.name, "load") && !(f.full && errors.Is(err, index.ErrFailed)):
		return "", fmt.Errorf("all is loaded, and the error is: %v", err)
	case failed == nil:
		return "not reached", nil // what goes on in the background is not always the same
	case err == nil:
		return "of no account", nil
	case errors.Is(err, compaction.ErrDone):
		return "done, and an error", nil
	}
	return "an error, and the index is from " + found.name, nil
}

// Pebble takes what it can not read of a file for nothing when it excises the middle of
// it, and so would lose what is beside the tables. Every read of a compaction fails in turn.
func TestReadErrorWhileExcisingLosesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	found := vfs.NewCrashableMem()
	used := makeUsed(t, found, r)
	task := task{"compact", []state{used}, used.packed("after"), run(compaction.Options{CacheBytes: 1})}
	read := operation{kind: errorfs.OpFileReadAt, path: "ix/N.sst"}
	reads, told := operations(t, found, &task, r)[read], 0
	for read.n = range reads {
		if raceEnabled && read.n%8 > 0 {
			continue
		}
		outcome, err := checkFault(copyOf(found, r), &task, &fault{at: read, seen: make(map[operation]int)}, r)
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
