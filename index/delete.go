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
	for left := slices.Clone(e.ids); len(left) > 0; { // e.has asks for all of them still
		if err = x.removePart(ctx, pickRecords(x, &left), &deleted); err != nil {
			return deleted, err
		}
	}
	if bare && len(e.ids) > 0 {
		if err := x.removeBare(ctx, e.ids[len(e.ids)-1].end-1, e.has, &deleted); err != nil {
			return deleted, err
		}
	}
	return deleted, x.forgetClock(e)
}

// removePart is remove for one commit of a deletion of many, which runs alone. It adds to
// the number of all that were deleted.
func (x *Index) removePart(ctx context.Context, choose func(*store.View, *change) error, deleted *int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n, err := x.remove(ctx, &pendingWrite{exclusive: true, done: make(chan struct{})}, choose)
	*deleted += n
	return err
}

// pickRecords picks the next documents with a record in ranges of IDs, and leaves the
// ranges that are still to be looked through.
func pickRecords(x *Index, left *[]idRange) func(*store.View, *change) error {
	return func(v *store.View, c *change) error {
		for ; len(*left) > 0; *left = (*left)[1:] {
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

// removeBare removes the documents without a record whose ID is wanted, up to last.
func (x *Index) removeBare(ctx context.Context, last uint64, wanted func(id uint64) bool, deleted *int) error {
	s := bareScan{last: last, wanted: wanted}
	for !s.done {
		if err := x.removePart(ctx, s.pick, deleted); err != nil {
			return err
		}
	}
	return nil
}

// bareScan goes through all postings for bare documents. Those with a record are gone by
// then, so every ID that is wanted and that a posting still has is of a bare one.
type bareScan struct {
	last   uint64
	wanted func(id uint64) bool

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
			if id > s.last {
				break
			}
			if scanned++; scanned > scanChunk || len(c.remove) == deleteChunk {
				s.first = id
				return nil
			}
			if s.wanted(id) {
				c.remove = append(c.remove, bareDocument(id, p.Stored))
			}
		}
	}
	s.done = true
	return nil
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
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var bare []uint64 // IDs that have no record, ascending
	for chunk := range slices.Chunk(slices.Compact(ids), deleteChunk) {
		if err := x.removePart(ctx, x.pickRecorded(chunk, &bare), &deleted); err != nil {
			return deleted, err
		}
	}
	if len(bare) == 0 {
		return deleted, nil
	}
	last := bare[len(bare)-1]
	wanted := func(id uint64) bool {
		_, found := slices.BinarySearch(bare, id)
		return found
	}
	return deleted, x.removeBare(ctx, last, wanted, &deleted)
}

// pickRecorded picks those of some IDs that have a record, and adds the others to bare.
func (x *Index) pickRecorded(ids []uint64, bare *[]uint64) func(*store.View, *change) error {
	return func(v *store.View, c *change) error {
		for _, id := range ids {
			r, found, err := v.Record(id)
			if err != nil {
				return err
			}
			if !found {
				*bare = append(*bare, id)
				continue
			}
			c.remove = append(c.remove, documentOf(id, r))
		}
		return c.noteKeys(x)
	}
}

// idRange is the IDs from first to the one before end.
type idRange struct{ first, end uint64 }

// expired is what was added before some time: nearly always all IDs below one. Where the
// clock went backwards, what it was ahead for stays among them.
type expired struct {
	ids    []idRange // ascending, apart
	clocks []idRange // of the clock's entries in each of them, those that may go
}

// has reports whether a document has expired.
func (e *expired) has(id uint64) bool {
	_, found := slices.BinarySearchFunc(e.ids, id, func(r idRange, id uint64) int {
		if r.end <= id {
			return -1
		}
		return cmp.Compare(max(r.first, id), id)
	})
	return found
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
	finish, err := x.store.Apply(batch, x.opts.Durability == Sync)
	if err != nil {
		return err
	}
	return finish()
}
