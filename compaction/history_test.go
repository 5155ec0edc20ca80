package compaction_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"github.com/neardup/neardup/internal/testing/testhook"
	"github.com/neardup/neardup/store"
)

// The tests of this package are histories: steps that run on an index and on a model, which returns
// the expected answers. An injector in the file system lets operations fail (fault_test.go) or
// stops the machine (crash_test.go).

// step is one operation on an index.
type step struct {
	what string

	open   index.Options    // for open and load
	docs   []index.Document // to add, check, load or query
	keep   bool             // for load: LoadOptions.KeepAdded
	keys   []string         // to delete
	ids    []uint64         // to delete
	before time.Time        // for expire
	wait   time.Duration

	k, limit int // for query, at most the k of the index; k also for pairs
	// for query: oneByOne, or QueryBatch by "each", by "scanned", or by its own choice ("")
	method string
	work   compaction.Options // for compact, compact open and load

	meanwhile []step // for compact open: run when the compaction begins to write
}

const oneByOne = "one by one"

// actions has the function of each step. The function changes the state as the step should change
// the index. It returns the states that the index goes through: several if a crash can leave the
// step partly done.
var actions map[string]func(*history, *step, *state) ([]state, error)

func init() { // doCompactOpen uses actions itself
	actions = map[string]func(*history, *step, *state) ([]state, error){
		// For a closed index.
		"open": (*history).doOpen, "compact": (*history).doCompact, "load": (*history).doLoad,
		"wait": func(h *history, s *step, _ *state) ([]state, error) {
			h.now = h.now.Add(s.wait)
			return nil, nil
		},
		// For an open index.
		"add": (*history).doAdd, "check": (*history).doCheck, "delete": (*history).doDelete,
		"delete IDs": (*history).doDeleteIDs, "expire": (*history).doExpire,
		"query": (*history).doQuery, "pairs": (*history).doPairs,
		"compact open": (*history).doCompactOpen, "freeze": (*history).doFreeze,
		"sync": func(h *history, _ *step, _ *state) ([]state, error) {
			return nil, h.x.Sync(context.Background())
		},
		"checkpoint": func(h *history, _ *step, _ *state) ([]state, error) {
			return nil, h.x.Checkpoint(context.Background(), "copy")
		},
		"close": func(h *history, _ *step, _ *state) ([]state, error) {
			x := h.x
			h.x = nil
			return nil, x.Close()
		},
	}
}

// state is everything that callers can see of an index.
type state struct {
	*indextest.Model
	name       string
	none       bool // no index exists
	generation uint64
	packed     content  // when the tables were packed
	frozen     *content // when an epoch was frozen; nil: no epoch is frozen
	plan       string   // "": any
}

// content is the content of an index at an earlier time.
type content struct {
	docs   indextest.Documents
	nextID uint64
}

var (
	noIndex    = state{Model: indextest.NewModel(indextest.Rule{}), name: "no index", none: true}
	emptyIndex = state{Model: indextest.NewModel(indextest.Rule{}), name: "an empty index"}
)

// patience is the time after which a call counts as hanging.
const patience = 5 * time.Minute

func (s state) clone() state {
	s.Model = s.Model.Clone()
	return s
}

// repacked returns the state after all tables were written again.
func (s state) repacked(plan string) state {
	s = s.clone()
	s.generation, s.packed, s.plan, s.frozen = s.generation+1, content{s.Docs, s.NextID}, plan, nil
	return s
}

// freeze returns the state after an epoch was frozen. An epoch that is already frozen stays.
func (s state) freeze() state {
	s = s.clone()
	if s.frozen == nil {
		s.frozen = &content{s.Docs, s.NextID}
	}
	return s
}

// repackedFrozen returns the state after only the frozen epoch was packed.
func (s state) repackedFrozen() state {
	was := *s.freeze().frozen
	s = s.repacked(s.plan)
	s.packed = was
	return s
}

// live reports whether a document was added or removed since the tables were packed. An added
// document counts even if it was removed later.
func (s *state) live() bool {
	return s.NextID > max(s.packed.nextID, 1) || len(s.packed.docs) != len(s.Docs)
}

// differs describes the difference of two states. It returns "" if they are equal.
func (s *state) differs(got *state) string {
	if diff := indextest.Difference(got.Docs, s.Docs); diff != "" {
		return "documents: " + diff
	}
	if s.NextID != got.NextID || s.generation != got.generation || s.plan != "" &&
		s.plan != got.plan {
		return fmt.Sprintf("next ID %d, generation %d, plan %q, want %d, %d, %q", got.NextID,
			got.generation, got.plan, s.NextID, s.generation, s.plan)
	}
	return ""
}

// history is an index and its possible states.
type history struct {
	fs      vfs.FS
	files   vfs.FS       // fs without faults
	x       *index.Index // nil while it is closed
	opts    index.Options
	now     time.Time
	states  []state         // states that a crash may leave; the last is the current one
	r       *rand.Rand      // for queries
	ctx     context.Context // of compactions and loads
	removed int             // documents that the last removal reported

	hook func() // called when a compaction of the open index creates a file
}

// epoch is the time at which histories begin.
var epoch = time.Unix(1_800_000_000, 0).UTC()

func newHistory(fs vfs.FS) *history {
	return &history{fs: fs, files: fs, now: epoch, states: []state{noIndex},
		r: rand.New(rand.NewPCG(1, 2)), ctx: context.Background()}
}

func (h *history) newest() *state { return &h.states[len(h.states)-1] }

// errWrong reports a wrong answer.
var errWrong = errors.New("wrong")

// do runs a step. It returns the states that the index goes through, or none if it does not
// change. It returns the error of the call, or errWrong.
func (h *history) do(s *step) (through []state, err error) {
	next := h.newest().clone()
	next.Now = h.now
	if h.x != nil {
		next.Rule = indextest.RuleOf(h.opts, h.x.Plan().MaxDistance)
	}
	through, err = actions[s.what](h, s, &next)
	for i := range through {
		through[i].name = s.what
	}
	return through, err
}

// must runs steps that must succeed, and checks the index after each.
func (h *history) must(t failer, steps ...step) {
	t.Helper()
	for i := range steps {
		through, err := h.do(&steps[i])
		if len(through) > 0 {
			h.states = through[len(through)-1:]
		}
		if err == nil {
			err = h.compare()
		}
		if err != nil {
			t.Fatalf("step %d of %d, %s: %v", i, len(steps), steps[i].what, err)
		}
	}
}

// opened returns the steps of a session.
func opened(opts index.Options, steps ...step) []step {
	return slices.Concat([]step{{what: "open", open: opts}}, steps, []step{{what: "close"}})
}

// compare compares an open index with the newest state, and records the plan there.
func (h *history) compare() error {
	if h.x == nil {
		return nil
	}
	_, err := whichOf(h.x, h.opts, h.states[len(h.states)-1:], h.r)
	return err
}

// failer is the common part of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// wrongly returns err, or errWrong if err is nil and got differs from want.
func wrongly[T comparable](err error, got, want T) error {
	if err == nil && got != want {
		return fmt.Errorf("%w: %+v, want %+v", errWrong, got, want)
	}
	return err
}

func (h *history) doOpen(s *step, next *state) (through []state, err error) {
	if next.none {
		next.none = false
		through = []state{*next}
	}
	h.opts = s.open
	h.opts.FS, h.opts.Now = errorfs.Wrap(h.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasPrefix(op.Path, "ix/incoming/") &&
			h.hook != nil {
			h.hook()
		}
		return nil
	})), func() time.Time { return h.now }
	x, err := index.Open("ix", &h.opts)
	if err == nil {
		h.x = x
	}
	return through, err
}

func (h *history) doAdd(s *step, next *state) ([]state, error) {
	want, got := slices.Clone(s.docs), slices.Clone(s.docs)
	next.Add(want...)
	err := h.x.Add(context.Background(), got...)
	return []state{*next}, wrongly(err, indextest.Difference(got, want), "")
}

func (h *history) doCheck(s *step, next *state) (through []state, err error) {
	var want, got []index.Verdict
	seen := make(map[string]bool)
	for _, d := range s.docs {
		if d.Key != "" && seen[d.Key] { // a repeated key begins a new commit
			through = append(through, next.clone())
			clear(seen)
		}
		seen[d.Key] = true
		want = append(want, next.CheckAndAdd(d))
	}
	if len(s.docs) == 1 {
		got = make([]index.Verdict, 1)
		got[0], err = h.x.CheckAndAdd(context.Background(), s.docs[0])
	} else {
		got, err = h.x.CheckAndAddBatch(context.Background(), s.docs)
	}
	return append(through, *next), wrongly(err, indextest.Difference(got, want), "")
}

func (h *history) doDelete(s *step, next *state) ([]state, error) {
	want := next.Delete(s.keys...)
	n, err := h.x.Delete(context.Background(), s.keys...)
	h.removed = n
	return []state{*next}, wrongly(err, n, want)
}

func (h *history) doDeleteIDs(s *step, next *state) ([]state, error) {
	want := next.removeIDs(s.ids)
	n, err := h.x.DeleteIDs(context.Background(), s.ids...)
	h.removed = n
	return []state{*next}, wrongly(err, n, want)
}

func (s *state) removeIDs(ids []uint64) (removed int) {
	n := len(s.Docs)
	s.Docs = s.Docs.Without(func(d *index.Document) bool { return slices.Contains(ids, d.ID) })
	return n - len(s.Docs)
}

func (h *history) doExpire(s *step, next *state) (through []state, err error) {
	var ids []uint64
	for i := range next.Docs {
		if d := &next.Docs[i]; !indextest.Bare(d) && d.Added.Before(s.before) {
			ids = append(ids, d.ID)
		}
	}
	for some := range slices.Chunk(ids, 256) { // 256 documents per commit
		next.removeIDs(some)
		through = append(through, next.clone())
	}
	n, err := h.x.DeleteBefore(context.Background(), s.before)
	h.removed = n
	return append(through, *next), wrongly(err, n, len(ids))
}

func (h *history) doQuery(s *step, next *state) ([]state, error) {
	k := min(s.k, next.Rule.MaxDistance)
	if s.method == oneByOne {
		for _, like := range s.docs {
			if err := next.Query(h.x, like, k, s.limit); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	ctx, n := context.Background(), 0
	if s.method != "" {
		ctx = testhook.WithScannedBatches(ctx, s.method == "scanned")
	}
	var queries []index.Query
	for i := range s.docs { // every second query has a smaller k and another limit
		queries = append(queries, indextest.QueryOf(&s.docs[i], max(0, k-i%2), s.limit+i%2))
	}
	for a, err := range h.x.QueryBatch(ctx, queries) {
		if err != nil {
			return nil, err
		}
		want := next.Docs.Near(next.Rule.Within(max(0, k-n%2)), &s.docs[n], s.limit+n%2)
		if diff := indextest.Difference(a.Matches, want); diff != "" || a.Query != n {
			return nil, fmt.Errorf("%w: query %d, %+v, method %q: answer to query %d: %s", errWrong,
				n, s.docs[n], s.method, a.Query, diff)
		}
		n++
	}
	return nil, wrongly(nil, n, len(queries))
}

// doPairs compares the number of pairs by fingerprint and scope.
func (h *history) doPairs(s *step, next *state) ([]state, error) {
	rule := indextest.Rule{MaxDistance: s.k, MaxShingleDistance: -1, MaxLengthRatio: -1}
	pairs, want := 0, 0
	for i := range next.Docs {
		want += len(next.Docs[:i].Near(rule, &next.Docs[i], 0))
	}
	opts := index.JoinOptions{MaxDistance: cmp.Or(s.k, index.Exact), MaxShingleDistance: -1,
		MaxLengthRatio: -1}
	for p, err := range h.x.Pairs(context.Background(), opts) {
		if err != nil {
			return nil, err
		}
		if n := p.First.Documents; p.First.ID == p.Second.ID {
			pairs += n * (n - 1) / 2
		} else {
			pairs += n * p.Second.Documents
		}
	}
	return nil, wrongly(nil, pairs, want)
}

func (h *history) doCompact(s *step, next *state) ([]state, error) {
	plan := next.plan
	if s.work.Plan != nil {
		plan = s.work.Plan.String()
	}
	through, works := []state{*next}, next.live() || next.generation == 0 || plan != next.plan
	opts, before := s.work, h.diskBytes()
	opts.FS = h.fs
	report, err := compaction.Run(h.ctx, "ix", opts)
	if works {
		*next = next.repacked(plan)
		through = append(through, *next)
	}
	if err == nil {
		err = errors.Join(wrongly(nil, report.BytesBefore, before), h.reported(&report, next))
	}
	return through, err
}

// reported compares the report of a successful call with the state and the files.
func (h *history) reported(r *compaction.Report, s *state) error {
	if r.Documents != uint64(len(s.Docs)) || s.plan != "" && r.Plan != s.plan ||
		r.BytesBefore == 0 || r.BytesAfter != h.diskBytes() || r.Seconds <= 0 {
		return fmt.Errorf("%w: report %+v, want %d documents, plan %s, %d bytes", errWrong, r,
			len(s.Docs), s.plan, h.diskBytes())
	}
	return nil
}

// diskBytes returns the total size of the files of an index.
func (h *history) diskBytes() (bytes uint64) {
	names, _ := h.files.List("ix")
	for _, name := range names {
		if info, err := h.files.Stat(h.files.PathJoin("ix", name)); err == nil {
			bytes += uint64(info.Size())
		}
	}
	return bytes
}

func (h *history) doCompactOpen(s *step, next *state) (through []state, err error) {
	before, found := h.states, next.frozen != nil
	defer func() { through, h.states = h.states[len(before):], before }()
	h.states = slices.Clip(before)
	reach := func(s state) { h.states = append(h.states, s) }
	var others error
	h.hook = sync.OnceFunc(func() { // the epoch is frozen when the compaction begins to write
		reach(next.freeze())
		for i := range s.meanwhile {
			steps, err := h.do(&s.meanwhile[i])
			h.states, others = append(h.states, steps...), errors.Join(others, err)
		}
	})
	report, err := compaction.Compact(h.ctx, h.x, s.work)
	if found || next.live() || next.generation == 0 {
		h.hook()
		reach(h.newest().repackedFrozen())
		// The live entries are packed next. An error does not tell how far the compaction got.
		if found && (err != nil || h.newest().live()) {
			reach(h.newest().freeze())
			reach(h.newest().repackedFrozen())
		}
	}
	h.hook = nil
	err = errors.Join(err, others)
	return nil, wrongly(err, [3]any{report.Documents, report.Plan, h.x.Stats().Generation},
		[3]any{uint64(len(h.newest().Docs)), h.x.Plan().String(), h.newest().generation})
}

// errCut ends a compaction before it packs entries.
var errCut = errors.New("cut short")

// doFreeze interrupts a compaction, so that an epoch stays frozen.
func (h *history) doFreeze(_ *step, next *state) (through []state, err error) {
	if next.live() || next.generation == 0 {
		through = []state{next.freeze()}
	}
	err = rewrite.Repack(context.Background(), h.x, func(context.Context,
		rewrite.Frozen) (rewrite.Packed, error) {
		return rewrite.Packed{}, errCut
	})
	if errors.Is(err, errCut) {
		err = nil
	}
	return through, err
}

func (h *history) doLoad(s *step, next *state) ([]state, error) {
	plan := next.plan
	if next.NextID == 1 {
		plan = "" // Load chooses it
	}
	next.none = false
	replaced := next.load(s.keep, s.docs...)
	if len(s.docs) > 0 {
		*next = next.repacked(plan)
	}
	opts := s.open
	opts.FS, opts.Now = h.fs, func() time.Time { return h.now }
	report, err := compaction.Load(h.ctx, "ix", testgen.Sequence(s.docs),
		compaction.LoadOptions{Index: opts, KeepAdded: s.keep, MemoryBytes: s.work.MemoryBytes,
			Progress: s.work.Progress})
	err = wrongly(err, [2]uint64{report.Loaded, report.Replaced},
		[2]uint64{uint64(len(s.docs)), uint64(replaced)})
	if err == nil {
		err = h.reported(&report, next)
	}
	return []state{*next}, err
}

// load does what compaction.Load should do: it stores the documents in order, under new IDs. It
// returns the number of documents that a later document with the same key replaced.
func (s *state) load(keepAdded bool, docs ...index.Document) (replaced int) {
	n, last := len(s.Docs)+len(docs), indextest.LastOfKeys(docs)
	s.Docs = slices.Clip(s.Docs.Without(func(d *index.Document) bool {
		_, replaced := last[d.Key]
		return d.Key != "" && replaced
	}))
	for i, d := range docs {
		d.ID = s.NextID
		if !keepAdded || d.Added.IsZero() {
			d.Added = s.Now
		}
		if d.Key == "" && d.Scope == "" && d.Signature() == (fingerprint.Signature{
			Fingerprint: d.Fingerprint}) {
			d.Added = time.Time{} // it is stored without a record
		}
		s.NextID++
		if d.Key == "" || last[d.Key] == i {
			s.Docs = append(s.Docs, d)
		}
	}
	return n - len(s.Docs)
}

// seen returns the state of an open index and verifies the index.
func seen(x *index.Index) (*state, error) {
	if err := indextest.Problems(x); err != nil {
		return nil, err
	}
	docs, err := indextest.AllDocuments(x)
	if err != nil {
		return nil, err
	}
	stats := x.Stats()
	m := indextest.NewModel(indextest.RuleOf(index.Options{}, x.Plan().MaxDistance))
	m.Docs, m.NextID = docs, stats.NextID
	if stats.Documents != uint64(len(docs)) || stats.Bare != m.Bare() {
		return nil, fmt.Errorf("%d documents by Stats, %d of them bare, want %d, %d",
			stats.Documents, stats.Bare, len(docs), m.Bare())
	}
	return &state{Model: m, generation: stats.Generation, plan: stats.Plan}, nil
}

// which opens the index in a file system, determines its state, and checks some answers. Opening
// must delete leftover files.
func which(fsys vfs.FS, states []state, r *rand.Rand) (found *state, err error) {
	opts := index.Options{FS: fsys, MustExist: true, CacheBytes: 1 << 18,
		FilterBytes: pick[int64](r, -1, 1<<10), ReadOnly: r.IntN(8) == 0}
	x, err := index.Open("ix", &opts)
	if errors.Is(err, fs.ErrNotExist) && states[0].none {
		return &states[0], nil
	}
	if err != nil {
		return nil, err
	}
	found, err = whichOf(x, opts, states, r)
	if err = errors.Join(err, x.Close()); err != nil {
		return found, err
	}
	if opts.ReadOnly { // a read-only index does not remove leftover files
		again, err := which(fsys, states, r)
		if err == nil && again.name != found.name {
			err = fmt.Errorf("the state is %s if opened read-only, but %s if opened for writing",
				found.name, again.name)
		}
		return again, err
	}
	if _, err := fsys.Stat("ix/incoming"); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("directory incoming still exists: %v", err)
	}
	checked := *found // an equal state may have a frozen epoch
	return &checked, checkEpochs(fsys, &checked)
}

// whichOf determines the state of an open index. It queries some documents and a quarter of all
// keys.
func whichOf(
	x *index.Index, opts index.Options, states []state, r *rand.Rand,
) (found *state, err error) {
	got, err := seen(x)
	if err != nil {
		return nil, err
	}
	var differences strings.Builder
	for i := range states {
		if states[i].none {
			continue
		}
		diff := states[i].differs(got)
		if diff == "" {
			found = &states[i]
			break
		}
		fmt.Fprintf(&differences, "\n  from %s: %s", states[i].name, diff)
	}
	if found == nil {
		return nil, fmt.Errorf("the index has none of the possible states:%s", &differences)
	}
	found.plan, got.Rule = got.plan, indextest.RuleOf(opts, x.Plan().MaxDistance)
	for range min(len(got.Docs), 8) {
		like := got.Docs[r.IntN(len(got.Docs))]
		for range r.IntN(4) {
			like.Fingerprint ^= 1 << r.IntN(64)
		}
		if err := got.Query(x, like, got.Rule.MaxDistance, 0); err != nil {
			return nil, err
		}
	}
	for i := r.IntN(4); i < keyNames; i += 4 {
		want, stored := got.Docs.Key(keyName(i))
		if d, known, err := x.Get(context.Background(), keyName(i)); err != nil ||
			known != stored || d != want {
			return nil, fmt.Errorf("key %q: %+v, %t, %v; want %+v, %t", keyName(i), d, known, err,
				want, stored)
		}
	}
	return found, nil
}

// checkEpochs records in want whether an epoch is frozen. The store must have live entries or
// removed IDs if, and only if, want.live() is true.
func checkEpochs(fsys vfs.FS, want *state) (err error) {
	s, err := store.Open("ix", store.Options{FS: fsys})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	v, err := s.View()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	if v.Epochs() < 2 {
		want.frozen = nil
	} else if want.frozen == nil {
		want.frozen = &content{want.Docs, want.NextID}
	}
	if any, err := v.HasLive(); err != nil || any != want.live() {
		return fmt.Errorf("live entries or removed IDs: %t, want %t, %v", any, want.live(), err)
	}
	return nil
}

// TestMain lowers the frequency of garbage collections, since the tests open many small indexes. A
// panic prints all goroutines, since calls may hang.
func TestMain(m *testing.M) {
	debug.SetTraceback("all")
	if !testenv.Long() {
		debug.SetGCPercent(400)
	}
	m.Run()
}
