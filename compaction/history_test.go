package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testhook"
	"github.com/neardup/neardup/store"
)

// The tests of this package are histories. An index takes steps, and a model takes the same steps
// and gives the expected answers. An injector in the file system lets operations fail
// (fault_test.go) or stops the machine (crash_test.go).

// step is one operation on an index.
type step struct {
	what string

	open   index.Options    // for open
	docs   []index.Document // to add, check, load or query
	keep   bool             // for load: LoadOptions.KeepAdded
	keys   []string         // to delete
	ids    []uint64         // to delete
	before time.Time        // for expire
	wait   time.Duration
	dir    string // for checkpoint

	k, limit int // for query, at most the k of the index; k also for pairs
	// of query: oneByOne, by Query; each or sorted, by QueryBatch in that way; "", as it likes
	method string
	work   compaction.Options

	meanwhile []step // for compact open, when its at-th file is created
	at        int
}

const oneByOne = "one by one"

// actions has the function of each step. It changes the state as the index should change, and
// returns the states that the index goes through. There are several if a crash may leave the step
// partly done.
var actions = map[string]func(*history, *step, *state) ([]state, error){
	// For a closed index.
	"open": (*history).doOpen, "compact": (*history).doCompact, "load": (*history).doLoad,
	"wait": func(h *history, s *step, _ *state) ([]state, error) {
		h.now = h.now.Add(s.wait)
		return nil, nil
	},
	// For an open index.
	"add": (*history).doAdd, "check": (*history).doCheck, "delete": (*history).doDelete,
	"delete IDs": (*history).doDeleteIDs,
	"expire":     (*history).doExpire, "query": (*history).doQuery, "pairs": (*history).doPairs,
	"close":  (*history).doClose,
	"freeze": (*history).doFreeze,
	"sync": func(h *history, _ *step, _ *state) ([]state, error) {
		return nil, h.x.Sync(context.Background())
	},
	"checkpoint": func(h *history, s *step, _ *state) ([]state, error) {
		return nil, h.x.Checkpoint(context.Background(), s.dir)
	},
}

func init() { // doCompactOpen uses actions itself
	actions["compact open"] = (*history).doCompactOpen
}

// state is everything that callers can see of an index.
type state struct {
	*indextest.Model
	name       string
	none       bool // there is no index
	generation uint64
	packed     indextest.Documents // when the tables were packed
	packedNext uint64              // next ID at that time
	frozen     bool                // an epoch is frozen
	frozenDocs indextest.Documents // when it was frozen
	frozenNext uint64              // next ID at that time
	plan       string              // "": any
}

var noIndex = state{Model: indextest.NewModel(indextest.Rule{}), name: "no index", none: true}

// patience is the time after which a call counts as hanging.
const patience = 5 * time.Minute

func (s state) clone() state {
	s.Model = s.Model.Clone()
	return s
}

// repacked returns the state after all tables were written again.
func (s state) repacked(plan string) state {
	s = s.clone()
	s.generation, s.packed, s.packedNext, s.plan, s.frozen = s.generation+1, s.Docs,
		s.NextID, plan, false
	return s
}

// live reports whether a document was added or removed since the tables were packed. A document
// that was added counts also after its removal.
func (s *state) live() bool {
	return s.NextID > max(s.packedNext, 1) || len(s.packed) != len(s.Docs)
}

// entries returns the number of different stored fingerprints.
func (s *state) entries() uint64 {
	stored := make(map[uint64]bool)
	for _, d := range s.Docs {
		stored[store.Stored(uint64(d.Fingerprint), d.Scope)] = true
	}
	return uint64(len(stored))
}

// differs describes the difference of two states. It returns "" if they are equal.
func (s *state) differs(got *state) string {
	if diff := indextest.Difference(got.Docs, s.Docs); diff != "" {
		return "documents: " + diff
	}
	if s.NextID != got.NextID || s.generation != got.generation || s.plan != "" &&
		s.plan != got.plan {
		return fmt.Sprintf("next ID %d, generation %d, plan %q, not %d, %d, %q", got.NextID,
			got.generation, got.plan, s.NextID, s.generation, s.plan)
	}
	return ""
}

// history is an index and its possible states.
type history struct {
	fs      vfs.FS
	x       *index.Index // nil while it is closed
	opts    index.Options
	now     time.Time
	states  []state    // states that a crash may leave; the last is the current one
	r       *rand.Rand // for queries
	report  *compaction.Report
	removed int // documents that the last removal reported

	hook func() // called when a compaction or a load creates a file
}

// epoch is the time at which histories begin.
var epoch = time.Unix(1_800_000_000, 0).UTC()

func newHistory(fs vfs.FS) *history {
	return &history{fs: fs, now: epoch, states: []state{noIndex}, r: rand.New(rand.NewPCG(1, 2))}
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
		h.quickly(t, steps[i])
		if err := h.compare(); err != nil {
			t.Fatalf("after step %d of %d, %s: %v", i, len(steps), steps[i].what, err)
		}
	}
}

// quickly runs steps that must succeed, and checks only their answers.
func (h *history) quickly(t failer, steps ...step) {
	t.Helper()
	for i := range steps {
		before := diskBytes(h.fs)
		h.report = nil
		through, err := h.do(&steps[i])
		if r := h.report; err == nil && r != nil && (r.Loaded == 0 && r.BytesBefore != before ||
			r.BytesAfter != diskBytes(h.fs)) {
			err = fmt.Errorf("%w: %+v of %d bytes before, %d after", errWrong, r, before,
				diskBytes(h.fs))
		}
		if err != nil {
			t.Fatalf("step %d of %d, %s: %v", i, len(steps), steps[i].what, err)
		}
		if len(through) > 0 {
			h.states = through[len(through)-1:]
		}
	}
}

// diskBytes returns the total size of the files of an index.
func diskBytes(fsys vfs.FS) (bytes uint64) {
	names, _ := fsys.List("ix")
	for _, name := range names {
		if info, err := fsys.Stat(fsys.PathJoin("ix", name)); err == nil {
			bytes += uint64(info.Size())
		}
	}
	return bytes
}

// session opens the index, runs steps, and closes it.
func (h *history) session(t failer, opts index.Options, steps ...step) {
	t.Helper()
	h.must(t, slices.Concat([]step{{what: "open", open: opts}}, steps, []step{{what: "close"}})...)
}

// compare compares an open index with the newest state, and records the plan there.
func (h *history) compare() error {
	if h.x == nil {
		return nil
	}
	got, err := seen(h.x)
	if err != nil {
		return err
	}
	s := h.newest()
	if diff := s.differs(got); diff != "" {
		return errors.New(diff)
	}
	s.plan, got.Rule = got.plan, indextest.RuleOf(h.opts, h.x.Plan().MaxDistance)
	return checkAnswers(h.x, got.Model, h.r, 4)
}

// failer is the common part of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// wrongly returns errWrong if got differs from want.
func wrongly[T comparable](err error, got, want T) error {
	if err == nil && got != want {
		return fmt.Errorf("%w: %+v, not %+v", errWrong, got, want)
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

func (h *history) doClose(*step, *state) ([]state, error) {
	x := h.x
	h.x = nil
	return nil, x.Close()
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
	return []state{*next}, h.wrongRemoval(err, n, want)
}

// wrongRemoval returns errWrong if another number of documents than wanted was removed.
func (h *history) wrongRemoval(err error, got, want int) error {
	h.removed = got
	return wrongly(err, got, want)
}

func (h *history) doDeleteIDs(s *step, next *state) ([]state, error) {
	n := len(next.Docs)
	next.Docs = next.Docs.Without(func(d *index.Document) bool {
		return slices.Contains(s.ids, d.ID)
	})
	got, err := h.x.DeleteIDs(context.Background(), s.ids...)
	return []state{*next}, h.wrongRemoval(err, got, n-len(next.Docs))
}

func (h *history) doExpire(s *step, next *state) (through []state, err error) {
	var ids []uint64
	for i := range next.Docs {
		if d := &next.Docs[i]; !indextest.Bare(d) && d.Added.Before(s.before) {
			ids = append(ids, d.ID)
		}
	}
	for some := range slices.Chunk(ids, 256) { // of one commit
		next.Docs = next.Docs.Without(func(d *index.Document) bool {
			return slices.Contains(some, d.ID)
		})
		through = append(through, next.clone())
	}
	got, err := h.x.DeleteBefore(context.Background(), s.before)
	return append(through, *next), h.wrongRemoval(err, got, len(ids))
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
	var queries []index.Query
	for i := range s.docs { // every second query has a smaller k and another limit
		queries = append(queries, indextest.QueryOf(&s.docs[i], max(0, k-i%2), s.limit+i%2))
	}
	rule, n := next.Rule, 0
	for a, err := range h.x.QueryBatch(by(context.Background(), s.method), queries) {
		if err != nil {
			return nil, err
		}
		rule.MaxDistance = max(0, k-n%2)
		if diff := indextest.Difference(a.Matches, next.Docs.Near(rule, &s.docs[n],
			s.limit+n%2)); diff != "" || a.Query != n {
			return nil, fmt.Errorf("%w: query %d, %+v, by %q: %d: %s", errWrong, n, s.docs[n],
				s.method, a.Query, diff)
		}
		n++
	}
	return nil, wrongly(nil, n, len(queries))
}

// by returns a context that selects the method of QueryBatch.
func by(ctx context.Context, method string) context.Context {
	if method == "" {
		return ctx
	}
	return testhook.WithScannedBatches(ctx, method == "scanned")
}

// doPairs compares pairs and clusters by fingerprint and scope only.
func (h *history) doPairs(s *step, next *state) ([]state, error) {
	opts := index.JoinOptions{MaxDistance: s.k, MaxShingleDistance: -1, MaxLengthRatio: -1}
	if s.k == 0 {
		opts.MaxDistance = index.Exact
	}
	rule := indextest.Rule{MaxDistance: s.k, MaxShingleDistance: -1, MaxLengthRatio: -1}
	pairs, wantPairs := 0, 0
	var clustered, near []uint64
	for i := range next.Docs {
		n := len(next.Docs.Near(rule, &next.Docs[i], 0)) - 1
		if wantPairs += n; n > 0 {
			near = append(near, next.Docs[i].ID)
		}
	}
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
	for c, err := range h.x.Clusters(context.Background(), opts) {
		if err != nil {
			return nil, err
		}
		for i := range c.Members {
			for d, err := range c.Members[i].All() {
				if err != nil {
					return nil, err
				}
				clustered = append(clustered, d.ID)
			}
		}
	}
	slices.Sort(clustered)
	if diff := indextest.Difference(clustered, near); diff != "" {
		return nil, fmt.Errorf("%w: documents in clusters: %s", errWrong, diff)
	}
	return nil, wrongly(nil, pairs, wantPairs/2)
}

func (h *history) doCompact(s *step, next *state) ([]state, error) {
	plan := next.plan
	if s.work.Plan != nil {
		plan = s.work.Plan.String()
	}
	works := next.live() || next.generation == 0 || plan != next.plan
	opts := s.work
	opts.FS = h.fs
	report, err := compaction.Run(context.Background(), "ix", opts)
	through := []state{*next}
	if works {
		*next = next.repacked(plan)
		through = append(through, *next)
	}
	if err == nil {
		h.report = &report
		err = errors.Join(err, next.reported(&report))
	}
	return through, err
}

// packedAgain returns s and the states that follow if its live entries are frozen and packed,
// rounds times.
func (s state) packedAgain(rounds int) (through []state) {
	through = []state{s}
	for range rounds {
		through = append(through, s.freeze(), s.repackedFrozen())
		s = through[len(through)-1]
	}
	return through
}

func (h *history) doCompactOpen(s *step, next *state) (through []state, err error) {
	before, found := h.states, next.frozen
	defer func() { through, h.states = h.states[len(before):], before }()
	h.states = slices.Clip(before)
	works := found || next.live() || next.generation == 0
	reach := func(s state) {
		s.name = "compact open"
		h.states = append(h.states, s)
	}
	end := h.whileWorking(s, func() { reach(next.freeze()) })
	report, err := compaction.Compact(context.Background(), h.x, s.work)
	if !works {
		h.hook = nil
	} else {
		err = errors.Join(err, end())
		rounds := 1
		if now := h.newest(); found { // the frozen entries first, then the live ones
			// the error does not tell how far the compaction got
			if after := now.repackedFrozen(); err != nil || after.live() {
				rounds = 2
			}
		}
		for _, of := range h.newest().packedAgain(rounds)[1:] {
			reach(of)
		}
	}
	if err == nil {
		err = wrongly(nil, [3]any{report.Documents, report.Plan, h.x.Stats().Generation},
			[3]any{uint64(len(h.newest().Docs)), h.x.Plan().String(), h.newest().generation})
	}
	return nil, err
}

// whileWorking runs the concurrent steps of s when the compaction creates its at-th file. It
// calls begin at the first file, or at the end. The function end returns the error of the steps.
func (h *history) whileWorking(s *step, begin func()) (end func() error) {
	files, went := 0, error(nil)
	begun, done := false, false
	h.hook = func() {
		if done {
			return
		}
		if !begun {
			begun = true
			begin()
		}
		if files++; files <= s.at {
			return
		}
		done = true
		for i := range s.meanwhile {
			steps, err := h.do(&s.meanwhile[i])
			h.states = append(h.states, steps...)
			if went = errors.Join(went, err); err != nil {
				return
			}
		}
	}
	return func() error {
		if h.hook = nil; !begun {
			begin()
		}
		return went
	}
}

// freeze returns the state after an epoch was frozen. An epoch that is already frozen stays.
func (s state) freeze() state {
	s = s.clone()
	if !s.frozen {
		s.frozen, s.frozenDocs, s.frozenNext = true, s.Docs, s.NextID
	}
	return s
}

// repackedFrozen returns the state after only the frozen epoch was packed.
func (s state) repackedFrozen() state {
	s = s.freeze().repacked(s.plan)
	s.packed, s.packedNext = s.frozenDocs, s.frozenNext
	return s
}

// errCut ends a compaction before it packs anything.
var errCut = errors.New("cut short")

// doFreeze leaves an epoch frozen.
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
	report, err := compaction.Load(context.Background(), "ix", seqOf(s.docs, nil),
		compaction.LoadOptions{Index: opts, KeepAdded: s.keep, MemoryBytes: s.work.MemoryBytes,
			Progress: s.work.Progress})
	err = wrongly(err, [2]uint64{report.Loaded, report.Replaced},
		[2]uint64{uint64(len(s.docs)), uint64(replaced)})
	if err == nil {
		h.report = &report
		err = next.reported(&report)
	}
	return []state{*next}, err
}

// load is compaction.Load: it stores the documents in order, each under a new ID. It returns how
// many of them a later document with the same key replaced.
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
		if bareWhenLoaded(&d) {
			d.Added = time.Time{}
		}
		s.NextID++
		if d.Key == "" || last[d.Key] == i {
			s.Docs = append(s.Docs, d)
		}
	}
	return n - len(s.Docs)
}

// bareWhenLoaded reports whether a bulk load stores a document without a record.
func bareWhenLoaded(d *index.Document) bool {
	return d.Key == "" && d.Scope == "" && d.Shingles.IsZero() && d.Digest == 0 && d.Tokens == 0
}

// reported compares a report with a state.
func (s *state) reported(r *compaction.Report) error {
	if r.Documents != uint64(len(s.Docs)) || s.plan != "" && r.Plan != s.plan ||
		r.BytesBefore == 0 || r.BytesAfter == 0 || r.Seconds <= 0 {
		return fmt.Errorf("%w: %+v of %d documents and plan %s", errWrong, r, len(s.Docs), s.plan)
	}
	return nil
}

func seqOf(docs []index.Document, last error) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
		if last != nil {
			yield(index.Document{}, last)
		}
	}
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
		return nil, fmt.Errorf("%d documents by the counters, %d of them bare, not %d, %d",
			stats.Documents, stats.Bare, len(docs), m.Bare())
	}
	return &state{Model: m, generation: stats.Generation, plan: stats.Plan}, nil
}

// which opens the index in a file system, determines its state, and checks some answers. If
// deeply is set, it also checks that no other file is left, and reads the epochs.
func which(
	fsys vfs.FS, states []state, r *rand.Rand, opts index.Options, deeply bool,
) (found *state, err error) {
	opts.FS, opts.MustExist = fsys, true
	x, err := index.Open("ix", &opts)
	if errors.Is(err, fs.ErrNotExist) && states[0].none {
		return &states[0], nil
	}
	if err != nil {
		return nil, err
	}
	found, err = whichOf(x, states, r)
	if err = errors.Join(err, x.Close()); err != nil || !deeply {
		return found, err
	}
	if opts.ReadOnly { // a read-only index does not remove leftover files
		opts.ReadOnly = false
		again, err := which(fsys, states, r, opts, deeply)
		if err == nil && again.name != found.name {
			err = fmt.Errorf("opened read-only it has state %s, opened for writing %s",
				found.name, again.name)
		}
		return again, err
	}
	if _, err := fsys.Stat("ix/incoming"); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("directory incoming still exists: %v", err)
	}
	as := *found // an equal state may have a frozen epoch
	return &as, checkEpochs(fsys, &as)
}

// whichOf determines the state of an open index.
func whichOf(x *index.Index, states []state, r *rand.Rand) (*state, error) {
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
			states[i].plan = got.plan
			return &states[i], checkAnswers(x, got.Model, r, 12)
		}
		fmt.Fprintf(&differences, "\n  from %s: %s", states[i].name, diff)
	}
	return nil, fmt.Errorf("an index that differs%s", &differences)
}

// checkAnswers queries some documents and a quarter of all possible keys.
func checkAnswers(x *index.Index, m *indextest.Model, r *rand.Rand, queries int) error {
	for range min(len(m.Docs), queries) {
		like := m.Docs[r.IntN(len(m.Docs))]
		for range r.IntN(4) {
			like.Fingerprint ^= 1 << r.IntN(64)
		}
		if err := m.Query(x, like, m.Rule.MaxDistance, 0); err != nil {
			return err
		}
	}
	for i := r.IntN(4); i < keyNames; i += 4 {
		want, stored := m.Docs.Key(keyName(i))
		if got, found, err := x.Get(context.Background(), keyName(i)); err != nil ||
			found != stored || got != want {
			return fmt.Errorf("key %q: stored %t, found %t, %v: %+v, not %+v", keyName(i), stored,
				found, err, got, want)
		}
	}
	return nil
}

// checkEpochs records whether an epoch is frozen. If the tables were just packed, there must be no
// live entry and no removed ID.
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
	if frozen := v.Epochs() > 1; !frozen || !want.frozen {
		want.frozen, want.frozenDocs, want.frozenNext = frozen, want.Docs, want.NextID
	}
	if any, err := v.HasLive(); err != nil || any != want.live() {
		return fmt.Errorf("live entries or removed IDs: %t, not %t, %v", any, want.live(), err)
	}
	return nil
}

// TestMain lowers the frequency of garbage collections, since the tests open many small indexes.
func TestMain(m *testing.M) {
	if !testenv.Long() {
		debug.SetGCPercent(400)
	}
	m.Run()
}
