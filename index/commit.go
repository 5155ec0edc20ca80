package index

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/neardup/neardup/internal/store"
)

// change is what one commit does: documents to add, which get their IDs then, and
// documents to remove. Its flight must be in the air until it is applied.
type change struct {
	add    []*Document
	remove []Document
	keys   map[uint64]keyChange // by hash

	restsOn []rest // must be there still
}

type rest struct{ id, stored uint64 }

// errOvertaken: a document that a change rests on was removed before it was applied.
var errOvertaken = errors.New("overtaken by another change")

func (x *Index) checkRests(c *change) error {
	for _, d := range c.restsOn {
		ids, err := x.store.Posting(d.stored)
		if err != nil {
			return err
		}
		if !ids.Contains(d.id) {
			return errOvertaken
		}
	}
	return nil
}

// keyChange is the documents whose keys have one hash.
type keyChange struct {
	ids     store.IDs
	changed bool
}

func (c *change) empty() bool { return len(c.add) == 0 && len(c.remove) == 0 }

// noteKey looks up the documents that share a key's hash. It must be done for the
// key of every document that is added or removed. No other change touches the key
// while this one is in the air, so the newest state is that of any view of it.
func (c *change) noteKey(x *Index, key string) error {
	hash := store.KeyHash(key)
	if _, noted := c.keys[hash]; noted {
		return nil
	}
	var ids store.IDs
	if x.keys.MayContain(hash) {
		var err error
		if ids, err = x.store.KeyIDs(hash); err != nil {
			return err
		}
	}
	if c.keys == nil {
		c.keys = make(map[uint64]keyChange)
	}
	c.keys[hash] = keyChange{ids: ids}
	return nil
}

// replace lets the change remove the document that has a key, if there is one.
func (c *change) replace(x *Index, key string) (old Document, known bool, err error) {
	if err := c.noteKey(x, key); err != nil {
		return Document{}, false, err
	}
	old, known, err = findKey(x.store, key, c.keys[store.KeyHash(key)].ids)
	if err == nil && known {
		c.remove = append(c.remove, old)
	}
	return old, known, err
}

// maxChangeBytes bounds a commit. Pebble's own bound is 4 GB.
const maxChangeBytes = 1 << 30

func (x *Index) checkSize(docs []Document) error {
	size := 0
	for i := range docs {
		size += len(docs[i].Key) + len(docs[i].Scope) + 64 + 24*len(x.plan.Tables)
	}
	if size > maxChangeBytes {
		return fmt.Errorf("%w: a batch of %d documents takes %d bytes, at most %d are written at once: split it", ErrTooLarge, len(docs), size, maxChangeBytes)
	}
	return nil
}

// apply gives the added documents their IDs and makes the change visible. finish
// must be called: it waits for what Durability asks for.
func (x *Index) apply(c *change) (finish func() error, err error) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	if err := x.checkRests(c); err != nil {
		return nil, err
	}
	counters, second := x.counters, x.lastSecond
	batch := x.store.NewBatch()
	if len(c.add) > 0 {
		if second = x.opts.second(); second != x.lastSecond {
			batch.SetClock(counters.NextID, second)
		}
	}
	postings := make(map[uint64]*postingChange)
	for i := range c.remove {
		c.removeDocument(batch, &c.remove[i], postings, &counters)
	}
	for _, d := range c.add {
		d.ID, d.Added = counters.NextID, time.Unix(int64(second), 0).UTC()
		counters.NextID++
		c.addDocument(batch, d, postings, &counters)
	}
	for _, hash := range slices.Sorted(maps.Keys(c.keys)) {
		if key := c.keys[hash]; key.changed {
			batch.SetKeyIDs(hash, key.ids)
		}
	}
	if err := x.writeTables(batch, postings); err != nil {
		batch.Close()
		return nil, err
	}
	batch.SetCounters(counters)
	x.announce(postings, c, counters)
	finish, err = x.store.Apply(batch, x.opts.Durability == Sync)
	if err == nil {
		x.counters, x.lastSecond = counters, second
		x.nextID.Store(counters.NextID)
	}
	return finish, err
}

// announce tells readers of a change before it is visible.
func (x *Index) announce(postings map[uint64]*postingChange, c *change, counters store.Counters) {
	x.live.Add(slices.Collect(maps.Keys(postings))...)
	for hash, key := range c.keys {
		if key.changed {
			x.keys.Add(hash)
		}
	}
	if counters.Bare < counters.Documents && x.firstRecord.Load() == noRecord {
		for _, d := range c.add {
			if r := recordOf(d); !r.Bare() {
				x.firstRecord.Store(d.ID)
				break
			}
		}
	}
	x.applied.Add(1)
}

type postingChange struct{ added, removed []uint64 }

func changeOf(postings map[uint64]*postingChange, stored uint64) *postingChange {
	p := postings[stored]
	if p == nil {
		p = &postingChange{}
		postings[stored] = p
	}
	return p
}

func (c *change) addDocument(batch *store.Batch, d *Document, postings map[uint64]*postingChange, counters *store.Counters) {
	p := changeOf(postings, storedOf(d))
	p.added = append(p.added, d.ID)
	counters.Documents++
	r := recordOf(d)
	if r.Bare() {
		counters.Bare++
		return
	}
	batch.SetRecord(d.ID, r)
	if d.Key != "" {
		hash := store.KeyHash(d.Key)
		c.keys[hash] = keyChange{c.keys[hash].ids.With(d.ID), true}
	}
}

func (c *change) removeDocument(batch *store.Batch, d *Document, postings map[uint64]*postingChange, counters *store.Counters) {
	p := changeOf(postings, storedOf(d))
	p.removed = append(p.removed, d.ID)
	counters.Documents--
	if recordOf(d).Bare() {
		counters.Bare--
		return
	}
	batch.DeleteRecord(d.ID)
	if d.Key != "" {
		hash := store.KeyHash(d.Key)
		c.keys[hash] = keyChange{c.keys[hash].ids.Without(store.NewIDs(d.ID)), true}
	}
}

// writeTables writes the changed postings, and the entries of fingerprints that
// come to be stored or cease to be, table by table in key order. A fingerprint that
// is stored already costs its posting only.
func (x *Index) writeTables(batch *store.Batch, postings map[uint64]*postingChange) error {
	var appear, vanish []uint64
	for _, stored := range slices.Sorted(maps.Keys(postings)) {
		p := postings[stored]
		gone, err := x.leavesNone(stored, p)
		if err != nil {
			return err
		}
		packed, err := x.isPacked(stored)
		if err != nil {
			return err
		}
		if gone && !packed {
			batch.DeletePosting(stored)
			delete(x.rewrites, stored)
			vanish = append(vanish, stored)
			continue
		}
		there := packed || len(p.removed) > 0
		if !there {
			if there, err = x.isLive(stored); err != nil {
				return err
			}
		}
		if !there {
			appear = append(appear, stored)
		}
		if err := x.writePosting(batch, stored, p, there, packed); err != nil {
			return err
		}
	}
	permuted := make([]uint64, max(len(appear), len(vanish)))
	for i := 1; i < len(x.plan.Tables); i++ {
		for _, entry := range x.permute(permuted, appear, i) {
			batch.SetEntry(i, entry)
		}
		for _, entry := range x.permute(permuted, vanish, i) {
			batch.DeleteEntry(i, entry)
		}
	}
	return nil
}

// leavesNone reports whether a change takes the last documents of a fingerprint.
func (x *Index) leavesNone(stored uint64, p *postingChange) (bool, error) {
	if len(p.removed) == 0 || len(p.added) > 0 {
		return false, nil
	}
	ids, err := x.store.Posting(stored)
	return ids.Without(store.NewIDs(slices.Clone(p.removed)...)).Len() == 0, err
}

// isPacked reports whether a fingerprint has an entry in every packed table.
func (x *Index) isPacked(stored uint64) (bool, error) {
	p := x.store.Packed(0)
	if p == nil || !x.packed.MayContain(stored) {
		return false, nil
	}
	return p.Contains(stored)
}

// isLive reports whether a fingerprint has a live entry in the tables from 1 on. They
// are asked rather than table 0, whose posting may take long to merge.
func (x *Index) isLive(stored uint64) (bool, error) {
	if len(x.plan.Tables) == 1 || !x.live.MayContain(stored) {
		return false, nil
	}
	return x.store.ContainsLive(1, x.plan.Tables[1].Permute(stored))
}

// permute fills dst with the sorted entries of some fingerprints in a table.
func (x *Index) permute(dst, stored []uint64, table int) []uint64 {
	dst = dst[:len(stored)]
	for i, fp := range stored {
		dst[i] = x.plan.Tables[table].Permute(fp)
	}
	slices.Sort(dst)
	return dst
}
