package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testseed"
)

// crashPoints is at how many moments the machine stops in TestCrashHistories.
func crashPoints(t *testing.T) int64 {
	t.Helper()
	if text := os.Getenv("NEARDUP_CRASH_POINTS"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch {
	case atLength():
		return 100_000
	case testing.Short():
		return 60
	case os.Getenv("NEARDUP_CI") != "":
		return 10_000
	}
	return 400
}

// crashHistory is one index under random operations, and what it should hold.
type crashHistory struct {
	t    *testing.T
	r    *rand.Rand // of what is done
	disk *vfs.MemFS
	fsys vfs.FS // disk, with moments noted
	x    *index.Index
	opts index.Options

	states []state // that a crash may leave: the last durable one and all since
	copies map[string][]state
	copied int   // checkpoints so far
	second int64 // of the index's clock, which may be ahead
	one    int64 // moments of this history

	mu      sync.Mutex
	moments *rand.Rand // of when the machine stops; Pebble's goroutines draw from it too
	noting  bool
	left    []left
}

func (h *crashHistory) now() *state { return &h.states[len(h.states)-1] }

// String and MaybeError are for errorfs.
func (h *crashHistory) String() string { return "crash history" }

func (h *crashHistory) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.noting && h.moments.IntN(3) == 0 {
			h.note(fmt.Sprintf("operation of kind %d on %s", op.Kind, op.Path))
		}
	}
	return nil
}

// note keeps what a crash at this moment would leave.
func (h *crashHistory) note(before string) {
	percent := []int{0, 100, 1 + h.moments.IntN(99), 1 + h.moments.IntN(99)}[h.moments.IntN(4)]
	copied := h.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: h.moments})
	if percent > 0 && !orderly(copied) {
		return
	}
	h.left = append(h.left, left{fmt.Sprintf("%s, with %d %% of what is not synced", before, percent), percent == 0, copied})
}

// step lets do change the index, notes moments meanwhile and one behind it, and checks
// what they left. do returns the states that it goes through.
func (h *crashHistory) step(name string, do func(s *state) []state) {
	h.t.Helper()
	h.mu.Lock()
	h.noting, h.left = true, nil
	h.mu.Unlock()
	before := h.now().clone()
	for _, s := range do(&before) {
		s.name = name
		h.states = append(h.states, s)
	}
	h.mu.Lock()
	h.noting = false
	meanwhile := h.left
	h.left = nil
	h.note("the end of " + name)
	after := h.left
	h.mu.Unlock()

	if h.x != nil {
		h.compare()
	}
	r := rand.New(rand.NewPCG(h.r.Uint64(), 1))
	for _, l := range meanwhile {
		h.check(name, &l, h.states, r)
	}
	if h.x == nil || h.opts.Durability == index.Sync {
		h.states = h.states[len(h.states)-1:]
	}
	for _, l := range after {
		h.check(name, &l, h.states, r)
	}
}

// check opens what a crash left.
func (h *crashHistory) check(name string, l *left, states []state, r *rand.Rand) {
	h.t.Helper()
	h.one++
	found, err := h.which(l.fsys, states, r)
	if err == nil {
		err = h.checkCopies(l.fsys, r)
	}
	if err != nil {
		h.t.Fatalf("%s, moment %d, at %s: %v", name, h.one, l.before, err)
	}
	if r.IntN(40) == 0 && found.next > 1 && found.plan != "" { // it can be gone on with
		if err := goOn(l.fsys, found, &task{}, r); err != nil {
			h.t.Fatalf("%s, moment %d, going on from %s: %v", name, h.one, l.before, err)
		}
	}
}

// which is which, with few bytes of memory, and all below the index in one case of four.
func (h *crashHistory) which(fsys vfs.FS, states []state, r *rand.Rand) (*state, error) {
	opts := index.Options{FS: fsys, MustExist: true, CacheBytes: 1 << 18, FilterBytes: []int64{-1, 1 << 10}[r.IntN(2)]}
	opts.ReadOnly = r.IntN(8) == 0
	found, err := look(fsys, states, r, opts)
	if err != nil || found.none || r.IntN(4) > 0 {
		return found, err
	}
	if opts.ReadOnly {
		return which(fsys, states, r)
	}
	return found, checkStored(fsys, found)
}

// checkCopies opens the checkpoints that a crash left.
func (h *crashHistory) checkCopies(fsys vfs.FS, r *rand.Rand) error {
	for dir, states := range h.copies {
		x, err := index.Open(dir, &index.Options{FS: fsys, MustExist: true, CacheBytes: 1 << 18, FilterBytes: -1})
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, index.ErrNotIndex) { // it was cut short
			continue
		}
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", dir, err)
		}
		got, err := read(x)
		if err == nil && !slices.ContainsFunc(states, func(s state) bool { return s.differs(got) == "" }) {
			err = fmt.Errorf("an index that differs: %s", states[len(states)-1].differs(got))
		}
		if err == nil {
			err = checkQueries(x, got, r)
		}
		if err := errors.Join(err, x.Close()); err != nil {
			return fmt.Errorf("checkpoint %s: %w", dir, err)
		}
	}
	return nil
}

// compare compares the open index with the newest state, which learns the times.
func (h *crashHistory) compare() {
	h.t.Helper()
	got, err := read(h.x)
	if err != nil {
		h.t.Fatal(err)
	}
	s := h.now()
	if difference := s.differs(got); difference != "" {
		h.t.Fatalf("%s: %s", s.name, difference)
	}
	for i := range h.states {
		for id, d := range h.states[i].docs {
			if known, found := got.docs[id]; found && d.Added.IsZero() {
				d.Added = known.Added
				h.states[i].docs[id] = d
			}
		}
	}
	s.plan = got.plan
}

func (h *crashHistory) open() {
	h.t.Helper()
	h.opts = index.Options{FS: h.fsys, Now: func() time.Time { return time.Unix(h.second, 0) }, CacheBytes: 1 << 18, FilterBytes: []int64{-1, 64, 1 << 12}[h.r.IntN(3)], KeepDuplicates: h.r.IntN(4) == 0}
	if h.r.IntN(3) == 0 {
		h.opts.Durability = index.NoSync
	}
	x, err := index.Open("ix", &h.opts)
	if err != nil {
		h.t.Fatal(err)
	}
	h.x = x
}

func (h *crashHistory) close() {
	h.t.Helper()
	x := h.x
	h.x = nil
	if err := x.Close(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *crashHistory) draw(most int) []index.Document {
	docs := draw(h.r, 1+h.r.IntN(most))
	for i := range docs {
		if docs[i].Key != "" {
			docs[i].Key = keyName(h.r.IntN(20)) // so that they come again
		}
	}
	return docs
}

// operations are what happens to an open index.
func (h *crashHistory) operations() []func() {
	ctx := context.Background()
	return []func(){
		func() {
			h.step("Add", func(s *state) []state {
				s.live = true
				addAll(h.t, h.x, s, h.draw(6))
				return []state{*s}
			})
		},
		func() {
			h.step("CheckAndAdd", func(s *state) []state {
				d := h.draw(1)[0]
				want := h.verdict(s, d)
				got, err := h.x.CheckAndAdd(ctx, d)
				h.checkVerdict(got, want, err)
				return []state{*s}
			})
		},
		func() {
			h.step("CheckAndAddBatch", func(s *state) (through []state) {
				docs := h.draw(6)
				var want []index.Verdict
				seen := make(map[string]bool)
				for _, d := range docs { // a key that comes again begins a new commit
					if d.Key != "" && seen[d.Key] {
						through, seen = append(through, s.clone()), make(map[string]bool)
					}
					seen[d.Key] = true
					want = append(want, h.verdict(s, d))
				}
				got, err := h.x.CheckAndAddBatch(ctx, docs)
				for i := range got {
					h.checkVerdict(got[i], want[i], err)
				}
				return append(through, *s)
			})
		},
		func() {
			h.step("Delete", func(s *state) []state {
				keys := []string{keyName(h.r.IntN(20)), keyName(h.r.IntN(20)), keyName(h.r.IntN(20))}
				for _, key := range keys {
					n := len(s.docs)
					s.remove(key)
					s.live = s.live || len(s.docs) < n
				}
				if _, err := h.x.Delete(ctx, keys...); err != nil {
					h.t.Fatal(err)
				}
				return []state{*s}
			})
		},
		h.expire,
		func() {
			h.step("Sync", func(s *state) []state {
				if err := h.x.Sync(ctx); err != nil {
					h.t.Fatal(err)
				}
				return nil
			})
			h.states = h.states[len(h.states)-1:]
		},
		h.checkpoint,
	}
}

// expire removes what came before some document, first what has a record.
func (h *crashHistory) expire() {
	var times []time.Time
	for _, d := range h.now().docs {
		times = append(times, d.Added)
	}
	if len(times) == 0 {
		return
	}
	slices.SortFunc(times, time.Time.Compare)
	before := times[h.r.IntN(1+len(times)/2)]
	h.step("DeleteBefore", func(s *state) []state {
		recorded := s.clone()
		for id, d := range s.docs {
			if !d.Added.Before(before) {
				continue
			}
			s.live = true
			delete(s.docs, id)
			if d.Key != "" || d.Scope != "" || d.Shingle != 0 || d.Tokens != 0 {
				delete(recorded.docs, id)
				recorded.live = true
			}
		}
		n, err := h.x.DeleteBefore(context.Background(), before)
		if err != nil || n != len(h.now().docs)-len(s.docs) {
			h.t.Fatalf("expired %d of %d: %v", n, len(h.now().docs)-len(s.docs), err)
		}
		return []state{recorded, *s}
	})
}

// checkpoint makes one; what a crash leaves of it is whole or no index.
func (h *crashHistory) checkpoint() {
	h.copied++ // a crash may bring back one that was removed
	dir := fmt.Sprint("copy", h.copied)
	h.copies = map[string][]state{dir: {h.now().clone()}}
	h.step("Checkpoint", func(s *state) []state {
		if err := h.x.Checkpoint(context.Background(), dir); err != nil {
			h.t.Fatal(err)
		}
		return nil
	})
	h.states = h.states[len(h.states)-1:] // all of it is durable by then
	if x, err := index.Open(dir, &index.Options{FS: h.disk.CrashClone(vfs.CrashCloneCfg{}), MustExist: true}); err != nil {
		h.t.Fatalf("checkpoint: %v", err)
	} else if err := x.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.copies = nil
	if err := h.disk.RemoveAll(dir); err != nil {
		h.t.Fatal(err)
	}
}

// between are what happens to a closed index.
func (h *crashHistory) between() []func(s *state) []state {
	return []func(s *state) []state{
		func(s *state) []state { return nil },
		func(s *state) []state { return nil },
		func(s *state) []state { // hours go by
			h.second += 1 + h.r.Int64N(1<<20)
			if h.r.IntN(4) == 0 { // or the clock is put right
				h.second -= 1 << 20
			}
			return nil
		},
		func(s *state) []state {
			if err := run(compaction.Options{CacheBytes: 1 << 18})(h.fsys); err != nil {
				h.t.Fatal(err)
			}
			return []state{s.packed("Run")}
		},
		func(s *state) []state {
			docs := h.draw(12)
			if err := loading(docs, compaction.LoadOptions{Index: index.Options{CacheBytes: 1 << 18, Now: h.opts.Now}})(h.fsys); err != nil {
				h.t.Fatal(err)
			}
			loaded := s.loaded(docs)
			if s.next == 1 {
				loaded.plan = "" // chosen for what came
			}
			return []state{loaded}
		},
	}
}

// matches is the default rule, for documents of one scope within k bits.
func matches(a, b *index.Document) bool {
	apart := bits.OnesCount64(uint64(a.Fingerprint^b.Fingerprint)) + bits.OnesCount64(uint64(a.Shingle^b.Shingle))
	shorter, longer := min(a.Tokens, b.Tokens), max(a.Tokens, b.Tokens)
	return (a.Shingle == 0 || b.Shingle == 0 || apart <= 16) && (shorter == 0 || 10*longer <= 13*shorter)
}

// verdict is CheckAndAdd on a state.
func (h *crashHistory) verdict(s *state, d index.Document) index.Verdict {
	n := len(s.docs)
	s.remove(d.Key)
	known := len(s.docs) < n
	s.live = s.live || known
	v := index.Verdict{Document: d}
	for _, m := range s.near(d.Fingerprint, d.Scope, 3) {
		if matches(&d, &m.Document) {
			v.Status, v.Of = index.Duplicate, m
			break
		}
	}
	if v.Status != index.Duplicate && known {
		v.Status = index.Known
	}
	if v.Status != index.Duplicate || h.opts.KeepDuplicates {
		v.Document.ID, s.live = s.next, true
		s.add(d)
	}
	return v
}

func (h *crashHistory) checkVerdict(got, want index.Verdict, err error) {
	h.t.Helper()
	got.Document.Added, got.Of.Added, want.Of.Added = time.Time{}, time.Time{}, time.Time{}
	if err != nil || got != want {
		h.t.Fatalf("%v: verdict %+v, not %+v", err, got, want)
	}
}

// session opens the index, does some things, and closes it.
func (h *crashHistory) session() {
	h.step("Open", func(*state) []state {
		h.open()
		return nil
	})
	operations := h.operations()
	for range 1 + h.r.IntN(12) {
		operations[h.r.IntN(len(operations))]()
	}
	if h.r.IntN(5) == 0 { // the machine stops, and it is gone on from there
		h.crash()
		return
	}
	h.step("Close", func(*state) []state {
		h.close()
		return nil
	})
}

// crash goes on with what is left of the disk.
func (h *crashHistory) crash() {
	left := h.disk.CrashClone(vfs.CrashCloneCfg{})
	found, err := h.which(left.CrashClone(vfs.CrashCloneCfg{}), h.states, h.r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.close()
	h.states = []state{*found}
	h.disk = left
	h.fsys = errorfs.Wrap(left, h)
}

// The machine stops at random moments of random histories: after every operation and in
// the middle of them, with none, some or all of what was not synced left. What is there
// then is one of the states since the last that was durable, whole: every document that
// was acknowledged, nothing by half, and every query answers for just that.
func TestCrashHistories(t *testing.T) {
	seed, want := testseed.Of(t), crashPoints(t)
	const side = 2
	var moments, histories atomic.Int64
	t.Run("side by side", func(t *testing.T) {
		for worker := range uint64(side) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for n := worker; moments.Load() < want; n += side {
					h := &crashHistory{t: t, r: rand.New(rand.NewPCG(seed, n)), moments: rand.New(rand.NewPCG(seed, ^n)), disk: vfs.NewCrashableMem(), second: time.Now().Unix()}
					h.fsys = errorfs.Wrap(h.disk, h)
					h.run(want - moments.Load())
					moments.Add(h.one)
					histories.Add(1)
				}
			})
		}
	})
	t.Logf("NEARDUP_SEED=%d: %d crash points in %d histories", seed, moments.Load(), histories.Load())
	if moments.Load() < want && !t.Failed() {
		t.Errorf("%d crash points, not %d", moments.Load(), want)
	}
}

// run is one history, from no index on.
func (h *crashHistory) run(most int64) {
	h.states = []state{{name: "no index", none: true}}
	h.step("make", func(*state) []state {
		h.open()
		return []state{{docs: make(map[uint64]index.Document), next: 1}}
	})
	h.step("Close", func(*state) []state {
		h.close()
		return nil
	})
	for range 1 + h.r.IntN(8) {
		if h.one >= most {
			return
		}
		h.session()
		if h.x == nil {
			between := h.between()
			h.step("between", between[h.r.IntN(len(between))])
		}
	}
}
