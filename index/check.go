package index

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/testing/testhook"
	"github.com/neardup/neardup/store"
)

// Status is what CheckAndAdd found out about a document. The zero Status is no verdict.
type Status int

const (
	New       Status = iota + 1 // nothing like it was stored; it is now
	Duplicate                   // a document that matches is stored
	Known                       // its key was known, and it is a duplicate of no other
)

var statusNames = [...]string{"no verdict", "new", "duplicate", "known"}

// String returns new, duplicate or known.
func (s Status) String() string {
	if s >= 0 && int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "status " + strconv.Itoa(int(s))
}

// Verdict is the outcome of CheckAndAdd.
type Verdict struct {
	Status   Status
	Document Document // as stored; ID and Added are zero if it was not stored
	Of       Match    // for a Duplicate, the nearest document: by distance, then ID; for a Known, its earlier self
	Removed  bool     // the document that had the key was removed for a Duplicate that is not stored
}

// CheckAndAdd stores a document unless another one of its scope is stored that
// matches: within the index's MaxDistance and, where both have a Shingle, with
// Shingles within Options.MaxShingleDistance. A document whose Key is known is a recrawl: it is compared
// with the others only, and the earlier one is replaced (by a new ID, so that expiry
// counts from the last time that a page was seen), or dropped if the page has become
// a duplicate of another. With Options.KeepDuplicates a duplicate is stored all the
// same.
//
// Calls for documents that have nothing to do with each other go in parallel; of
// racing ones that match each other, the one that began first counts as
// the first. The verdict holds when CheckAndAdd returns: with Sync, all that it rests
// on is durable by then. Errors as of Add.
func (x *Index) CheckAndAdd(ctx context.Context, doc Document) (Verdict, error) {
	verdicts, err := x.CheckAndAddBatch(ctx, []Document{doc})
	if err != nil {
		return Verdict{}, err
	}
	return verdicts[0], nil
}

// windowLimit is the number of documents of a batch that are searched at once, and of a commit.
const windowLimit = 256

// CheckAndAddBatch does what CheckAndAdd would do for each document in turn, with
// searches on all cores and many documents a commit. When it fails part of the way,
// the verdicts of the documents before come with the error, and hold. Docs is not changed. As many calls are at work at a time
// as GOMAXPROCS was at Open; others wait in line.
func (x *Index) CheckAndAddBatch(ctx context.Context, docs []Document) ([]Verdict, error) {
	if err := x.beginWrite(ctx); err != nil {
		return nil, err
	}
	defer x.end()
	if err := x.validate(docs); err != nil {
		return nil, err
	}
	verdicts := make([]Verdict, 0, len(docs))
	durable := 0                        // verdicts that are
	wait := func() error { return nil } // makes the newest ones so
	var failed error
	for start := 0; start < len(docs) && failed == nil; {
		w := &checkWindow{index: x, docs: docs[start : start+windowLen(docs[start:])]}
		failed = w.run(ctx)
		if err := wait(); err != nil {
			w.wait()
			return verdicts[:durable], err
		}
		durable = len(verdicts)
		verdicts, wait = append(verdicts, w.verdicts...), w.wait
		start += len(w.docs)
	}
	if err := wait(); err != nil {
		return verdicts[:durable], err
	}
	return verdicts, failed
}

// windowLen returns how many documents go into the next window: it ends before a
// key that it has already.
func windowLen(docs []Document) int {
	seen := make(map[string]bool, min(len(docs), windowLimit))
	for i := range docs[:min(len(docs), windowLimit)] {
		if docs[i].Key != "" && seen[docs[i].Key] {
			return i
		}
		seen[docs[i].Key] = true
	}
	return min(len(docs), windowLimit)
}

// checkWindow is one window on its way to its verdicts.
type checkWindow struct {
	index    *Index
	docs     []Document
	verdicts []Verdict      // of the first documents: all that are come to
	applied  []func() error // what waits for each of the commits that they rest on
}

// run comes to the verdicts and applies what follows from them.
func (w *checkWindow) run(ctx context.Context) error {
	pending := newPendingWrite(w.docs)
	if err := w.index.enter(ctx, pending); err != nil {
		return err
	}
	defer w.index.pending.leave(pending)
	for len(w.verdicts) < len(w.docs) {
		if err := w.attempt(ctx); err != nil && !errors.Is(err, errConflict) {
			return err
		}
	}
	return nil
}

// wait waits until the verdicts, and what they rest on, are durable. It must be called.
func (w *checkWindow) wait() (err error) {
	for _, finish := range w.applied {
		err = cmp.Or(err, finish())
	}
	return err
}

// takeTurn waits until fewer batches are searched for and decided on than there are processors, in the order of
// the calls. More would gain nothing, and a query that waited for anything would then wait for a processor behind all of them.
// release may be called again. A document by itself, which takes microseconds, is no batch.
func (x *Index) takeTurn(ctx context.Context, docs int) (release func(), err error) {
	if docs == 1 {
		return func() {}, nil
	}
	select {
	case x.turns <- struct{}{}:
		return sync.OnceFunc(func() { <-x.turns }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// attempt goes on with the window. While some of its documents are applied, those behind them are searched for.
func (w *checkWindow) attempt(ctx context.Context) (err error) {
	docs := w.docs[len(w.verdicts):]
	release, err := w.index.takeTurn(ctx, len(docs))
	if err != nil {
		return err
	}
	defer release()
	a := &checkAttempt{index: w.index, docs: docs, verdicts: make([]Verdict, len(docs)), hits: make([][]hit, len(docs)),
		origin: slices.Repeat([]int{-1}, len(docs)), removed: make(map[uint64]bool), written: make(map[uint64]bool)}
	a.since = a.index.removals.count.Load()
	readers, err := a.readers(ctx)
	if err != nil {
		return err
	}
	defer closeAll(readers, &err)
	decided, applied := 0, 0
	searching, applying := len(docs), len(docs)
	if len(readers) > 1 {
		searching, applying = a.parts(ctx)
	}
	for searched, failed := range a.search(ctx, readers, searching) {
		for err = failed; err == nil && decided < searched; decided++ {
			err = a.decide(ctx, readers[0], decided)
		}
		if err == nil && (decided == len(docs) || decided-applied >= applying) {
			if decided == len(docs) {
				release() // a commit mostly waits
			}
			var finish func() error
			if finish, err = a.apply(applied, decided); err == nil {
				w.verdicts, w.applied = append(w.verdicts, a.verdicts[applied:decided]...), append(w.applied, finish)
				applied = decided
			}
		}
		if err != nil {
			break
		}
	}
	return err
}

// checkAttempt is the documents of a window that have no verdicts yet, as of one moment.
type checkAttempt struct {
	index    *Index
	docs     []Document
	verdicts []Verdict

	hits                [][]hit                   // of each document, what is stored within the distance
	pending             []int                     // documents that are to be stored, or are by now
	pendingFingerprints []fingerprint.Fingerprint // theirs, side by side, since each document is compared with all before
	origin              []int                     // of each verdict, the document of these that it is a duplicate of, or -1
	removed             map[uint64]bool           // IDs that these take out
	since               uint64                    // how many removals there were before the moment
	change              change                    // what is not applied yet
	written             map[uint64]bool           // hashes of keys that were applied since the moment: another key may have the same one
}

// partsFrom is how many nanoseconds a search takes where it is worth a commit to search meanwhile.
const partsFrom = 10_000.0

// parts returns how many documents are searched for at a time, and how many are applied while others are searched
// for: all, unless searches take long and a commit is no flush of the disk.
func (a *checkAttempt) parts(ctx context.Context) (searching, applying int) {
	if searching, applying, set := testhook.Parts(ctx); set {
		return searching, applying
	}
	n := int64(a.index.nextID.Load())
	if a.index.opts.Durability == Sync || a.index.Plan().Estimate(n).Warm < partsFrom {
		return 32, len(a.docs)
	}
	return 8, 32
}

// readers returns as many as are worth it: one, or one to decide with and others for searches. A single one takes no
// view before it needs it.
func (a *checkAttempt) readers(ctx context.Context) ([]*reader, error) {
	if len(a.docs) == 1 {
		return []*reader{a.index.reader()}, nil
	}
	n := min(runtime.GOMAXPROCS(0), (len(a.docs)+15)/16)
	if _, _, set := testhook.Parts(ctx); n > 1 || set {
		n++
	}
	return a.index.sameReaders(n)
}

// search fills in hits, for some documents at a time, and yields how many have theirs.
func (a *checkAttempt) search(ctx context.Context, readers []*reader, some int) iter.Seq2[int, error] {
	search := func(ctx context.Context, r *reader, from, to int) (int, error) {
		for i := from; i < to; i++ {
			hits, err := r.search(ctx, storedOf(&a.docs[i]), r.s.plan.MaxDistance)
			if err != nil {
				return i, err
			}
			a.hits[i] = slices.Clone(hits)
		}
		return to, nil
	}
	if len(readers) == 1 {
		return func(yield func(int, error) bool) { yield(search(ctx, readers[0], 0, len(a.docs))) }
	}
	return ordered.All(ctx, len(readers)-1, len(a.docs), func(p *ordered.Pipe[int]) error {
		for from := 0; from < len(a.docs); from += some {
			to := min(from+some, len(a.docs))
			if err := p.Go(func(worker int) (int, error) { return search(p.Context(), readers[1+worker], from, to) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// apply makes visible what follows from the verdicts of some documents, those that are not applied yet. finish must
// be called: it waits until they, and what they rest on, are durable.
func (a *checkAttempt) apply(from, to int) (finish func() error, err error) {
	finish = a.index.store.Last().Wait // the readers show nothing that was applied later
	if len(a.removed) > 0 || a.index.opts.KeepDuplicates {
		a.noteDependencies(from, to)
	}
	if !a.change.empty() {
		if finish, err = a.index.apply(&a.change); err != nil {
			return nil, err
		}
		if to < len(a.docs) {
			for hash := range a.change.keys {
				a.written[hash] = true
			}
		}
		a.change = change{}
	}
	for i := from; i < to; i++ { // all before have their IDs now
		if j := a.origin[i]; j >= 0 {
			a.verdicts[i].Of.Document = a.verdicts[j].Document
		}
	}
	return finish, nil
}

// noteDependencies lets the change fail if a stored document that a verdict names is gone by
// then. Pending writes do not tell: the fingerprint that a recrawl takes out is not known when
// it begins. Without this, two pages that swap their contents would each be dropped
// for the other one's earlier self, a duplicate that is kept would name a document
// that was gone before it came, and so would one behind a recrawl that came after that.
func (a *checkAttempt) noteDependencies(from, to int) {
	for i := from; i < to; i++ {
		of := &a.verdicts[i].Of.Document
		if j := a.origin[i]; j >= 0 && j < from {
			of = &a.verdicts[j].Document
		}
		if of.ID != 0 && a.verdicts[i].Status == Duplicate {
			a.change.dependsOn, a.change.since = append(a.change.dependsOn, dependency{of.ID, storedOf(of)}), a.since
		}
	}
}

// decide comes to the verdict of a document, those before it being decided.
func (a *checkAttempt) decide(ctx context.Context, r *reader, i int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	verdict := &a.verdicts[i]
	verdict.Document = a.docs[i]
	var old Document
	known := false
	if key := a.docs[i].Key; key != "" {
		var err error
		from := r.documents()
		if a.written[store.KeyHash(key)] {
			from = a.index.store
		}
		if old, known, err = a.change.replace(a.index, from, key); err != nil {
			return err
		}
		if known {
			a.removed[old.ID] = true
		}
	}
	like := Query{Signature: a.docs[i].Signature(), Scope: a.docs[i].Scope, Limit: 1}
	nearest, err := r.matches(ctx, &like, a.hits[i], a.removed)
	found := len(nearest) > 0
	if err == nil && known && !found {
		old.Added, err = r.added(old.ID)
	}
	if err != nil {
		return err
	}
	within := r.s.plan.MaxDistance + 1
	if found {
		within = nearest[0].Distance
	}
	switch j, distance := a.nearestPending(i, within); {
	case j >= 0:
		verdict.Status, verdict.Of, a.origin[i] = Duplicate, Match{Distance: distance}, j
	case found:
		verdict.Status, verdict.Of = Duplicate, nearest[0]
	case known:
		verdict.Status, verdict.Of = Known, Match{Document: old, Distance: old.Fingerprint.Distance(verdict.Document.Fingerprint)}
	default:
		verdict.Status = New
	}
	if verdict.Status != Duplicate || a.index.opts.KeepDuplicates {
		a.pending = append(a.pending, i)
		a.pendingFingerprints = append(a.pendingFingerprints, a.docs[i].Fingerprint)
		a.change.add = append(a.change.add, &verdict.Document)
	} else {
		verdict.Document.ID, verdict.Document.Added = 0, time.Time{}
		verdict.Removed = known
	}
	return nil
}

// nearestPending returns the place of the nearest document of the window that is nearer than that to another one, and
// matches it; -1 if there is none. At equal distance what has the smaller ID wins: what is stored over the window, the
// earlier over the later.
func (a *checkAttempt) nearestPending(i, within int) (best, distance int) {
	best, distance = -1, within
	rule, doc := a.index.rule(a.index.Plan()), &a.docs[i]
	for n, fp := range a.pendingFingerprints {
		if d := doc.Fingerprint.Distance(fp); d < distance && rule.Matches(doc, &a.docs[a.pending[n]]) {
			best, distance = a.pending[n], d
		}
	}
	return best, distance
}
