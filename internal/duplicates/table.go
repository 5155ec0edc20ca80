package duplicates

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// ManyTexts is the number of different texts from which a document is crowded.
const ManyTexts = 16

const (
	maxPages    = 2048 // documents whose texts are followed in memory
	maxCrowded  = 64   // crowded documents that are recorded
	maxKeyBytes = 2048 // a longer key is not kept
)

// Page is a stored document that different texts of its own site are duplicates of.
type Page struct {
	ID    uint64
	Key   string // "": none, or one of more than 2 KiB
	Texts Texts  // since the document is followed
}

// Table holds counts that are not stored yet, and follows documents that different texts of their
// own site are duplicates of. At most 2,048 documents are followed: if there are more, the half
// with fewer texts is forgotten. The zero Table is empty. It is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	pending map[uint64]Count
	pages   map[uint64]Page
}

// Add counts a duplicate of a document. texts is empty if the text of the duplicate is the
// document's or it is of another site.
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

// Follow adds the texts of a document, which is followed from now on.
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

// mostFirst returns the documents that are followed by their number of texts, then ID.
func (t *Table) mostFirst() []Page {
	return slices.SortedFunc(maps.Values(t.pages), func(a, b Page) int {
		return cmp.Or(cmp.Compare(b.Texts.AtLeast(), a.Texts.AtLeast()), cmp.Compare(a.ID, b.ID))
	})
}

// Crowded returns the documents with ManyTexts and more, the largest first, at most 64.
func (t *Table) Crowded() []Page {
	t.mu.Lock()
	defer t.mu.Unlock()
	pages := t.mostFirst()
	for n := range pages {
		if n == maxCrowded || pages[n].Texts.Estimate() < ManyTexts {
			return pages[:n]
		}
	}
	return pages
}

// Pending returns the count of a document that is not stored yet.
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

// Stored forgets the counts that are not stored yet. The caller has stored them, so a reader that
// asks Pending first and the store then misses none.
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
