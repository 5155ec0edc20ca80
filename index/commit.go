package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// Add stores documents as they are, whatever is stored already, in one atomic
// batch, and sets ID and Added of each in docs. A document whose Key is known
// replaces the one that has it; of several with one Key in docs the last counts,
// and the others get its ID.
//
// It returns when the batch is as durable as Options.Durability says. Errors:
// ErrTooLarge, ErrNoText, ErrReadOnly, ErrFailed, ErrClosed, ctx's; nothing is stored then,
// unless the disk failed in the very moment (ErrFailed on the next write).
func (x *Index) Add(ctx context.Context, docs ...Document) error {
	if err := x.beginWrite(ctx); err != nil {
		return err
	}
	defer x.end()
	if err := cmp.Or(x.validate(docs), checkSize(docs, len(x.Plan().Tables))); err != nil {
		return err
	}
	if len(docs) == 0 {
		return nil
	}
	finish, err := x.add(ctx, docs)
	if err != nil {
		return err
	}
	return finish()
}

func (x *Index) add(ctx context.Context, docs []Document) (finish func() error, err error) {
	pending := newPendingWrite(docs)
	if err := x.enter(ctx, pending); err != nil {
		return nil, err
	}
	defer x.pending.leave(pending)

	last := make(map[string]int, len(docs))
	for i := range docs {
		last[docs[i].Key] = i
	}
	var c change
	for i := range docs {
		if docs[i].Key != "" && last[docs[i].Key] != i {
			continue
		}
		c.add = append(c.add, &docs[i])
		if docs[i].Key == "" {
			continue
		}
		if _, _, err := c.replace(x, x.store, docs[i].Key); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if finish, err = x.apply(&c); err != nil {
		return nil, err
	}
	for i := range docs {
		if j := last[docs[i].Key]; docs[i].Key != "" && j != i {
			docs[i].ID, docs[i].Added = docs[j].ID, docs[j].Added
		}
	}
	return finish, nil
}

// change is what one commit does: documents to add, which get their IDs then, and
// documents to remove. Its pendingWrite must have entered, and not left.
type change struct {
	add    []*Document
	remove []Document
	keys   map[uint64]keyChange // by hash

	dependsOn []dependency // must be there still
	since     uint64       // how many removals there were before these were seen
}

// keyChange is the documents whose keys have one hash.
type keyChange struct {
	ids     store.IDs
	changed bool
}

func (c *change) empty() bool { return len(c.add) == 0 && len(c.remove) == 0 && len(c.dependsOn) == 0 }

// noteKey looks up the documents that share a key's hash. It must be done for the
// key of every document that is added or removed. No other change touches the key
// while this one is pending, so the newest state is that of any view that was opened since.
func (c *change) noteKey(x *Index, from documents, key string) error {
	hash := store.KeyHash(key)
	if _, noted := c.keys[hash]; noted {
		return nil
	}
	var ids store.IDs
	if x.state.Load().keys.MayContain(hash) {
		var err error
		if ids, err = from.KeyIDs(hash); err != nil {
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
func (c *change) replace(x *Index, from documents, key string) (old Document, known bool, err error) {
	if err := c.noteKey(x, from, key); err != nil {
		return Document{}, false, err
	}
	old, known, err = findKey(from, key, c.keys[store.KeyHash(key)].ids)
	if err == nil && known {
		c.remove = append(c.remove, old)
	}
	return old, known, err
}

// maxChangeBytes bounds a commit. Pebble's own bound is 4 GB.
const maxChangeBytes = 1 << 30

func checkSize(docs []Document, tables int) error {
	size := 0
	for i := range docs {
		size += len(docs[i].Key) + len(docs[i].Scope) + 64 + 24*tables
	}
	if size > maxChangeBytes {
		return fmt.Errorf("%w: a batch of %d documents takes %d bytes, at most %d are written at once: split it", ErrTooLarge, len(docs), size, maxChangeBytes)
	}
	return nil
}

// apply gives the added documents their IDs and makes the change visible. finish
// must be called: it waits for what Durability asks for.
//
// Changes that only add are applied together with those that come while they wait for the commit lock: pending
// writes have nothing to do with each other, and a commit of its own costs each as much as its entries do.
func (x *Index) apply(c *change) (finish func() error, err error) {
	switch {
	case len(c.remove) > 0 || len(c.dependsOn) > 0:
		x.commitMu.Lock()
	case x.pending.count() == 1 && x.commitMu.TryLock(): // there is none to wait for
	default:
		g, at := x.joining.join(c)
		if at == 0 {
			x.commitGroup(g)
		}
		<-g.done
		return g.finish[at], g.err[at]
	}
	defer x.commitMu.Unlock()
	return x.commit(c)
}

// joining is the group of changes that is to be applied next.
type joining struct {
	mu   sync.Mutex
	next *group // nil: none waits
}

// group is changes that are applied together.
type group struct {
	changes []*change
	adds    int           // documents
	done    chan struct{} // closed when all are applied, or have failed
	finish  []func() error
	err     []error
}

// join adds a change to the group that waits, or begins one, as far as its documents are no more than those of a
// window. The first of a group is to apply it.
func (j *joining) join(c *change) (g *group, at int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.next == nil || j.next.adds+len(c.add) > windowLimit {
		j.next = &group{done: make(chan struct{})}
	}
	g = j.next
	g.changes, g.adds = append(g.changes, c), g.adds+len(c.add)
	return g, len(g.changes) - 1
}

// close lets nothing more join a group.
func (j *joining) close(g *group) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.next == g {
		j.next = nil
	}
}

// errPanicked is what the other changes of a group get where the commit of one panics, as Options.Now may.
var errPanicked = errors.New("not stored: a commit of several calls has panicked in another one")

// commitGroup applies a group as one change; where that fails, one by one, so that each fails for itself.
func (x *Index) commitGroup(g *group) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	defer close(g.done)
	x.joining.close(g)
	g.finish, g.err = make([]func() error, len(g.changes)), slices.Repeat([]error{errPanicked}, len(g.changes))
	if len(g.changes) > 1 {
		all := change{keys: make(map[uint64]keyChange)}
		for _, c := range g.changes {
			all.add = append(all.add, c.add...)
			maps.Copy(all.keys, c.keys)
		}
		if finish, err := x.commit(&all); err == nil {
			once := sync.OnceValue(finish)
			for i := range g.finish {
				g.finish[i], g.err[i] = once, nil
			}
			return
		}
	}
	for i, c := range g.changes {
		g.finish[i], g.err[i] = x.commit(c)
	}
}

// commit applies a change. The commit lock must be held.
func (x *Index) commit(c *change) (finish func() error, err error) {
	if err := x.checkDependencies(c); err != nil {
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
		if len(c.add) > 0 {
			x.oldest = min(x.oldest, second)
		}
		x.removals.add(c.remove)
		x.nextID.Store(counters.NextID)
		if x.deletions.due {
			x.deletions = deletions{}
			x.store.FlushSoon()
		}
	}
	return finish, err
}

// announce tells readers of a change before it is visible.
func (x *Index) announce(postings map[uint64]*postingChange, c *change, counters store.Counters) {
	s := x.state.Load()
	s.written().Add(slices.Collect(maps.Keys(postings))...)
	for hash, key := range c.keys {
		if key.changed {
			s.keys.Add(hash)
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
	tables := x.Plan().Tables
	var appear, vanish []uint64
	for _, stored := range slices.Sorted(maps.Keys(postings)) {
		p := postings[stored]
		gone, err := x.leavesNone(stored, p)
		if err != nil {
			return err
		}
		settled, err := x.isSettled(stored)
		if err != nil {
			return err
		}
		if gone && !settled {
			batch.DeleteEntry(0, stored)
			delete(x.rewrites, stored)
			x.deletions.count(stored)
			vanish = append(vanish, stored)
			continue
		}
		if !settled && len(p.removed) == 0 && !x.state.Load().written().MayContain(stored) {
			// The first of its epoch is written whole: Pebble reads on below what is to be merged.
			appear = append(appear, stored)
			batch.SetPosting(stored, store.NewIDs(p.added...), store.IDs{})
			continue
		}
		there := settled || len(p.removed) > 0 || len(p.added) == 0
		if !there {
			if there, err = x.isLive(stored, tables); err != nil {
				return err
			}
		}
		if !there {
			appear = append(appear, stored)
		}
		if err := x.writePosting(batch, stored, p, there, settled); err != nil {
			return err
		}
	}
	permuted := make([]uint64, max(len(appear), len(vanish)))
	for i := 1; i < len(tables); i++ {
		for _, entry := range permute(permuted, appear, &tables[i]) {
			batch.SetEntry(i, entry)
		}
		for _, entry := range permute(permuted, vanish, &tables[i]) {
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
	ids, err := x.store.Now().Posting(stored)
	return ids.Without(store.NewIDs(slices.Clone(p.removed)...)).Len() == 0, err
}

// isSettled reports whether a fingerprint needs no live entry but its posting: it has documents in what is
// packed and in the epoch that is frozen, and so an entry in every table there. A compaction, which leaves out
// what has none, changes nothing about that.
func (x *Index) isSettled(stored uint64) (bool, error) {
	s := x.state.Load()
	packed := s.packed.MayContain(stored)
	if !s.tables.Frozen() {
		p := s.tables.Packed(0)
		if p == nil || !packed {
			return false, nil
		}
		return p.Contains(stored)
	}
	if !packed && !s.live[0].MayContain(stored) {
		return false, nil
	}
	ids, err := s.tables.SettledPosting(stored)
	return !ids.Empty(), err
}

// isLive reports whether a fingerprint that may be live has an entry in the tables from 1 on. One of them
// is asked rather than table 0, whose posting may take long to merge.
func (x *Index) isLive(stored uint64, tables []plan.Table) (bool, error) {
	if len(tables) == 1 {
		return true, nil
	}
	return x.store.Now().ContainsLive(1, tables[1].Permute(stored))
}

// permute fills dst with the sorted entries of some fingerprints in a table.
func permute(dst, stored []uint64, t *plan.Table) []uint64 {
	dst = dst[:len(stored)]
	for i, fp := range stored {
		dst[i] = t.Permute(fp)
	}
	slices.Sort(dst)
	return dst
}

// rewrites counts, of postings that change again and again, what was appended to each since
// it was last written whole. Every read of a posting merges all of that, so a posting of a
// million documents that go one commit after the other would be read in a time that grows
// with the square. Written whole once it has grown by as much as it has, it costs twice the
// writes, and a read costs in proportion to the posting. It is used under the commit lock.
type rewrites map[uint64]growth

// growth of a posting, in bytes.
type growth struct{ size, since int }

const (
	leastRewrite = 4 << 10
	maxRewrites  = 1 << 16 // postings that are counted; beyond, all counts begin anew

	// changeBytes is about what a change takes with its key, and idBytes each ID in it.
	changeBytes = 32
	idBytes     = 2
)

// due reports whether a posting is to be written whole, along with a change of so many IDs.
func (r rewrites) due(stored uint64, ids int) bool {
	g, counted := r[stored]
	if !counted && len(r) >= maxRewrites {
		clear(r)
	}
	g.since += changeBytes + idBytes*ids
	r[stored] = g
	return g.since >= max(leastRewrite, g.size)
}

// deletions counts how often each fingerprint has lost its last document. A reader steps over every deleted version
// of an entry that is still in Pebble's memtable, so one that comes and goes thousands of times would take longer
// each time; a flush leaves one version. It is used under the commit lock.
type deletions struct {
	of  map[uint64]int
	due bool // a flush
}

const (
	maxDeletions = 256     // of one fingerprint
	maxDeleted   = 1 << 14 // fingerprints that are counted; beyond, all counts begin anew
)

func (d *deletions) count(stored uint64) {
	if d.of == nil || len(d.of) >= maxDeleted {
		d.of = make(map[uint64]int)
	}
	d.of[stored]++
	d.due = d.due || d.of[stored] >= maxDeletions
}

// writePosting writes a change of a posting. there says that the fingerprint had one, live
// or settled.
func (x *Index) writePosting(batch *store.Batch, stored uint64, p *postingChange, there, settled bool) error {
	added, removed := store.NewIDs(p.added...), store.NewIDs(p.removed...)
	if !there || !x.rewrites.due(stored, len(p.added)+len(p.removed)) {
		batch.ChangePosting(stored, added, removed)
		return nil
	}
	liveAdded, liveRemoved, err := x.store.Now().LivePosting(stored)
	if err != nil {
		return err
	}
	added, removed = liveAdded.Union(added).Without(removed), liveRemoved.Union(removed)
	if settled {
		was, err := x.store.Now().SettledPosting(stored)
		if err != nil {
			return err
		}
		removed = was.Without(was.Without(removed))
	} else {
		removed = store.IDs{} // from what is live it is gone
	}
	x.rewrites[stored] = growth{size: batch.SetPosting(stored, added, removed)}
	return nil
}
