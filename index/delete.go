package index

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/store"
)

const (
	deleteChunk = 256     // documents that one commit removes
	expireChunk = 64      // fewer, since no caller waits for an expiry
	scanChunk   = 1 << 15 // records that are read in one view
)

// Delete removes the documents with the given keys, and returns the number of removed documents. It
// removes up to 256 keys per atomic commit. After an error, the counted documents have been
// removed. Delete returns the same errors as Add.
func (x *Index) Delete(ctx context.Context, keys ...string) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	keys = slices.Clone(keys)
	slices.Sort(keys)
	for chunk := range slices.Chunk(slices.Compact(keys), deleteChunk) {
		n := 0
		remove := func(known map[string]Document) (c change) {
			for _, key := range chunk {
				if d, found := known[key]; found {
					c.remove = append(c.remove, d)
				}
			}
			n = len(c.remove)
			return c
		}
		if err := x.commitKeys(ctx, slices.Values(chunk), remove); err != nil {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}

// DeleteIDs removes the documents with the given IDs, and returns the number of removed documents.
// It removes up to 256 documents per atomic commit. If the index has documents without a record, a
// call may read all entries of table 0 once, so pass many IDs in one call. After an error, the
// counted documents have been removed. DeleteIDs returns the same errors as Add.
func (x *Index) DeleteIDs(ctx context.Context, ids ...uint64) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	bare, err := x.findBare(ctx, ids)
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(ids, deleteChunk) {
		n, err := x.removeIDs(ctx, chunk, bare, 0, func(*Document) bool { return true })
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// findBare returns the stored fingerprints, by ID, of the documents without a record. ids must
// ascend. It reads all entries of table 0 if any ID has no record.
func (x *Index) findBare(ctx context.Context, ids []uint64) (bare map[uint64]uint64, err error) {
	if x.countersNow().Bare == 0 {
		return nil, nil
	}
	tables := x.store.Tables()
	defer tables.Release()
	var without []uint64
	for _, id := range ids {
		_, recorded, err := tables.Record(id)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		if !recorded {
			without = append(without, id)
		}
	}
	if len(without) == 0 {
		return nil, nil
	}
	bare = make(map[uint64]uint64)
	return bare, x.withView(func(v *store.View) error {
		for p, err := range v.Postings(0) {
			if err := cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
			for id := range p.IDs.All() {
				if id > without[len(without)-1] {
					break
				}
				if _, wanted := slices.BinarySearch(without, id); wanted {
					bare[id] = p.Stored
				}
			}
		}
		return nil
	})
}

// removeIDs removes the documents with these IDs for which still returns true, in one commit, and
// waits until the commit is durable. It leaves at least least documents in the index. bare has the
// stored fingerprints of documents without a record.
func (x *Index) removeIDs(
	ctx context.Context, ids []uint64, bare map[uint64]uint64, least uint64,
	still func(*Document) bool,
) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := x.commit(func() (c change, err error) {
		for _, id := range ids {
			d, found, err := x.storedByID(id, bare)
			if err != nil {
				return c, err
			}
			if found && x.counters.Documents-uint64(len(c.remove)) > least && still(&d) {
				c.remove = append(c.remove, d)
			}
		}
		removed = len(c.remove)
		return c, nil
	}); err != nil {
		return 0, err
	}
	return removed, nil
}

// storedByID returns the document that has an ID. The commit lock must be held.
func (x *Index) storedByID(id uint64, bare map[uint64]uint64) (d Document, found bool, err error) {
	record, found, err := x.store.Now().Record(id)
	if found || err != nil {
		return documentOf(record), found, err
	}
	stored, found := bare[id]
	if !found {
		return Document{}, false, nil
	}
	removed, err := x.store.Now().IsRemoved(id)
	return bareDocument(id, stored), !removed, err
}

// DeleteBefore removes every document that was last stored before the second of t, and returns the
// number of removed documents. Documents without a record have no time and are not removed.
// DeleteBefore reads all records and commits 256 removals at a time. Other calls continue between
// the commits. After an error, the counted documents have been removed, and DeleteBefore can be
// called again.
func (x *Index) DeleteBefore(ctx context.Context, t time.Time) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	return x.deleteBefore(ctx, t, deleteChunk)
}

// Expiry bounds the age and the number of the documents in an index. Documents without a record,
// which a bulk load of bare fingerprints adds, have no time and do not expire. A zero field sets no
// bound.
type Expiry struct {
	// MaxAge is the time since a document was last stored, by the clock of the index. A recrawl
	// stores a document again, even if nothing has changed.
	MaxAge time.Duration

	// MaxDocuments is the largest number of documents. The documents that were least recently
	// stored are removed first.
	MaxDocuments uint64
}

// expirySlack is how far Expire goes below a bound: by 1/expirySlack of the bound. So a call that
// removes documents removes many of them, and most calls remove none.
const expirySlack = 100

// Expire removes documents until the index is within the bounds. If any document is older than
// MaxAge, Expire removes all documents that are older than 99 % of MaxAge. If there are more than
// MaxDocuments, Expire removes the oldest documents until 99 % of MaxDocuments remain.
//
// If the index is within the bounds, Expire reads nothing, except in the first call after Open with
// a MaxAge. Otherwise Expire reads all records while other calls run, in one pass for MaxAge and up
// to four passes for MaxDocuments. If other calls remove documents during a pass, Expire removes
// fewer documents. It commits 64 removals at a time. After an error, including ErrClosed, it can be
// called again.
func (x *Index) Expire(ctx context.Context, e Expiry) (expired int, err error) {
	// One call at a time, since two calls would remove the same excess twice.
	err = x.alone(ctx, x.expiring, func(ctx context.Context) (err error) {
		if e.MaxAge < 0 {
			return fmt.Errorf("expire: MaxAge is %v, want 0 for no bound, or more", e.MaxAge)
		}
		if before, may := x.overdue(e.MaxAge); e.MaxAge > 0 && may {
			if expired, err = x.deleteBefore(ctx, before, expireChunk); err != nil {
				return err
			}
		}
		if e.MaxDocuments == 0 {
			return nil
		}
		n, err := x.deleteOldest(ctx, e.MaxDocuments)
		expired += n
		return err
	})
	x.expired.Add(uint64(expired))
	return expired, err
}

// overdue reports whether a document may be older than age. It also returns the time before which
// documents must then be removed.
func (x *Index) overdue(age time.Duration) (before time.Time, may bool) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	now := x.opts.now()
	return now.Add(age/expirySlack - age), x.oldest < match.Second(now.Add(-age))
}

// deleteBefore removes the documents that were stored before the second of t, chunk per commit. It
// sets x.oldest to the time of the oldest remaining document.
func (x *Index) deleteBefore(ctx context.Context, t time.Time, chunk int) (deleted int, err error) {
	before := match.Second(t)
	x.commitMu.Lock()
	x.oldest = noSecond // later commits lower it
	x.commitMu.Unlock()
	oldest := uint64(noSecond)
	deleted, err = x.deleteRecords(ctx, chunk, 0, func(r *store.Record) bool {
		if r.Time < before {
			return true
		}
		oldest = min(oldest, r.Time)
		return false
	}, func(d *Document) bool { return match.Second(d.Added) < before })
	if err != nil {
		oldest = 0 // older documents may remain
	}
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	x.oldest = min(x.oldest, oldest)
	return deleted, err
}

// deleteRecords reads all records by ID and removes the documents for which pick returns true, but
// leaves at least least documents in the index. The commit checks them again with still, since they
// may have been stored again.
func (x *Index) deleteRecords(
	ctx context.Context, chunk int, least uint64, pick func(*store.Record) bool,
	still func(*Document) bool,
) (deleted int, err error) {
	var ids []uint64
	remove := func() error {
		n, err := x.removeIDs(ctx, ids, nil, least, still)
		deleted += n
		ids = ids[:0]
		return err
	}
	if err = x.eachRecord(ctx, func(r *store.Record) error {
		if pick(r) {
			ids = append(ids, r.ID)
		}
		if len(ids) < chunk {
			return nil
		}
		return remove()
	}); err != nil {
		return deleted, err
	}
	err = remove()
	return deleted, err
}

// eachRecord calls do with each record by ID. It opens a new view every scanChunk records, so that
// no view keeps deleted data for long.
func (x *Index) eachRecord(ctx context.Context, do func(*store.Record) error) (err error) {
	for next := uint64(1); next != 0 && err == nil; {
		err = x.withView(func(v *store.View) error {
			first, n := next, 0
			next = 0
			for r, err := range v.Records(first) {
				if err := cmp.Or(err, ctx.Err()); err != nil {
					return err
				}
				if n++; n > scanChunk {
					next = r.ID
					return nil
				}
				if err := do(&r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return err
}

// deleteOldest removes the documents that were stored first, by time, then ID, if there are more
// than most.
func (x *Index) deleteOldest(ctx context.Context, most uint64) (deleted int, err error) {
	c := x.countersNow()
	if c.Documents <= most || c.Documents == c.Bare {
		return 0, nil
	}
	left := most - most/expirySlack
	last, ofLast, err := x.oldestSeconds(ctx, min(c.Documents-left, c.Documents-c.Bare))
	if err != nil {
		return 0, err
	}
	// Other calls may have removed documents since, so each commit checks the number that remains.
	return x.deleteRecords(ctx, expireChunk, left, func(r *store.Record) bool {
		if r.Time == last && ofLast > 0 {
			ofLast--
			return true
		}
		return r.Time < last
	}, func(d *Document) bool { return match.Second(d.Added) <= last })
}

// timeBuckets is the number of ranges of time in which oldestSeconds counts documents.
const timeBuckets = 1 << 16

// oldestSeconds returns the second of the last of the n oldest documents, and how many of the
// documents of that second are among them. If other calls remove documents meanwhile, it may return
// an earlier second. It reads all records three times and takes 512 KiB of memory.
func (x *Index) oldestSeconds(ctx context.Context, n uint64) (last, ofLast uint64, err error) {
	counts := make([]uint64, timeBuckets)
	// last is in the span seconds from first on
	for first, span := uint64(0), uint64(match.LastSecond+1); ; {
		width := (span + timeBuckets - 1) / timeBuckets
		clear(counts)
		counted := uint64(0)
		if err := x.eachRecord(ctx, func(r *store.Record) error {
			if r.Time >= first && r.Time-first < span {
				counts[(r.Time-first)/width]++
				counted++
			}
			return nil
		}); err != nil {
			return 0, 0, err
		}
		n = min(n, counted)
		bucket := 0
		for ; bucket < timeBuckets-1 && counts[bucket] < n; bucket++ {
			n -= counts[bucket]
		}
		first, span = first+uint64(bucket)*width, width
		if span == 1 {
			return first, n, nil
		}
	}
}
