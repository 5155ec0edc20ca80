package duplicates

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// manyTexts is the smallest number of different texts that makes a document crowded.
const manyTexts = 16

const (
	maxPages    = 2048 // followed documents
	maxCrowded  = 64   // crowded documents that Crowded returns
	maxKeyBytes = 2048 // longer keys are not kept
)

// Page is a followed document: different texts of its own site are duplicates of it.
type Page struct {
	ID    uint64
	Key   string // "": no key, or a key of more than 2 KiB
	Texts Texts  // found since the document is followed
}

// Table has the counts that are not stored yet. It also follows the documents of which different
// texts of their own site are duplicates, but at most 2,048: if there are more, it forgets the half
// with fewer texts. The zero Table is empty. It is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	pending map[uint64]Count
	pages   map[uint64]Page
}

// Add counts a duplicate of a document. texts is empty if the duplicate has the same text or is on
// another site.
func (t *Table) Add(id uint64, key string, texts Texts) {
	t.mu.Lock()
	if t.pending == nil {
		t.pending = make(map[uint64]Count)
	}
	t.pending[id] = t.pending[id].Add(Count{1, texts})
	t.mu.Unlock()
	if texts != 0 {
		t.Follow(Page{id, key, texts})
	}
}

// Follow adds the texts of a document, and follows the document from now on.
func (t *Table) Follow(p Page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, found := t.pages[p.ID]
	switch {
	case found:
		known.Texts |= p.Texts
		p = known
	case len(t.pages) >= maxPages:
		for _, forgotten := range t.mostFirst()[maxPages/2:] {
			delete(t.pages, forgotten.ID)
		}
	case t.pages == nil:
		t.pages = make(map[uint64]Page)
	}
	if len(p.Key) > maxKeyBytes {
		p.Key = ""
	}
	t.pages[p.ID] = p
}

// mostFirst returns the followed documents, sorted by number of texts, the largest first, then ID.
func (t *Table) mostFirst() []Page {
	return slices.SortedFunc(maps.Values(t.pages), func(a, b Page) int {
		return cmp.Or(cmp.Compare(b.Texts.AtLeast(), a.Texts.AtLeast()), cmp.Compare(a.ID, b.ID))
	})
}

// Crowded returns the crowded documents, at most 64, with the largest number of texts first.
func (t *Table) Crowded() []Page {
	t.mu.Lock()
	defer t.mu.Unlock()
	pages := t.mostFirst()
	for n := range pages {
		if n == maxCrowded || pages[n].Texts.Estimate() < manyTexts {
			return pages[:n]
		}
	}
	return pages
}

// Pending returns the part of the count of a document that is not stored yet.
func (t *Table) Pending(id uint64) Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending[id]
}

// Len returns the number of documents with counts that are not stored yet.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending)
}

// Each calls store with each count that is not stored yet, in the order of IDs.
func (t *Table) Each(store func(id uint64, c Count)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(t.pending)) {
		store(id, t.pending[id])
	}
}

// Stored forgets the pending counts, which the caller has stored. A reader that calls Pending
// before it reads the stored count misses no duplicate.
func (t *Table) Stored() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.pending)
}

// Remove forgets a document.
func (t *Table) Remove(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, id)
	delete(t.pages, id)
}
