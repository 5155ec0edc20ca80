package index

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/neardup/neardup/internal/store"
)

// deleteChunk is the number of documents that one commit removes, and scanChunk that
// of IDs in postings that are looked through while everyone else waits.
const (
	deleteChunk = 1024
	scanChunk   = 1 << 15
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
	w := &pendingWrite{done: make(chan struct{})}
	for _, key := range keys {
		w.keys = append(w.keys, store.KeyHash(key))
	}
	return x.remove(ctx, w, func(_ *store.View, c *change) error {
		for _, key := range keys {
			if key == "" {
				continue
			}
			if _, _, err := c.replace(x, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// remove commits the removals that choose picks and waits until they are durable.
func (x *Index) remove(ctx context.Context, w *pendingWrite, choose func(*store.View, *change) error) (int, error) {
	var c change
	finish, err := func() (func() error, error) {
		if err := x.pending.enter(ctx, w, x.rule()); err != nil {
			return nil, err
		}
		defer x.pending.leave(w)
		err := x.withView(func(v *store.View) error { return choose(v, &c) })
		if err != nil || c.empty() {
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
	return x.deleteRanges(ctx, ranges, bare)
}

// DeleteBefore removes every document that was added before t, to the second, and
// returns how many there were. It commits 1,024 at a time, so that the writes of others
// go on in between; cut short, it can be called again. It reads an entry for each second in
// which documents came, and all fingerprints where there are bare documents.
func (x *Index) DeleteBefore(ctx context.Context, t time.Time) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	e, bare, err := x.expiredBefore(t)
	if err != nil {
		return 0, err
	}
	if deleted, err = x.deleteRanges(ctx, e.ids, bare); err != nil {
		return deleted, err
	}
	return deleted, x.forgetClock(e)
}

// deleteRanges removes the documents in ranges of IDs, of which some may be bare.
func (x *Index) deleteRanges(ctx context.Context, ranges idRanges, bare bool) (deleted int, err error) {
	part := func(pick func(*store.View, *change) error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := x.remove(ctx, &pendingWrite{exclusive: true, done: make(chan struct{})}, pick)
		deleted += n
		return err
	}
	for left := slices.Clone(ranges); len(left) > 0; {
		if err := part(pickRecords(x, &left)); err != nil {
			return deleted, err
		}
	}
	if !bare || uint64(deleted) == ranges.count() {
		return deleted, nil
	}
	for s := (bareScan{ranges: ranges}); !s.done; {
		if err := part(s.pick); err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// pickRecords picks the next documents with a record in ranges of IDs, and leaves the
// ranges that are still to be looked through.
func pickRecords(x *Index, left *idRanges) func(*store.View, *change) error {
	return func(v *store.View, c *change) error {
		for n := 0; n < deleteChunk && len(*left) > 0; n, *left = n+1, (*left)[1:] {
			for r, err := range v.Records((*left)[0].first) {
				if err != nil {
					return err
				}
				if r.ID >= (*left)[0].end {
					break
				}
				if len(c.remove) == deleteChunk {
					(*left)[0].first = r.ID
					return c.noteKeys(x)
				}
				c.remove = append(c.remove, documentOf(r.ID, r.Record))
			}
		}
		return c.noteKeys(x)
	}
}

// noteKeys is noteKey of what is removed.
func (c *change) noteKeys(x *Index) error {
	for i := range c.remove {
		if key := c.remove[i].Key; key != "" {
			if err := c.noteKey(x, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// bareScan goes through all postings for bare documents. Those with a record are gone by
// then, so every ID of the ranges that a posting still has is of a bare one.
type bareScan struct {
	ranges idRanges

	stored, first uint64 // where to go on: the fingerprint, and the first of its IDs
	done          bool
}

// pick picks the next documents, and looks at a bounded number of IDs.
func (s *bareScan) pick(v *store.View, c *change) error {
	scanned := 0
	for p, err := range v.Postings(s.stored) {
		if err != nil {
			return err
		}
		if p.Stored != s.stored {
			s.stored, s.first = p.Stored, 0
		}
		for id := range p.IDs.From(s.first) {
			if id >= s.ranges[len(s.ranges)-1].end {
				break
			}
			if scanned++; scanned > scanChunk || len(c.remove) == deleteChunk {
				s.first = id
				return nil
			}
			if s.ranges.has(id) {
				c.remove = append(c.remove, bareDocument(id, p.Stored))
			}
		}
	}
	s.done = true
	return nil
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

// expiredBefore returns what was added before a time, and whether any document is bare.
func (x *Index) expiredBefore(t time.Time) (e expired, bare bool, err error) {
	v, counters, err := x.snapshot()
	if err != nil {
		return expired{}, false, err
	}
	defer v.Close()
	at := idRange{first: 1}
	old := true // what came before the first entry is that old
	newest := uint64(0)
	for c, err := range v.Clock() {
		if err != nil {
			return expired{}, false, err
		}
		if before := c.Added().Before(t); before != old {
			at.end = c.First
			e.add(at, at.end, old)
			at.first, old = c.First, before
		}
		newest = c.First
	}
	at.end = counters.NextID
	e.add(at, newest, old)
	return e, counters.Bare > 0, nil
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
