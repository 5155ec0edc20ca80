package index

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/neardup/neardup/store"
)

const (
	deleteChunk = 1024    // documents that one commit removes
	expireChunk = 64      // fewer, where no one waits for it
	scanChunk   = 1 << 15 // IDs in postings that are looked through between two looks at the context
)

// Delete removes the documents that have these keys and returns how many there
// were. Up to 1,024 go in one atomic commit; more, in several. Errors as of Add;
// what is counted is gone.
func (x *Index) Delete(ctx context.Context, keys ...string) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	keys = slices.Clone(keys)
	slices.Sort(keys)
	for chunk := range slices.Chunk(slices.Compact(keys), deleteChunk) {
		n, err := x.deleteKeys(ctx, chunk)
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

func (x *Index) deleteKeys(ctx context.Context, keys []string) (int, error) {
	w := &pendingWrite{}
	for _, key := range keys {
		w.keys = append(w.keys, store.KeyHash(key))
	}
	return x.remove(ctx, w, func(c *change) error {
		for _, key := range keys {
			if key == "" {
				continue
			}
			if _, _, err := c.replace(x, x.store, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// remove commits the removals that choose picks and waits until they are durable.
func (x *Index) remove(ctx context.Context, w *pendingWrite, choose func(*change) error) (int, error) {
	var c change
	finish, err := func() (func() error, error) {
		if err := x.enter(ctx, w); err != nil {
			return nil, err
		}
		defer x.pending.leave(w)
		if err := choose(&c); err != nil || c.empty() {
			return x.store.Last().Wait, err
		}
		return x.apply(&c)
	}()
	if err != nil {
		return 0, err
	}
	return len(c.remove), finish()
}

// DeleteIDs removes the documents that have these IDs and returns how many there were.
// An ID is never given twice: what came since under the key of a document stays. Up to
// 1,024 go in one atomic commit. A document without key, scope, Shingle and length is known
// by its fingerprint only, so where such ones may be among them, all fingerprints are read
// once: pass many IDs together. Errors as of Add; what is counted is gone.
func (x *Index) DeleteIDs(ctx context.Context, ids ...uint64) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	x.commitMu.Lock()
	bare, next := x.counters.Bare > 0, x.counters.NextID
	x.commitMu.Unlock()
	var ranges idRanges
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if id >= next {
			break // what gets it meanwhile may have a record, which bareScan would not know
		}
		if last := len(ranges) - 1; last >= 0 && id <= ranges[last].end {
			ranges[last].end = id + 1
		} else {
			ranges = append(ranges, idRange{id, id + 1})
		}
	}
	return x.deleteRanges(ctx, ranges, bare, deleteChunk)
}

// DeleteBefore removes every document that was added before the second of t, and
// returns how many there were: what came in that second may be later than t. It commits 1,024 at a time, so that the writes of others
// go on in between; cut short, it can be called again. It reads an entry for each second in
// which documents came, and all fingerprints where there are bare documents.
func (x *Index) DeleteBefore(ctx context.Context, t time.Time) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	return x.deleteBefore(ctx, t, deleteChunk)
}

// Expiry bounds what an index keeps. 0: no bound.
type Expiry struct {
	// MaxAge is how long ago, by the clock of the index, a document may have been stored. A recrawl stores
	// it anew, also where nothing changed, so this is the time since its page was last seen.
	MaxAge time.Duration

	// MaxDocuments is how many there may be. Those that were stored first go first.
	MaxDocuments uint64
}

// expirySlack is what part of a bound Expire goes below it, so that it has something to do only once
// that much has come, and not at each call.
const expirySlack = 100

// Expire removes documents until the rest is within bounds: where any is over MaxAge, all that are over 99 hundredths
// of it; where there are more than MaxDocuments, the oldest, down to 99 hundredths of that. Where all
// is within bounds a call costs nothing. It commits 64 documents at a time, and others read and write
// all the while; cut short, also by Close (ErrClosed), it can be called again. What it reads besides is as DeleteBefore says.
func (x *Index) Expire(ctx context.Context, e Expiry) (expired int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	if e.MaxAge < 0 {
		return 0, fmt.Errorf("expire: MaxAge is %v, want 0 for no bound, or more", e.MaxAge)
	}
	ctx, ended := x.whileOpen(ctx)
	defer ended(&err)
	defer func() { x.expired.Add(uint64(expired)) }()
	if before, may := x.overdue(e.MaxAge); e.MaxAge > 0 && may {
		if expired, err = x.deleteBefore(ctx, before, expireChunk); err != nil {
			return expired, err
		}
	}
	if e.MaxDocuments == 0 {
		return expired, nil
	}
	first, bare, err := x.overfull(ctx, e.MaxDocuments)
	if err != nil {
		return expired, err
	}
	n, err := x.deleteExpired(ctx, first, bare, expireChunk)
	return expired + n, err
}

// overfull returns the documents that came first, if there are more than most.
func (x *Index) overfull(ctx context.Context, most uint64) (e expired, bare bool, err error) {
	v, counters, err := x.snapshot()
	if err != nil {
		return expired{}, false, err
	}
	defer v.Close()
	if counters.Documents <= most {
		return expired{}, false, nil
	}
	excess, bare := counters.Documents-most+most/expirySlack, counters.Bare > 0
	of := idOfRecord
	if bare {
		of = idOfPosting
	}
	end, err := of(ctx, v, excess, counters.NextID)
	if err != nil {
		return expired{}, false, err
	}
	clock, _, err := v.ClockAt(end) // what comes next may be of that second
	e.add(idRange{1, end}, clock.First, true)
	return e, bare, err
}

// idOfRecord returns the ID before which there are n documents with a record, and idOfPosting that before which there
// are n with or without one; next, where there are not so many.
func idOfRecord(ctx context.Context, v *store.View, n, next uint64) (uint64, error) {
	for r, err := range v.Records(1) {
		if err := cmp.Or(err, ctx.Err()); err != nil || n == 0 {
			return r.ID, err
		}
		n--
	}
	return next, nil
}

// idBuckets is the number of ranges of IDs in which idOfPosting counts. With four billion IDs it looks through all
// postings twice.
const idBuckets = 1 << 16

// idOfPosting is explained at idOfRecord.
func idOfPosting(ctx context.Context, v *store.View, n, next uint64) (uint64, error) {
	counts := make([]uint64, idBuckets)
	for first, width := uint64(0), next; width > 1; {
		width = (width + idBuckets - 1) / idBuckets
		clear(counts)
		for p, err := range v.Postings(0) {
			if err := cmp.Or(err, ctx.Err()); err != nil {
				return 0, err
			}
			for id := range p.IDs.From(first) {
				bucket := (id - first) / width
				if bucket >= idBuckets {
					break
				}
				counts[bucket]++
			}
		}
		bucket := 0
		for ; bucket < idBuckets-1 && counts[bucket] <= n; bucket++ {
			n -= counts[bucket]
		}
		if first += uint64(bucket) * width; width == 1 {
			return first, nil
		}
	}
	return next, nil
}

func (x *Index) deleteBefore(ctx context.Context, t time.Time, chunk int) (deleted int, err error) {
	e, bare, err := x.expiredBefore(ctx, t)
	if err == nil {
		deleted, err = x.deleteExpired(ctx, e, bare, chunk)
	}
	if err != nil {
		x.noteOldest(0) // the rest of them is there still
	}
	return deleted, err
}

func (x *Index) deleteExpired(ctx context.Context, e expired, bare bool, chunk int) (deleted int, err error) {
	if deleted, err = x.deleteRanges(ctx, e.ids, bare, chunk); err != nil {
		return deleted, err
	}
	return deleted, x.forgetClock(e)
}

// deleteRanges removes the documents in ranges of IDs, of which some may be bare, some of them a commit.
func (x *Index) deleteRanges(ctx context.Context, ranges idRanges, bare bool, chunk int) (deleted int, err error) {
	part := func(pick func(*store.View) ([]Document, error)) error {
		n, err := x.removePicked(ctx, pick)
		deleted += n
		return err
	}
	for left := slices.Clone(ranges); len(left) > 0; {
		if err := part(func(v *store.View) ([]Document, error) { return pickRecords(v, &left, chunk) }); err != nil {
			return deleted, err
		}
	}
	if !bare || uint64(deleted) == ranges.count() {
		return deleted, nil
	}
	for s := (bareScan{ranges: ranges, chunk: chunk}); !s.done; {
		if err := part(s.pick); err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// removePicked removes the documents that pick finds in a view, but for those that a recrawl or Delete takes meanwhile,
// which go by their keys. Others go here only, one call at a time.
func (x *Index) removePicked(ctx context.Context, pick func(*store.View) ([]Document, error)) (deleted int, err error) {
	select {
	case x.removing <- struct{}{}:
		defer func() { <-x.removing }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	var docs []Document
	err = x.withView(func(v *store.View) error {
		docs, err = pick(v)
		return err
	})
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return 0, err
	}
	return x.remove(ctx, newPendingRemoval(docs), func(c *change) error {
		for i := range docs {
			if there, err := c.has(x, &docs[i]); err != nil {
				return err
			} else if there {
				c.remove = append(c.remove, docs[i])
			}
		}
		return nil
	})
}

// has reports whether a document is still that of its key, if it has one.
func (c *change) has(x *Index, d *Document) (bool, error) {
	if d.Key == "" {
		return true, nil
	}
	err := c.noteKey(x, x.store, d.Key)
	return c.keys[store.KeyHash(d.Key)].ids.Contains(d.ID), err
}

// pickRecords returns the next documents with a record in ranges of IDs, and leaves the
// ranges that are still to be looked through.
func pickRecords(v *store.View, left *idRanges, most int) (docs []Document, err error) {
	for n := 0; n < deleteChunk && len(*left) > 0; n, *left = n+1, (*left)[1:] {
		for r, err := range v.Records((*left)[0].first) {
			if err != nil {
				return nil, err
			}
			if r.ID >= (*left)[0].end {
				break
			}
			if len(docs) == most {
				(*left)[0].first = r.ID
				return docs, nil
			}
			docs = append(docs, documentOf(r.ID, r.Record))
		}
	}
	return docs, nil
}

// bareScan goes through all postings for bare documents. Those with a record are gone by
// then, so every ID of the ranges that a posting still has is of a bare one.
type bareScan struct {
	ranges idRanges
	chunk  int // documents that are picked at a time

	stored, first uint64 // where to go on: the fingerprint, and the first of its IDs
	done          bool
}

// pick picks the next documents, and looks at a bounded number of IDs.
func (s *bareScan) pick(v *store.View) (docs []Document, err error) {
	scanned := 0
	for p, err := range v.Postings(s.stored) {
		if err != nil {
			return nil, err
		}
		if p.Stored != s.stored {
			s.stored, s.first = p.Stored, 0
		}
		for id := range p.IDs.From(s.first) {
			if scanned++; scanned > scanChunk || len(docs) == s.chunk {
				s.first = id
				return docs, nil
			}
			if id >= s.ranges[len(s.ranges)-1].end {
				break
			}
			if s.ranges.has(id) {
				docs = append(docs, bareDocument(id, p.Stored))
			}
		}
	}
	s.done = true
	return docs, nil
}

// idRange is the IDs from first to the one before end.
type idRange struct{ first, end uint64 }

// compare says where a range is, seen from an ID; 0: the ID is in it.
func (r idRange) compare(id uint64) int {
	if r.end <= id {
		return -1
	}
	return cmp.Compare(max(r.first, id), id)
}

// idRanges ascend, and are apart.
type idRanges []idRange

func (r idRanges) has(id uint64) bool {
	_, found := slices.BinarySearchFunc(r, id, idRange.compare)
	return found
}

func (r idRanges) count() (n uint64) {
	for i := range r {
		n += r[i].end - r[i].first
	}
	return n
}

// expired is what was added before some time: nearly always all IDs below one. Where the
// clock went backwards, what it was ahead for stays among them.
type expired struct {
	ids    idRanges
	clocks idRanges // of the clock's entries in each of them, those that may go

}

// overdue reports whether there may be a document that is over an age, and before when documents go then.
func (x *Index) overdue(age time.Duration) (before time.Time, may bool) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	now := x.opts.now()
	return now.Add(age/expirySlack - age), x.oldest < uint64(max(now.Add(-age).Unix(), 0))
}

// expiredBefore returns what was added before a time, and whether any document is bare. It notes the oldest of the others.
func (x *Index) expiredBefore(ctx context.Context, t time.Time) (e expired, bare bool, err error) {
	t = t.Truncate(time.Second) // what was added in its second may have come after it
	oldest := uint64(noSecond)
	x.commitMu.Lock()
	x.oldest = noSecond // what is added meanwhile makes it less
	x.commitMu.Unlock()
	v, counters, err := x.snapshot()
	if err != nil {
		return expired{}, false, err
	}
	defer v.Close()
	at := idRange{first: 1}
	old := true // what came before the first entry is that old
	newest := uint64(0)
	for c, err := range v.Clock(0) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return expired{}, false, err
		}
		before := c.Added().Before(t)
		if before != old {
			at.end = c.First
			e.add(at, at.end, old)
			at.first, old = c.First, before
		}
		if newest = c.First; !before {
			oldest = min(oldest, c.Seconds)
		}
	}
	at.end = counters.NextID
	e.add(at, newest, old)
	x.noteOldest(oldest)
	return e, counters.Bare > 0, nil
}

// noteOldest notes that there may be documents of a second.
func (x *Index) noteOldest(oldest uint64) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	x.oldest = min(x.oldest, oldest)
}

// add takes a range of IDs if it is old. The first entry of the clock in it stays, so that
// no document of another range comes to have no time or that of another second, and so
// does the newest of all, which is that of what comes next.
func (e *expired) add(r idRange, clockEnd uint64, old bool) {
	if !old || r.first >= r.end {
		return
	}
	e.ids = append(e.ids, r)
	if r.first+1 < clockEnd {
		e.clocks = append(e.clocks, idRange{r.first + 1, clockEnd})
	}
}

// forgetClock drops the clock entries of what has expired.
func (x *Index) forgetClock(e expired) error {
	if len(e.clocks) == 0 {
		return nil
	}
	batch := x.store.NewBatch()
	for _, r := range e.clocks {
		batch.ForgetClock(r.first, r.end)
	}
	x.forgotten.Add(1)
	finish, err := x.store.Apply(batch, x.opts.Durability == Sync)
	if err != nil {
		return err
	}
	return finish()
}
