package index

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/testing/testhook"
	"github.com/neardup/neardup/store"
)

// Status is the result of CheckAndAdd for a document. The zero Status is not a verdict.
type Status int

const (
	New       Status = iota + 1 // no stored document matches; the document is stored
	Duplicate                   // another stored document matches
	// a document with this key was stored, and no other document matches
	Known
)

var statusNames = [...]string{"no verdict", "new", "duplicate", "known"}

// String returns new, duplicate or known.
func (s Status) String() string {
	if s >= 0 && int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "status " + strconv.Itoa(int(s))
}

// Verdict is the result of CheckAndAdd for a document.
type Verdict struct {
	Status   Status
	Document Document // as stored; ID and Added are zero if the document was not stored
	// for Duplicate, the nearest document, by distance, then ID; for Known, the earlier version
	Of Match
	// for a Duplicate that is not stored: the earlier version of the document was removed
	Removed bool
}

const (
	// windowLimit is the number of documents of a batch that are searched in one snapshot.
	windowLimit = 256
	// commitLimit is the number of documents of a window that are committed together.
	commitLimit = 32
	// groupLimit is the number of calls of one document that are processed together.
	groupLimit = 32
	// searchChunk is the number of documents that a goroutine searches for at a time.
	searchChunk = 8
)

// CheckAndAdd stores a document unless another stored document of its scope matches. Two documents
// match if their Fingerprints are within the MaxDistance of the index. If both have Shingles, these
// must also be near: see Options.MaxShingleDistance. If both have Tokens, the lengths must be
// within Options.MaxLengthRatio. Options.SiteTexts adds a condition for pages of one site.
//
// If the Key of a document is already stored, the document is a recrawl. It is compared only with
// documents that have other Keys. If none matches, it replaces the earlier version. If one matches,
// the earlier version is removed. A recrawl with the same Fingerprint, Shingles and Scope keeps its
// ID. With Options.KeepDuplicates, a duplicate is also stored.
//
// Searches of concurrent calls run in parallel, and commits share flushes of the disk. If
// concurrent calls check documents that match each other, the document of the first commit is New
// and the others are Duplicates. With Sync, the stored document and the document that the verdict
// names are durable when CheckAndAdd returns. CheckAndAdd returns the same errors as Add.
func (x *Index) CheckAndAdd(ctx context.Context, doc Document) (Verdict, error) {
	verdicts, err := x.CheckAndAddBatch(ctx, []Document{doc})
	if err != nil {
		return Verdict{}, err
	}
	return verdicts[0], nil
}

// CheckAndAddBatch calls CheckAndAdd for each document in order. It searches on all cores and
// commits many documents at a time. If it fails partway, it returns the error and the verdicts on
// the documents before the failure. These verdicts are valid. It does not change docs. At most
// GOMAXPROCS windows of 256 documents are processed at a time. Other callers wait.
func (x *Index) CheckAndAddBatch(ctx context.Context, docs []Document) ([]Verdict, error) {
	if err := x.beginWrite(ctx); err != nil {
		return nil, err
	}
	defer x.end()
	if err := x.validate(docs); err != nil {
		return nil, err
	}
	verdicts := make([]Verdict, 0, len(docs))
	durable := 0 // number of durable verdicts
	var last *store.Commit
	var failed error
	for start := 0; start < len(docs) && failed == nil; start = len(verdicts) {
		next := docs[start : start+windowLen(docs[start:])]
		var decided []Verdict
		var commit *store.Commit
		decided, commit, failed = x.waitAndProcessWindow(ctx, next)
		if err := last.Wait(); err != nil { // the next window was searched during the flush
			return verdicts[:durable], err
		}
		durable, last = len(verdicts), commit
		verdicts = append(verdicts, decided...)
	}
	if err := last.Wait(); err != nil {
		return verdicts[:durable], err
	}
	return verdicts, failed
}

// windowLen returns the number of documents of the next window. A window ends before a document
// with the same key as an earlier one.
func windowLen(docs []Document) int {
	if len(docs) == 1 {
		return 1
	}
	seen := make(map[string]bool, min(len(docs), windowLimit))
	for i := range docs[:min(len(docs), windowLimit)] {
		if docs[i].Key != "" && seen[docs[i].Key] {
			return i
		}
		seen[docs[i].Key] = true
	}
	return min(len(docs), windowLimit)
}

// call is a window that waits for a turn.
type call struct {
	ctx      context.Context
	docs     []Document
	verdicts []Verdict
	last     *store.Commit
	err      error
	done     chan struct{} // closed if another goroutine has processed the window
}

func (c *call) process(x *Index) { c.verdicts, c.last, c.err = x.processWindow(c.ctx, c.docs) }

// waitAndProcessWindow waits for a turn and calls processWindow. A single document may instead be
// processed in the turn of another call.
func (x *Index) waitAndProcessWindow(
	ctx context.Context, docs []Document,
) ([]Verdict, *store.Commit, error) {
	own := &call{ctx: ctx, docs: docs}
	var single chan *call // nil for several documents, so that no send succeeds
	if len(docs) == 1 {
		own.done, single = make(chan struct{}), x.single
	}
	select {
	case x.turns <- struct{}{}:
		defer func() { <-x.turns }()
		if single == nil {
			own.process(x)
		} else {
			x.processTogether(own)
		}
	case single <- own:
		<-own.done
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	return own.verdicts, own.last, own.err
}

// processTogether processes a call of one document together with the waiting calls, in one window,
// or in several windows if documents have the same key. After an error, the remaining calls of a
// window are processed one by one, since the error may concern only one of them.
func (x *Index) processTogether(own *call) {
	group, docs := []*call{own}, slices.Clip(own.docs)
collect:
	for len(group) < groupLimit {
		select {
		case c := <-x.single:
			group, docs = append(group, c), append(docs, c.docs[0])
		default:
			break collect
		}
	}
	for len(group) > 0 {
		n := windowLen(docs)
		var verdicts []Verdict
		var last *store.Commit
		if n > 1 {
			verdicts, last, _ = x.processWindow(own.ctx, docs[:n])
		}
		for i, c := range group[:n] {
			if i < len(verdicts) {
				c.verdicts, c.last = verdicts[i:i+1], last
			} else {
				c.process(x)
			}
			close(c.done)
		}
		group, docs = group[n:], docs[n:]
	}
}

// processWindow searches for all documents in one snapshot, decides them and commits the results.
// Documents are decided and committed while later ones are searched. The verdicts are valid after
// the commit is durable. There are fewer verdicts than documents if the window had to end early, or
// if an error occurred.
func (x *Index) processWindow(
	ctx context.Context, docs []Document,
) (verdicts []Verdict, last *store.Commit, err error) {
	w := &window{x: x, docs: docs, verdicts: make([]Verdict, len(docs)),
		hits: make([][]hit, len(docs)), origin: make([]int, len(docs)),
		superseded: make(map[uint64]bool)}
	w.searching, w.committing = searchChunk, commitLimit
	if searching, committing, set := testhook.Parts(ctx); set {
		w.searching, w.committing = searching, committing
	}
	w.since = x.recent.mark()
	readers, err := w.readers()
	if err != nil {
		return nil, nil, err
	}
	defer closeAll(readers, &err)
	committed, decided := 0, 0
	for searched, failed := range w.search(ctx, readers) {
		for err = failed; err == nil && decided < searched; decided++ {
			err = w.decide(ctx, readers[0], decided)
		}
		ends := false
		if err == nil && (decided == len(docs) || decided-committed >= w.committing) {
			if ends, err = w.commit(ctx, committed, decided); err == nil {
				committed = decided
			}
		}
		if err != nil || ends {
			break
		}
	}
	return w.verdicts[:committed], w.last, err
}

// window is the state of processWindow. Documents are decided in order.
type window struct {
	x        *Index
	docs     []Document
	verdicts []Verdict

	searching, committing int // numbers of documents that are searched and committed together

	since  uint64  // the snapshot shows all recent writes before this position
	hits   [][]hit // per document, the stored fingerprints within k bits
	origin []int   // per document, the document of the window that it is a duplicate of, or -1

	// documents of the window that are stored or will be stored
	kept []int
	// fingerprints of kept, in one array since each document is compared with all of them
	fingerprints []fingerprint.Fingerprint
	// superseded has the IDs of stored documents that are not candidates, since a document of the
	// window is one instead: the earlier versions of documents, and the documents of the window
	// after their commit.
	superseded map[uint64]bool
	change     change        // decided and not committed
	last       *store.Commit // the newest commit that the verdicts depend on
}

// readers returns readers of one snapshot. The first decides, and the others search, one per
// goroutine. For a small window, one reader does both.
func (w *window) readers() ([]*reader, error) {
	if len(w.docs) == 1 {
		return []*reader{w.x.reader()}, nil
	}
	n := min(runtime.GOMAXPROCS(0), (len(w.docs)+2*w.searching-1)/(2*w.searching))
	if n > 1 {
		n++
	}
	return w.x.sameReaders(n)
}

// search sets the hits of the documents in order, and yields the number of documents with hits set.
func (w *window) search(ctx context.Context, readers []*reader) iter.Seq2[int, error] {
	n := len(w.docs)
	if len(readers) == 1 {
		return func(yield func(int, error) bool) { yield(w.searchPart(ctx, readers[0], 0, n)) }
	}
	return ordered.Parts(ctx, len(readers)-1, n, n, w.searching,
		func(ctx context.Context, worker, from, to int) (int, error) {
			// Otherwise the goroutine that decides waits until this one is preempted.
			defer runtime.Gosched()
			return w.searchPart(ctx, readers[1+worker], from, to)
		})
}

// searchPart sets the hits of docs[from:to].
func (w *window) searchPart(ctx context.Context, r *reader, from, to int) (searched int, _ error) {
	for i := from; i < to; i++ {
		hits, err := r.search(ctx, storedOf(&w.docs[i]), r.x.plan.MaxDistance)
		if err != nil {
			return i, err
		}
		w.hits[i] = slices.Clone(hits)
	}
	return to, nil
}

// decide decides document i in the snapshot of a reader. All earlier documents must be decided.
func (w *window) decide(ctx context.Context, r *reader, i int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	doc, verdict := &w.docs[i], &w.verdicts[i]
	*verdict = Verdict{Document: *doc}
	w.origin[i] = -1
	old, known, err := r.byKey(doc.Key)
	if err != nil {
		return err
	}
	if known {
		w.superseded[old.ID] = true
	}
	of, err := w.match(ctx, r, i)
	switch {
	case err != nil:
		return err
	case of != nil:
		verdict.Status, verdict.Of, w.origin[i] = Duplicate, of.Match, of.Origin
	case known:
		verdict.Status, verdict.Of = Known, Match{Document: old,
			Distance: old.Fingerprint.Distance(doc.Fingerprint)}
	default:
		verdict.Status = New
	}
	verdict.Document.ID, verdict.Document.Added = 0, time.Time{}
	keep := verdict.Status != Duplicate || w.x.opts.KeepDuplicates
	if keep {
		w.kept = append(w.kept, i)
		w.fingerprints = append(w.fingerprints, doc.Fingerprint)
	}
	verdict.Removed = known && !keep
	if verdict.Status == Duplicate {
		of := &verdict.Of.Document
		if j := w.origin[i]; j >= 0 {
			of = &w.verdicts[j].Document
		}
		w.change.counts = append(w.change.counts, newDuplicate(doc, of))
	}
	switch {
	case keep:
		w.change.store(&verdict.Document, old, known)
	case known:
		w.change.remove = append(w.change.remove, old)
	}
	return nil
}

// match returns the document that document i is a duplicate of, or nil. The Origin of the result is
// its position in the window, or -1 if the document is from the snapshot of the reader.
func (w *window) match(ctx context.Context, r *reader, i int) (*match.Candidate, error) {
	doc, rule := &w.docs[i], w.x.rule
	search := match.NewSearch(rule, w.x.opts.siteTexts(), doc, w.textsOf)
	stored := r.candidates(ctx, w.hits[i], doc.Scope, func(id uint64, distance int) bool {
		return w.superseded[id] || search.Full() && r.rulesOut(rule, id, distance, doc.Signature())
	})
	kept := w.keptNear(i, rule.MaxDistance)
	return search.Find(func(yield func(match.Candidate, error) bool) {
		for m, err := range stored {
			c := match.Candidate{Match: m, Origin: -1}
			for err == nil && len(kept) > 0 && compareCandidates(kept[0], c) < 0 {
				if !yield(kept[0], nil) {
					return
				}
				kept = kept[1:]
			}
			if !yield(c, err) {
				return
			}
		}
		for _, c := range kept {
			if !yield(c, nil) {
				return
			}
		}
	})
}

// keptNear returns the kept documents within k bits of document i, sorted by compareCandidates.
func (w *window) keptNear(i, k int) (near []match.Candidate) {
	for n, fp := range w.fingerprints {
		j := w.kept[n]
		if d := w.docs[i].Fingerprint.Distance(fp); d <= k && w.docs[j].Scope == w.docs[i].Scope {
			near = append(near,
				match.Candidate{Match: Match{Document: w.verdicts[j].Document, Distance: d},
					Origin: j})
		}
	}
	slices.SortFunc(near, compareCandidates)
	return near
}

// compareCandidates compares candidates by distance, then ID. A document of the window that has no
// ID yet comes after all documents that have one.
func compareCandidates(a, b match.Candidate) int {
	order := func(c *match.Candidate) uint64 { return cmp.Or(c.ID, 1<<63+uint64(c.Origin)) }
	return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(order(&a), order(&b)))
}

// textsOf returns the different texts of the site of a document that are duplicates of it. It
// includes the commits so far and the decided documents of the window, but not what other windows
// have decided and not committed.
func (w *window) textsOf(c *match.Candidate) (duplicates.Texts, error) {
	var texts duplicates.Texts
	for _, d := range w.change.counts {
		if d.document.ID == c.ID && (c.ID != 0 || d.document == &w.verdicts[c.Origin].Document) {
			texts |= d.texts
		}
	}
	if c.ID == 0 {
		return texts, nil
	}
	texts |= w.x.duplicates.Pending(c.ID).Texts // first, see duplicates.Table.Stored
	// not the tables of the state, which may be older, nor store.Now, which needs the commit lock
	tables := w.x.store.Tables()
	defer tables.Release()
	stored, err := tables.Duplicates(c.ID)
	return texts | stored.Texts, err
}

// commit commits docs[from:to]. If recent writes of other calls may change a verdict on these
// documents, it first decides them again in the newest state, which cannot change under the commit
// lock. The window must then end, since its other documents were searched in an older state.
func (w *window) commit(ctx context.Context, from, to int) (ends bool, err error) {
	x := w.x
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	if ends = w.affected(from, to); ends {
		if err := w.decideAgain(ctx, from, to); err != nil {
			return true, err
		}
	}
	if w.change.empty() {
		x.count(w.change.counts)
		err = x.storeCounts(maxPendingCounts)
	} else {
		w.change.by = w
		err = x.applyChange(&w.change)
	}
	if err != nil {
		return ends, err
	}
	w.change = change{}
	// All commits that a verdict depends on have been applied. CheckAndAddBatch waits for the last
	// one.
	w.last = x.store.Last()
	for i := from; i < to; i++ { // all documents before i have their IDs now
		if id := w.verdicts[i].Document.ID; id != 0 {
			w.superseded[id] = true
		}
		if j := w.origin[i]; j >= 0 {
			w.verdicts[i].Of.Document = w.verdicts[j].Document
		}
	}
	return ends, nil
}

// affected reports whether writes of other calls since the snapshot may change a verdict on
// docs[from:to].
func (w *window) affected(from, to int) bool {
	writes, known := w.x.recent.since(w.since)
	if !known {
		return true
	}
	var others []recentWrite
	for write := range writes {
		if write.by != w {
			others = append(others, *write)
		}
	}
	k, neighbours := w.x.plan.MaxDistance, w.x.opts.siteTexts() >= 0
	for i := from; i < to && len(others) > 0; i++ {
		of := w.verdicts[i].Of.ID // 0 for a document that is not committed
		stored, key := storedOf(&w.docs[i]), keyHashOf(w.docs[i].Key)
		if slices.ContainsFunc(others, func(o recentWrite) bool {
			return o.affects(stored, key, of, k, neighbours)
		}) {
			return true
		}
	}
	return false
}

// decideAgain searches for docs[from:to] and decides them, in the newest state. The earlier
// documents of the window are committed. The commit lock must be held.
func (w *window) decideAgain(ctx context.Context, from, to int) (err error) {
	w.change, w.kept, w.fingerprints = change{}, nil, nil
	clear(w.superseded)
	ctx = context.WithoutCancel(ctx) // no method of the caller's context is called under the lock
	r := w.x.reader()
	defer func() { err = cmp.Or(err, r.close()) }()
	if err := r.openView(); err != nil {
		return err
	}
	if _, err := w.searchPart(ctx, r, from, to); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if err := w.decide(ctx, r, i); err != nil {
			return err
		}
	}
	return nil
}
