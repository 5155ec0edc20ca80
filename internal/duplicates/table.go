package duplicates

import (
	"cmp"
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

// crowded reports whether the document has ManyTexts.
func (p *Page) crowded() bool { return p.Texts.Estimate() >= ManyTexts }

// Table holds counts that are not stored yet, and follows documents that different texts of their
// own site are duplicates of. At most 2,048 documents are followed: if there are more, the half
// with fewer texts is forgotten. The zero Table is empty. Calls of Pending and Most may run at the
// same time as others.
type Table struct {
	mu      sync.Mutex
	pending map[uint64]Count
	pages   map[uint64]*Page
	changed bool // the crowded documents may be others than Crowded returned last

	returned int // documents that Crowded returned last
}

// Add counts a duplicate of a document. texts is empty if the text of the duplicate is the
// document's or it is of another site.
func (t *Table) Add(id uint64, key string, texts Texts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == nil {
		t.pending = make(map[uint64]Count)
	}
	t.pending[id] = t.pending[id].Add(Count{1, texts})
	if texts != 0 {
		t.follow(Page{id, key, texts})
	}
}

// Follow begins to follow a document whose texts are known.
func (t *Table) Follow(p Page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follow(p)
}

func (t *Table) follow(p Page) {
	if known := t.pages[p.ID]; known != nil {
		before := known.crowded()
		known.Texts |= p.Texts
		t.changed = t.changed || known.crowded() != before && t.returned < maxCrowded
		return
	}
	if len(t.pages) >= maxPages {
		for _, forgotten := range t.mostFirst()[maxPages/2:] {
			delete(t.pages, forgotten.ID)
		}
	}
	if len(p.Key) > maxKeyBytes {
		p.Key = ""
	}
	if t.pages == nil {
		t.pages = make(map[uint64]*Page)
	}
	t.pages[p.ID] = &p
	t.changed = t.changed || p.crowded() && t.returned < maxCrowded
}

// mostFirst returns the documents that are followed by their number of texts, then ID.
func (t *Table) mostFirst() []Page {
	pages := make([]Page, 0, len(t.pages))
	for _, p := range t.pages {
		pages = append(pages, *p)
	}
	slices.SortFunc(pages, func(a, b Page) int {
		return cmp.Or(cmp.Compare(b.Texts.AtLeast(), a.Texts.AtLeast()), cmp.Compare(a.ID, b.ID))
	})
	return pages
}

// Crowded returns the IDs of the documents with ManyTexts and more, the largest first, at most 64,
// and whether they may have changed since the last call.
func (t *Table) Crowded() (ids []uint64, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.changed {
		return nil, false
	}
	t.changed = false
	for _, p := range t.mostFirst()[:min(len(t.pages), maxCrowded)] {
		if p.crowded() {
			ids = append(ids, p.ID)
		}
	}
	t.returned = len(ids)
	return ids, true
}

// Most returns the crowded document with most texts, and whether there is one.
func (t *Table) Most() (most Page, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.pages {
		if more := cmp.Compare(p.Texts.AtLeast(), most.Texts.AtLeast()); more > 0 || more == 0 &&
			p.ID < most.ID {
			most = *p
		}
	}
	return most, most.crowded()
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
	ids := make([]uint64, 0, len(t.pending))
	for id := range t.pending {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
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
	if p := t.pages[id]; p != nil && p.crowded() {
		t.changed = true
	}
	delete(t.pending, id)
	delete(t.pages, id)
}
