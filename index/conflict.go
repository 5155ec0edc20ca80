package index

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/store"
)

// pendingWrites are those that have begun and are not applied yet, in the order in which they
// began. One that conflicts with an earlier one, because they share a key or have documents
// that match, waits until that is applied. All others go side by side. No two wait for each
// other, since each waits for earlier ones only.
type pendingWrites struct {
	mu   sync.Mutex
	open []*pendingWrite
}

type pendingWrite struct {
	signatures []fingerprint.Signature // of documents to be stored; the fingerprints as the tables hold them
	keys       []uint64                // hashes of the keys that are looked up or changed
	done       chan struct{}           // of enter; closed when it is applied, or given up
}

// maxCompared bounds the comparisons of signatures between two writes, and those of keys. Two windows of
// batches are compared, in about 0.1 ms; larger writes, as of Add and Delete, conflict with each other.
const maxCompared = windowLimit * windowLimit

// count returns how many writes are open.
func (p *pendingWrites) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

func newPendingWrite(docs []Document) *pendingWrite {
	w := newPendingRemoval(docs)
	w.signatures = make([]fingerprint.Signature, len(docs))
	for i := range docs {
		w.signatures[i] = docs[i].Signature()
		w.signatures[i].Fingerprint = fingerprint.Fingerprint(storedOf(&docs[i]))
	}
	return w
}

func newPendingRemoval(docs []Document) *pendingWrite {
	w := &pendingWrite{}
	for i := range docs {
		if docs[i].Key != "" {
			w.keys = append(w.keys, store.KeyHash(docs[i].Key))
		}
	}
	return w
}

func (w *pendingWrite) conflictsWith(v *pendingWrite, r match.Rule) bool {
	if len(w.signatures)*len(v.signatures) > maxCompared || len(w.keys)*len(v.keys) > maxCompared {
		return true
	}
	for _, key := range w.keys {
		if slices.Contains(v.keys, key) {
			return true
		}
	}
	for _, a := range w.signatures {
		for _, b := range v.signatures {
			if d := a.Fingerprint.Distance(b.Fingerprint); d <= r.MaxDistance && r.Allows(d, a, b) {
				return true
			}
		}
	}
	return false
}

// enter is that of the pending writes under the rule of the index, which stays as it is until w leaves.
func (x *Index) enter(ctx context.Context, w *pendingWrite) error {
	for {
		p := x.Plan()
		if err := x.pending.enter(ctx, w, x.rule(p)); err != nil {
			return err
		}
		if x.Plan().MaxDistance == p.MaxDistance {
			return nil
		}
		// It has changed while w waited, perhaps for just that, and w may conflict with others.
		x.pending.leave(w)
	}
}

// enter adds w and waits for those before it that it conflicts with. leave must follow
// unless it fails.
func (p *pendingWrites) enter(ctx context.Context, w *pendingWrite, r match.Rule) error {
	p.mu.Lock()
	var before []chan struct{}
	for _, v := range p.open {
		if w.conflictsWith(v, r) {
			before = append(before, v.done)
		}
	}
	w.done = make(chan struct{})
	p.open = append(p.open, w)
	p.mu.Unlock()
	for _, done := range before {
		select {
		case <-done:
		case <-ctx.Done():
			p.leave(w)
			return ctx.Err()
		}
	}
	return nil
}

func (p *pendingWrites) leave(w *pendingWrite) {
	p.mu.Lock()
	i := slices.Index(p.open, w)
	p.open = slices.Delete(p.open, i, i+1)
	p.mu.Unlock()
	close(w.done)
}

// errConflict: a document that a change or an answer rests on was removed meanwhile.
var errConflict = errors.New("overtaken by another change")

// dependency is a document that a change rests on.
type dependency struct{ id, stored uint64 }

// checkDependencies returns errConflict where a change rests on what is gone. The commit lock must be held.
func (x *Index) checkDependencies(c *change) error {
	for _, d := range c.dependsOn {
		gone, known := x.removals.after(c.since, d.id)
		if !known {
			ids, err := x.store.Now().Posting(d.stored)
			if err != nil {
				return err
			}
			gone = !ids.Contains(d.id)
		}
		if gone {
			return errConflict
		}
	}
	return nil
}

// removals are the documents that commits took out, in their order, and the last of these. They are counted once that
// is visible: who opens a view sees all that were counted before. They are changed under the commit lock.
type removals struct {
	count atomic.Uint64
	last  [rememberedRemovals]uint64 // IDs, the n-th at n modulo the length
}

const rememberedRemovals = 1 << 10

func (r *removals) add(docs []Document) {
	n := r.count.Load()
	for i := range docs {
		r.last[n%rememberedRemovals] = docs[i].ID
		n++
	}
	r.count.Store(n)
}

// after reports whether a document was removed after the first n, and whether that is known. The commit lock must be held.
func (r *removals) after(n, id uint64) (removed, known bool) {
	count := r.count.Load()
	if count-n > rememberedRemovals {
		return false, false
	}
	for ; n < count && !removed; n++ {
		removed = r.last[n%rememberedRemovals] == id
	}
	return removed, true
}
