package index

import (
	"math/bits"
	"sync/atomic"

	"github.com/neardup/neardup/store"
)

// recentWrites lists what the last commits have stored and removed. A writer decides its documents
// on a snapshot, outside the commit lock. Under the lock it compares them with the writes since that
// snapshot, and decides those documents again that such a write may affect.
//
// All methods but mark need the commit lock.
type recentWrites struct {
	ring  [recentLimit]recentWrite
	count atomic.Uint64 // writes so far; number n is in ring[n%recentLimit]
}

// recentLimit bounds the memory for recent writes. If more writes than that come between the
// snapshot of a window and its commit, all its documents are decided again.
const recentLimit = 4096

// recentWrite is a document that was stored, or removed.
type recentWrite struct {
	stored  uint64 // fingerprint
	key     uint64 // hash of its key; 0 if there is no key
	removed uint64 // its ID, if it was removed; else 0
	by      *window
	number  uint64 // position among all writes
}

// mark returns the position of the next write. A snapshot that is taken after mark shows all writes
// before that position.
func (r *recentWrites) mark() uint64 { return r.count.Load() }

func (r *recentWrites) add(w recentWrite) {
	n := r.count.Load()
	w.number = n
	r.ring[n%recentLimit] = w
	r.count.Store(n + 1)
}

// note adds the writes of a change that was applied.
func (r *recentWrites) note(c *change) {
	for i := range c.remove {
		d := &c.remove[i]
		r.add(recentWrite{stored: storedOf(d), key: keyHashOf(d), removed: d.ID, by: c.by})
	}
	for _, docs := range [][]*Document{c.add, c.rewrite} {
		for _, d := range docs {
			r.add(recentWrite{stored: storedOf(d), key: keyHashOf(d), by: c.by})
		}
	}
}

// since returns the writes from a position on, in two parts; known is false if the ring no longer
// has all of them.
func (r *recentWrites) since(mark uint64) (parts [2][]recentWrite, known bool) {
	end := r.count.Load()
	if end-mark > recentLimit {
		return parts, false
	}
	from, to := mark%recentLimit, end%recentLimit
	switch {
	case mark == end:
	case from < to:
		parts[0] = r.ring[from:to]
	default:
		parts[0], parts[1] = r.ring[from:], r.ring[:to]
	}
	return parts, true
}

// affects reports whether a write may change the verdict of a document that is a duplicate, or a new
// version, of the document with the ID of.
func (w *recentWrite) affects(stored, key, of uint64, k int) bool {
	switch {
	case key != 0 && w.key == key:
		return true
	case w.removed != 0:
		return w.removed == of
	}
	return bits.OnesCount64(w.stored^stored) <= k
}

// keyHashOf returns the hash of the key of a document, or 0 if it has no key. A hash of 0 counts as
// 1: two keys with equal hashes affect each other, which is harmless.
func keyHashOf(d *Document) uint64 {
	if d.Key == "" {
		return 0
	}
	return max(store.KeyHash(d.Key), 1)
}
