package index

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/store"
)

// Add stores documents without comparing them with others, in one atomic batch, and sets ID and
// Added of each in docs. If the Key of a document is already stored, the document replaces the
// earlier one. If several documents in docs have the same Key, only the last is stored, and the
// others get its ID.
//
// Add returns when the batch is as durable as Options.Durability requires. Errors: ErrTooLarge,
// ErrNoText, ErrReadOnly, ErrFailed, ErrClosed, ErrCorrupt, and the error of the context. After an
// error, no document is stored, with one exception: if the disk failed during the commit, the batch
// may be stored, and the next write returns ErrFailed.
func (x *Index) Add(ctx context.Context, docs ...Document) error {
	if err := x.beginWrite(ctx); err != nil {
		return err
	}
	defer x.end()
	if err := cmp.Or(x.validate(docs), checkSize(docs, len(x.plan.Tables))); err != nil {
		return err
	}
	if len(docs) == 0 {
		return nil
	}
	last := make(map[string]int, len(docs)) // the document that is stored for a key
	for i := range docs {
		last[docs[i].Key] = i
	}
	if err := x.commitKeys(ctx, maps.Keys(last), func(known map[string]Document) (c change) {
		for i := range docs {
			if key := docs[i].Key; key == "" || last[key] == i {
				old, found := known[key]
				c.store(&docs[i], old, found)
			}
		}
		return c
	}); err != nil {
		return err
	}
	for i := range docs {
		if stored := &docs[last[docs[i].Key]]; stored.Key != "" {
			docs[i].ID, docs[i].Added = stored.ID, stored.Added
		}
	}
	return nil
}

// commitKeys commits the change that decide returns for the stored documents with the given keys.
// It looks up the keys in a snapshot, before it takes the commit lock. If other calls may have
// written one of the keys since, it looks up all of them again.
func (x *Index) commitKeys(
	ctx context.Context, keys iter.Seq[string], decide func(known map[string]Document) change,
) error {
	since := x.recent.mark()
	known, err := x.documentsOf(ctx, keys)
	if err != nil {
		return err
	}
	return x.commit(func() (change, error) {
		if x.recent.wroteKey(since, keys) {
			if known, err = x.documentsOf(ctx, keys); err != nil {
				return change{}, err
			}
		}
		return decide(known), nil
	})
}

// commit applies the change that decide returns, and waits until it and all earlier changes are as
// durable as Options.Durability requires. decide is called with the commit lock held.
func (x *Index) commit(decide func() (change, error)) error {
	last, err := func() (*store.Commit, error) {
		x.commitMu.Lock()
		defer x.commitMu.Unlock()
		c, err := decide()
		if err == nil && !c.empty() {
			err = x.applyChange(&c)
		}
		return x.store.Last(), err
	}()
	if err != nil {
		return err
	}
	return last.Wait()
}

// documentsOf returns the documents with the given keys, by key.
func (x *Index) documentsOf(
	ctx context.Context, keys iter.Seq[string],
) (known map[string]Document, err error) {
	known = make(map[string]Document)
	r := x.reader()
	defer func() { err = cmp.Or(err, r.close()) }()
	for key := range keys {
		d, found, err := r.byKey(key)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		if found {
			known[key] = d
		}
	}
	return known, nil
}

// change is the set of documents that one commit stores and removes.
type change struct {
	add    []*Document // get their IDs in the commit
	update []*Document // keep their IDs; only their records are written
	remove []Document
	counts []duplicateOf
	by     *window // that decided the change; nil if the change depends on no other document
}

func (c *change) empty() bool { return len(c.add)+len(c.update)+len(c.remove) == 0 }

// duplicateOf is a duplicate of a document. The document may get its ID in the same commit.
type duplicateOf struct {
	document *Document
	// text of the duplicate, if it is on the site of the document and has another text
	texts duplicates.Texts
}

// newDuplicate returns the duplicateOf of a page.
func newDuplicate(page, of *Document) duplicateOf {
	d := duplicateOf{document: of}
	if page.Digest != 0 && of.Digest != 0 && page.Digest != of.Digest &&
		duplicates.SameSite(page.Key, of.Key) {
		d.texts = duplicates.TextOf(uint64(page.Digest))
	}
	return d
}

// store adds a document to the change. If known is set, it replaces the earlier version old.
func (c *change) store(d *Document, old Document, known bool) {
	if known && sameEntries(&old, d) {
		d.ID = old.ID
		c.update = append(c.update, d)
		return
	}
	c.add = append(c.add, d)
	if known {
		c.remove = append(c.remove, old)
	}
}

// sameEntries reports whether a new version of a document keeps the entries, and so the ID, of the
// earlier one. Equal Shingles are required since they are cached by ID.
func sameEntries(old, d *Document) bool {
	return old.Fingerprint == d.Fingerprint && old.Scope == d.Scope && old.Shingles == d.Shingles
}

// maxChangeBytes bounds a commit of Add. The limit of Pebble is 4 GB.
const maxChangeBytes = 1 << 30

func checkSize(docs []Document, tables int) error {
	size := 0
	for i := range docs {
		size += len(docs[i].Key) + len(docs[i].Scope) + 96 + 24*tables
	}
	if size > maxChangeBytes {
		return fmt.Errorf("%w: a batch of %d documents takes %d bytes; split it into batches of "+
			"at most %d bytes", ErrTooLarge, len(docs), size, maxChangeBytes)
	}
	return nil
}

// applyChange assigns IDs, applies a change and publishes it. The commit lock must be held. The
// caller releases it and then waits for the disk: see store.Last.
func (x *Index) applyChange(c *change) error {
	counters, second := x.counters, x.opts.second()
	added := time.Unix(int64(second), 0).UTC()
	batch := x.store.NewBatch()
	for _, d := range c.update {
		d.Added = added
		batch.SetRecord(recordOf(d))
	}
	for _, d := range c.add {
		d.ID, d.Added = counters.NextID, added
		counters.NextID++
		counters.Documents++
		batch.SetRecord(recordOf(d))
		if d.Key != "" {
			batch.SetKey(store.KeyHash(d.Key), d.ID)
		}
	}
	x.count(c.counts)
	for i := range c.remove {
		x.duplicates.Remove(c.remove[i].ID)
		removeDocument(batch, &c.remove[i], &counters)
	}
	counted := x.duplicates.Len() > maxPendingCounts
	if counted {
		x.writeCounts(batch)
	}
	x.writeTables(batch, c.add)
	batch.SetCounters(counters)
	x.announce(c)
	if x.aroundApply != nil {
		x.aroundApply()
	}
	if err := x.store.Apply(batch, x.opts.Durability == Sync); err != nil {
		return err
	}
	if x.aroundApply != nil {
		x.aroundApply()
	}
	if counted {
		x.duplicates.Stored()
	}
	x.recent.note(c)
	x.counters = counters
	if len(c.add)+len(c.update) > 0 {
		x.oldest = min(x.oldest, second)
	}
	return nil
}

// maxPendingCounts is the number of documents whose counts of duplicates are kept in memory. It is
// cheap to write many counts at a time, in the order of their keys.
const maxPendingCounts = 4096

// count adds duplicates to the pending counts. Their documents must have IDs.
func (x *Index) count(counts []duplicateOf) {
	for _, c := range counts {
		x.duplicates.Add(c.document.ID, c.document.Key, c.texts)
	}
}

// writeCounts adds the counts that are not stored yet to a batch.
func (x *Index) writeCounts(batch *store.Batch) {
	x.duplicates.Each(batch.AddDuplicates)
	var crowded []uint64
	for _, p := range x.duplicates.Crowded() {
		crowded = append(crowded, p.ID)
	}
	batch.SetCrowded(crowded)
}

// storeCounts stores the counts that are not stored yet, if there are more than most. It does not
// wait for the disk. The commit lock must be held.
func (x *Index) storeCounts(most int) error {
	if x.opts.ReadOnly || x.duplicates.Len() <= most {
		return nil
	}
	batch := x.store.NewBatch()
	x.writeCounts(batch)
	if err := x.store.Apply(batch, false); err != nil {
		return err
	}
	x.duplicates.Stored()
	return nil
}

// storeAllCounts stores all counts that are not stored yet. If all are stored, it does not wait for
// the commit lock.
func (x *Index) storeAllCounts() error {
	if x.duplicates.Len() == 0 {
		return nil
	}
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	return x.storeCounts(0)
}

func removeDocument(batch *store.Batch, d *Document, counters *store.Counters) {
	counters.Documents--
	batch.Remove(d.ID)
	batch.DeleteDuplicates(d.ID)
	if isBare(d) {
		counters.Bare--
		return
	}
	batch.DeleteRecord(d.ID)
	if d.Key != "" {
		batch.DeleteKey(store.KeyHash(d.Key), d.ID)
	}
}

// writeTables writes the live entries of documents, table by table in the order of the keys.
func (x *Index) writeTables(batch *store.Batch, docs []*Document) {
	if len(docs) == 0 {
		return
	}
	slices.SortFunc(docs, func(a, b *Document) int { return cmp.Compare(storedOf(a), storedOf(b)) })
	entries := make([]uint64, len(docs))
	for i, d := range docs {
		entries[i] = storedOf(d)
		batch.SetLive(entries[i], d.ID)
	}
	stored := slices.Compact(slices.Clone(entries))
	tables := x.plan.Tables
	for i := 1; i < len(tables); i++ {
		permuted := entries[:len(stored)]
		for j, fp := range stored {
			permuted[j] = tables[i].Permute(fp)
		}
		slices.Sort(permuted)
		for _, entry := range permuted {
			batch.SetEntry(i, entry)
		}
	}
}

// announce adds a change to the filters and the removed IDs, before it becomes visible. So an entry
// that a filter rules out is in no snapshot so far.
func (x *Index) announce(c *change) {
	s := x.state.Load()
	if len(c.remove) > 0 {
		ids := make([]uint64, len(c.remove))
		for i := range c.remove {
			ids[i] = c.remove[i].ID
		}
		s.newest().removed.add(ids, x.recent.mark()) // note gives them these positions
	}
	if len(c.add) > 0 {
		stored, keys := make([]uint64, 0, len(c.add)), make([]uint64, 0, len(c.add))
		first := c.add[0].ID
		for _, d := range c.add {
			stored = append(stored, storedOf(d))
			if d.Key != "" {
				keys = append(keys, store.KeyHash(d.Key))
			}
			first = min(first, d.ID)
		}
		s.newest().Add(stored...)
		s.keys.Add(keys...)
		if x.firstRecord.Load() == noRecord {
			x.firstRecord.Store(first)
		}
	}
	x.applied.Add(1)
}

// recentWrites lists the documents that the last commits stored and removed. A writer decides its
// documents in a snapshot, outside the commit lock. Under the lock, it compares them with the
// writes since the snapshot. If such a write may affect a document, the writer decides again.
//
// All methods except mark need the commit lock.
type recentWrites struct {
	ring  []recentWrite
	count atomic.Uint64 // writes so far; number n is in ring[n%len(ring)]
}

// recentLimit is the number of recent writes that are listed. If there are more writes between the
// snapshot of a window and its commit, all documents of the commit are decided again.
const recentLimit = 4096

// recentWrite is a document that was stored, or removed.
type recentWrite struct {
	stored    uint64 // fingerprint XOR the hash of its scope
	key       uint64 // hash of its key; 0 if there is no key
	removedID uint64 // ID of a removed document; 0 if the document was stored
	by        *window
}

// mark returns the position of the next write. A snapshot that is opened after the call shows all
// writes before this position.
func (r *recentWrites) mark() uint64 { return r.count.Load() }

func (r *recentWrites) add(w recentWrite) {
	n := r.count.Load()
	*r.at(n) = w
	r.count.Store(n + 1)
}

// note adds the writes of a change that was applied.
func (r *recentWrites) note(c *change) {
	for i := range c.remove {
		d := &c.remove[i]
		r.add(recentWrite{stored: storedOf(d), key: keyHashOf(d.Key), removedID: d.ID, by: c.by})
	}
	for _, docs := range [][]*Document{c.add, c.update} {
		for _, d := range docs {
			r.add(recentWrite{stored: storedOf(d), key: keyHashOf(d.Key), by: c.by})
		}
	}
}

// since yields the writes from a position on. known is false if the ring no longer has all of them.
func (r *recentWrites) since(mark uint64) (writes iter.Seq[*recentWrite], known bool) {
	end, limit := r.count.Load(), uint64(len(r.ring))
	return func(yield func(*recentWrite) bool) {
		for n := max(mark, end-min(end, limit)); n < end && yield(r.at(n)); {
			n++
		}
	}, end-mark <= limit
}

func (r *recentWrites) at(n uint64) *recentWrite { return &r.ring[n%uint64(len(r.ring))] }

// wroteKey reports whether a write from a position on may have one of the keys.
func (r *recentWrites) wroteKey(mark uint64, keys iter.Seq[string]) bool {
	writes, known := r.since(mark)
	written := make(map[uint64]bool)
	for w := range writes {
		written[w.key] = true
	}
	for key := range keys {
		if !known || key != "" && written[keyHashOf(key)] {
			return true
		}
	}
	return false
}

// affects reports whether a write may change the verdict on a document. stored is the document's
// stored fingerprint, key is the hash of its key, and of is the ID of the document that the verdict
// names. A write may change the verdict if it has this key or stored a document within k bits. So
// may a removal of this ID or, with neighbours, a removal within k bits.
func (w *recentWrite) affects(stored, key, of uint64, k int, neighbours bool) bool {
	switch {
	case key != 0 && w.key == key:
		return true
	case w.removedID != 0 && !neighbours:
		return w.removedID == of
	}
	return bits.OnesCount64(w.stored^stored) <= k
}

// keyHashOf returns the hash of a key, or 0 for no key. It replaces a hash of 0 by 1. Two keys with
// equal hashes affect each other, which is harmless.
func keyHashOf(key string) uint64 {
	if key == "" {
		return 0
	}
	return max(store.KeyHash(key), 1)
}
