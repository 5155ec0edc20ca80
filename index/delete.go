package index

import (
	"context"
	"slices"
	"time"

	"github.com/neardup/neardup/store"
)

// deleteChunk is the number of documents that one commit removes, and scanChunk that
// of postings that are looked through while everyone else waits.
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
	f := &flight{done: make(chan struct{})}
	for _, key := range keys {
		f.keys = append(f.keys, store.KeyHash(key))
	}
	return x.remove(ctx, f, func(_ *store.View, c *change) error {
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
func (x *Index) remove(ctx context.Context, f *flight, choose func(*store.View, *change) error) (int, error) {
	var c change
	finish, err := func() (func() error, error) {
		if err := x.flights.enter(ctx, f, x.rule()); err != nil {
			return nil, err
		}
		defer x.flights.leave(f)
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
// go on in between; cut short, it has removed the oldest and can be called again.
func (x *Index) DeleteBefore(ctx context.Context, t time.Time) (deleted int, err error) {
	if err := x.beginWrite(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	bound, bare, err := x.boundOf(t)
	if err != nil {
		return 0, err
	}
	for first, n := uint64(1), deleteChunk; n == deleteChunk; {
		if n, err = x.removePart(ctx, x.expireRecords(&first, bound), &deleted); err != nil {
			return deleted, err
		}
	}
	for first, done := uint64(0), !bare; !done; {
		if _, err = x.removePart(ctx, pickBare(&first, &done, bound-1, func(uint64) bool { return true }), &deleted); err != nil {
			return deleted, err
		}
	}
	return deleted, x.forgetClock(bound)
}

// removePart is remove for one commit of a deletion of many, which runs alone. It adds to
// the number of all that were deleted.
func (x *Index) removePart(ctx context.Context, choose func(*store.View, *change) error, deleted *int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n, err := x.remove(ctx, &flight{alone: true, done: make(chan struct{})}, choose)
	*deleted += n
	return n, err
}

// boundOf returns the first ID that was added at or after t, and whether any
// document is bare.
func (x *Index) boundOf(t time.Time) (bound uint64, bare bool, err error) {
	v, counters, err := x.snapshot()
	if err != nil {
		return 0, false, err
	}
	defer v.Close()
	bound, err = v.FirstSince(t, counters.NextID)
	return bound, counters.Bare > 0, err
}

// expireRecords picks the next documents with a record and an ID below bound.
func (x *Index) expireRecords(first *uint64, bound uint64) func(*store.View, *change) error {
	return func(v *store.View, c *change) error {
		for r, err := range v.Records(*first) {
			if err != nil {
				return err
			}
			if r.ID >= bound || len(c.remove) == deleteChunk {
				break
			}
			*first = r.ID + 1
			c.remove = append(c.remove, documentOf(r.ID, r.Record))
		}
		for i := range c.remove {
			if key := c.remove[i].Key; key != "" {
				if err := c.noteKey(x, key); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// pickBare picks the next documents with an ID that is wanted, up to last. Those with
// a record are gone by now, so every such ID that a posting still has is of a bare one.
func pickBare(first *uint64, done *bool, last uint64, wanted func(id uint64) bool) func(*store.View, *change) error {
	return func(v *store.View, c *change) error {
		scanned := 0
		for p, err := range v.Postings(*first) {
			if err != nil {
				return err
			}
			*first = p.Stored // again, if the chunk ends within it
			if scanned++; scanned > scanChunk {
				return nil
			}
			for id := range p.IDs.All() {
				if id > last {
					break
				}
				if !wanted(id) {
					continue
				}
				if len(c.remove) == deleteChunk {
					return nil
				}
				c.remove = append(c.remove, bareDocument(id, p.Stored))
			}
		}
		*done = true
		return nil
	}
}

// forgetClock drops the clock entries that only told of documents below bound.
func (x *Index) forgetClock(bound uint64) error {
	batch := x.store.NewBatch()
	err := x.withView(func(v *store.View) error { return batch.ForgetClock(v, bound) })
	if err != nil {
		batch.Close()
		return err
	}
	x.commitMu.Lock() // or Last might go back to this commit from a newer one
	finish, err := x.store.Apply(batch, x.opts.Durability == Sync)
	x.commitMu.Unlock()
	if err != nil {
		return err
	}
	return finish()
}
