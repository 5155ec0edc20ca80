package index

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/neardup/neardup/fingerprint"
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

// windowLimit is the number of documents of a batch that are searched and committed
// together.
const windowLimit = 256

// CheckAndAddBatch does what CheckAndAdd would do for each document in turn, with
// searches on all cores and many documents a commit. When it fails part of the way,
// the verdicts of the documents before come with the error, and hold. Docs is not changed.
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
	for start := 0; start < len(docs); {
		window := docs[start : start+windowLen(docs[start:])]
		w := &checkWindow{index: x, docs: window, verdicts: make([]Verdict, len(window))}
		finish, failed := w.run(ctx)
		if err := wait(); err != nil {
			if failed == nil {
				finish()
			}
			return verdicts[:durable], err
		}
		durable = len(verdicts)
		if failed != nil {
			return verdicts, failed
		}
		verdicts, wait = append(verdicts, w.verdicts...), finish
		start += len(window)
	}
	if err := wait(); err != nil {
		return verdicts[:durable], err
	}
	return verdicts, nil
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
	verdicts []Verdict

	hits                [][]hit                   // of each document, what is stored within the distance
	pending             []int                     // documents of the window that are to be stored, so far
	pendingFingerprints []fingerprint.Fingerprint // theirs, side by side, since each document is compared with all before
	origin              []int                     // of each verdict, the document of the window that it is a duplicate of, or -1
	removed             map[uint64]bool           // IDs that the window takes out
	change              change
}

// run comes to the verdicts and applies what follows from them. finish waits until
// they, and what they rest on, are durable.
func (w *checkWindow) run(ctx context.Context) (finish func() error, err error) {
	pending := newPendingWrite(w.docs)
	if err := w.index.enter(ctx, pending); err != nil {
		return nil, err
	}
	defer w.index.pending.leave(pending)
	for {
		if finish, err = w.attempt(ctx); !errors.Is(err, errConflict) {
			return finish, err
		}
		*w = checkWindow{index: w.index, docs: w.docs, verdicts: make([]Verdict, len(w.docs))}
	}
}

func (w *checkWindow) attempt(ctx context.Context) (finish func() error, err error) {
	x := w.index
	readers, err := w.readers()
	if err != nil {
		return nil, err
	}
	err = w.search(ctx, readers)
	if err == nil {
		err = w.decide(ctx, readers[0])
	}
	seen := x.store.Last() // the readers show nothing that was applied later
	if err := errors.Join(err, closeAll(readers)); err != nil {
		return nil, err
	}
	if w.change.empty() {
		return seen.Wait, nil
	}
	if len(w.change.remove) > 0 || x.opts.KeepDuplicates {
		w.noteDependencies()
	}
	if finish, err = x.apply(&w.change); err != nil {
		return nil, err
	}
	w.complete()
	return finish, nil
}

// readers returns as many as are worth it; a single one takes no view before it needs it.
func (w *checkWindow) readers() ([]*reader, error) {
	n := min(runtime.GOMAXPROCS(0), (len(w.docs)+15)/16)
	if n == 1 && len(w.docs) == 1 {
		return []*reader{w.index.reader()}, nil
	}
	return w.index.sameReaders(n)
}

// noteDependencies lets the change fail if a stored document that a verdict names is gone by
// then. Pending writes do not tell: the fingerprint that a recrawl takes out is not known when
// it begins. Without this, two pages that swap their contents would each be dropped
// for the other one's earlier self, and a duplicate that is kept would name a document
// that was gone before it came.
func (w *checkWindow) noteDependencies() {
	for i := range w.verdicts {
		if of := &w.verdicts[i].Of; of.ID != 0 && w.verdicts[i].Status == Duplicate {
			w.change.dependsOn = append(w.change.dependsOn, dependency{of.ID, storedOf(&of.Document)})
		}
	}
}

func (w *checkWindow) search(ctx context.Context, readers []*reader) error {
	w.hits = make([][]hit, len(w.docs))
	errs := make([]error, len(readers))
	worker := func(n int) {
		for i := n; i < len(w.docs) && errs[n] == nil; i += len(readers) {
			hits, err := readers[n].search(ctx, storedOf(&w.docs[i]), readers[n].s.plan.MaxDistance)
			w.hits[i], errs[n] = slices.Clone(hits), err
		}
	}
	var wg sync.WaitGroup
	for n := 1; n < len(readers); n++ {
		wg.Go(func() { worker(n) })
	}
	worker(0)
	wg.Wait()
	return cmp.Or(errs...)
}

// decide goes through the window in order.
func (w *checkWindow) decide(ctx context.Context, r *reader) error {
	w.origin = make([]int, len(w.docs))
	w.removed = make(map[uint64]bool)
	for i := range w.docs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.decideOne(r, i); err != nil {
			return err
		}
	}
	return nil
}

func (w *checkWindow) decideOne(r *reader, i int) error {
	verdict := &w.verdicts[i]
	verdict.Document = w.docs[i]
	var old Document
	known := false
	if key := w.docs[i].Key; key != "" {
		var err error
		if old, known, err = w.change.replace(w.index, key); err != nil {
			return err
		}
		if known {
			w.removed[old.ID] = true
		}
	}
	nearest, found, err := w.nearest(r, i)
	if err == nil && known && !found {
		old.Added, err = r.added(old.ID)
	}
	if err != nil {
		return err
	}
	verdict.Of = nearest
	w.origin[i] = w.nearestPending(i, &verdict.Of, &found)
	switch {
	case found:
		verdict.Status = Duplicate
	case known:
		verdict.Status, verdict.Of = Known, Match{Document: old, Distance: old.Fingerprint.Distance(verdict.Document.Fingerprint)}
	default:
		verdict.Status = New
	}
	if verdict.Status != Duplicate || w.index.opts.KeepDuplicates {
		w.pending = append(w.pending, i)
		w.pendingFingerprints = append(w.pendingFingerprints, w.docs[i].Fingerprint)
		w.change.add = append(w.change.add, &verdict.Document)
	} else {
		verdict.Document.ID, verdict.Document.Added = 0, time.Time{}
	}
	return nil
}

// nearest returns the nearest stored document that matches, by (distance, ID), and
// that the window does not take out.
func (w *checkWindow) nearest(r *reader, i int) (Match, bool, error) {
	for c, err := range r.candidates(w.hits[i]) {
		if err != nil {
			return Match{}, false, err
		}
		if w.removed[c.id] {
			continue
		}
		d, matches, err := r.matching(c, w.docs[i].Scope, w.docs[i].Signature())
		if err != nil || matches {
			return Match{Document: d, Distance: int(c.hit.distance)}, matches, err
		}
	}
	return Match{}, false, nil
}

// nearestPending looks for a document of the window that is nearer than what was
// found in the index, and returns its place, or -1. At equal distance what has the
// smaller ID wins: the index over the window, the earlier over the later.
func (w *checkWindow) nearestPending(i int, of *Match, found *bool) int {
	best, rule, doc := -1, w.index.rule(w.index.Plan()), &w.docs[i]
	for n, fp := range w.pendingFingerprints {
		distance := doc.Fingerprint.Distance(fp)
		if distance > rule.MaxDistance || *found && distance >= of.Distance {
			continue
		}
		if j := w.pending[n]; rule.Matches(doc, &w.docs[j]) {
			*found, *of, best = true, Match{Distance: distance}, j
		}
	}
	return best
}

// complete fills in what is known once the window's documents have their IDs.
func (w *checkWindow) complete() {
	for i, j := range w.origin {
		if j >= 0 {
			w.verdicts[i].Of.Document = w.verdicts[j].Document
		}
	}
}
