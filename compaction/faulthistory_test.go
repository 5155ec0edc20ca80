package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testseed"
)

// The ways in which the n-th operation on the file system fails.
const (
	failOnce  = "once"
	failSpace = "and whatever takes space after it, for ever"
	failShort = "a write that is cut short"
)

// nthFault lets the n-th operation fail.
type nthFault struct {
	n   int64
	how string

	mu   sync.Mutex
	seen int64
	off  bool
	hit  string // the operation; "": not reached
}

func (f *nthFault) String() string { return "n-th operation" }

func (f *nthFault) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.off {
		return nil
	}
	i := f.seen
	f.seen++
	o := sortOf(op)
	if i != f.n && (f.how != failSpace || f.hit == "" || !o.takesSpace()) {
		return nil
	}
	if f.how == failSpace && f.hit == "" && !o.takesSpace() {
		f.n++ // the next one
		return nil
	}
	if f.hit == "" {
		f.hit = fmt.Sprintf("kind %d on %s", op.Kind, o.path)
	}
	if f.how == failShort && op.Kind == errorfs.OpFileWrite {
		return errShort
	}
	cause := syscall.EIO
	if f.how == failSpace {
		cause = syscall.ENOSPC
	}
	return injectedError(op, cause)
}

func injectedError(op errorfs.Op, cause error) error {
	return &fs.PathError{Op: fmt.Sprintf("injected into kind %d", op.Kind), Path: op.Path, Err: cause}
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
	return n, &fs.PathError{Op: "injected into a write", Path: "it was cut short", Err: syscall.ENOSPC}
}

// faultRun is a short history in which something fails.
type faultRun struct {
	r      *rand.Rand
	fault  *nthFault
	disk   *vfs.MemFS
	fsys   vfs.FS
	x      *index.Index
	states []state // in which the index may be
	failed bool    // it takes no more writes
	told   int     // errors
}

// try does one thing. If it fails the error is that of the file system, and the index
// answers as it did before or as it should after it.
func (f *faultRun) try(name string, do func(s *state) ([]state, error)) error {
	next := f.states[len(f.states)-1].clone()
	through, err := do(&next)
	for i := range through {
		through[i].name = name
	}
	if err == nil {
		if f.failed && len(through) > 0 {
			return f.settle(name, nil) // what goes well had nothing to write, and changed nothing
		}
		if len(through) > 0 {
			f.states = through[len(through)-1:]
		}
		if f.x == nil || len(f.states) == 1 {
			return nil
		}
		return f.settle(name, nil) // it was opened after something that failed
	}
	f.told++
	if f.states[0].none && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var injected *fs.PathError
	if !errors.As(err, &injected) || !strings.HasPrefix(injected.Op, "injected") {
		return fmt.Errorf("%s: error %v, not that of the file system, %s", name, err, f.fault.hit)
	}
	if f.failed && !errors.Is(err, index.ErrFailed) {
		return fmt.Errorf("%s: it takes no more writes, and says %v", name, err)
	}
	if !f.failed {
		f.states = append(f.states, through...)
	}
	f.failed = f.x != nil && (f.failed || errors.Is(err, index.ErrFailed))
	if f.x == nil {
		return nil
	}
	return f.settle(name, err)
}

// settle finds the state in which the open index is.
func (f *faultRun) settle(name string, err error) error {
	got, readErr := read(f.x)
	if readErr != nil {
		return fmt.Errorf("%s: after error %v reading gives %v", name, err, readErr)
	}
	for _, s := range f.states {
		if s.none || s.differs(got) != "" {
			continue
		}
		if !f.failed {
			s.docs, s.plan = got.docs, got.plan
			f.states = []state{s}
		}
		return checkQueries(f.x, got, f.r)
	}
	return fmt.Errorf("%s: after error %v it differs: %s", name, err, f.states[len(f.states)-1].differs(got))
}

// open opens the index, which may fail.
func (f *faultRun) open() error {
	return f.try("Open", func(s *state) ([]state, error) {
		x, err := index.Open("ix", &index.Options{FS: f.fsys, CacheBytes: 1 << 18, FilterBytes: -1})
		if err == nil {
			f.x, f.failed = x, false
		}
		if s.none {
			return []state{{docs: make(map[uint64]index.Document), next: 1}}, err
		}
		return nil, err
	})
}

func (f *faultRun) close() error {
	err := f.try("Close", func(*state) ([]state, error) {
		x := f.x
		f.x, f.failed = nil, false
		return nil, x.Close()
	})
	if err != nil || len(f.states) == 1 {
		return err
	}
	found, err := look(f.disk, f.states, f.r, index.Options{FS: f.disk, MustExist: true, CacheBytes: 1 << 18, FilterBytes: -1})
	if err != nil {
		return fmt.Errorf("after Close: %w", err)
	}
	f.states = []state{found.clone()}
	return nil
}

// faultStep is for an open index, or for a closed one.
type faultStep struct {
	closed bool
	do     func() error
}

// steps is the history. Documents are the same in every run.
func (f *faultRun) steps() []faultStep {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, 1))
	drawn := func(n int) []index.Document {
		docs := draw(r, n)
		for i := range docs {
			if docs[i].Key != "" {
				docs[i].Key = keyName(i) // once in each
			}
		}
		return docs
	}
	add := func(n int) func() error {
		docs := drawn(n)
		return func() error {
			return f.try("Add", func(s *state) ([]state, error) {
				s.live = true
				for _, d := range docs {
					s.add(d)
				}
				return []state{*s}, f.x.Add(ctx, docs...)
			})
		}
	}
	check := func(n int) func() error {
		docs := drawn(n)
		return func() error {
			return f.try("CheckAndAddBatch", func(s *state) ([]state, error) {
				h := crashHistory{}
				for _, d := range docs {
					h.verdict(s, d)
				}
				_, err := f.x.CheckAndAddBatch(ctx, docs)
				return []state{*s}, err
			})
		}
	}
	remove := func(keys ...string) func() error {
		return func() error {
			return f.try("Delete", func(s *state) ([]state, error) {
				for _, key := range keys {
					s.remove(key)
				}
				s.live = true
				_, err := f.x.Delete(ctx, keys...)
				return []state{*s}, err
			})
		}
	}
	expire := func() error {
		return f.try("DeleteBefore", func(s *state) ([]state, error) {
			recorded := s.clone()
			for id, d := range s.docs {
				if d.Key != "" || d.Scope != "" || d.Shingle != 0 || d.Tokens != 0 {
					delete(recorded.docs, id)
				}
			}
			clear(s.docs)
			s.live, recorded.live = true, true
			_, err := f.x.DeleteBefore(ctx, time.Now().Add(time.Hour))
			return []state{recorded, *s}, err
		})
	}
	checkpoint := func() error {
		return f.try("Checkpoint", func(*state) ([]state, error) { return nil, f.x.Checkpoint(ctx, "copy") })
	}
	sync := func() error { return f.try("Sync", func(*state) ([]state, error) { return nil, f.x.Sync(ctx) }) }
	compact := func() error {
		return f.try("Run", func(s *state) ([]state, error) {
			err := run(compaction.Options{CacheBytes: 1 << 18})(f.fsys)
			return []state{s.packed("")}, err
		})
	}
	more := drawn(10)
	load := func() error {
		return f.try("Load", func(s *state) ([]state, error) {
			err := loading(more, compaction.LoadOptions{Index: index.Options{CacheBytes: 1 << 18}})(f.fsys)
			s.plan = ""
			return []state{s.loaded(more)}, err
		})
	}
	var steps []faultStep
	session := func(between func() error, whileOpen ...func() error) {
		if between != nil {
			steps = append(steps, faultStep{true, between})
		}
		steps = append(steps, faultStep{true, f.open})
		for _, do := range append(whileOpen, f.close) {
			steps = append(steps, faultStep{false, do})
		}
	}
	session(nil, add(5), check(1), check(6), remove(keyName(0), keyName(3)), sync, add(8))
	session(nil, check(4), checkpoint, expire, add(6))
	session(compact, add(3), remove(keyName(1)), check(3))
	session(load, check(2), add(2))
	return steps
}

// run goes through the history; what needs an open index is left out while it is not.
// Then what is left of it, closed or by a crash, is whole.
func (f *faultRun) run() error {
	for _, step := range f.steps() {
		if step.closed != (f.x == nil) {
			continue
		}
		if err := step.do(); err != nil {
			return err
		}
	}
	crashed := f.disk.CrashClone(vfs.CrashCloneCfg{})
	if f.x != nil {
		if err := f.close(); err != nil {
			return err
		}
	}
	f.fault.mu.Lock()
	f.fault.off = true
	f.fault.mu.Unlock()
	for _, left := range []*vfs.MemFS{f.disk, crashed} {
		found, err := look(left, f.states, f.r, index.Options{FS: left, MustExist: true, CacheBytes: 1 << 18, FilterBytes: -1})
		if err != nil {
			return fmt.Errorf("opened again: %w", err)
		}
		if found.none {
			continue
		}
		x, err := index.Open("ix", &index.Options{FS: left, MustExist: true, CacheBytes: 1 << 18, FilterBytes: -1})
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
	seed, step := testseed.Of(t), uint64(40)
	switch {
	case atLength():
		step = 1
	case testing.Short() || raceEnabled:
		step = 150
	case os.Getenv("NEARDUP_CI") != "":
		step = 8
	}
	for _, how := range []string{failOnce, failSpace, failShort} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			tried, told := 0, 0
			for n := seed % step; ; n += step {
				f := &faultRun{r: rand.New(rand.NewPCG(n, 1)), fault: &nthFault{n: int64(n), how: how}, disk: vfs.NewCrashableMem()}
				f.fsys = &shortFS{errorfs.Wrap(f.disk, f.fault)}
				f.states = []state{{none: true}}
				done := make(chan error, 1)
				go func() { done <- f.run() }()
				select {
				case err := <-done:
					if err != nil {
						t.Errorf("operation %d, %s (%s): %v", n, how, f.fault.hit, err)
					}
				case <-time.After(patience):
					t.Fatalf("operation %d, %s (%s): no end\n%s", n, how, f.fault.hit, stacks())
				}
				if f.fault.hit == "" {
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
