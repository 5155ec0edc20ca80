package bench

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// soakModel is what one worker of a soak knows of the documents of its scope, which no
// one else changes but expiry. It answers by comparing with each of them.
type soakModel struct {
	k      int
	docs   []index.Document // by ID, which only grows; the zero Document: gone
	ids    []uint64         // of docs, also of those that are gone
	prints []uint64         // of docs; beside them, as every query goes through all
	gone   int
	byKey  map[string]uint64 // ID
}

func newSoakModel(k int) *soakModel { return &soakModel{k: k, byKey: make(map[string]uint64)} }

func (m *soakModel) live() int { return len(m.docs) - m.gone }

// at returns the place of an ID that is there.
func (m *soakModel) at(id uint64) int {
	i, _ := slices.BinarySearch(m.ids, id)
	return i
}

func (m *soakModel) last() uint64 {
	if len(m.ids) == 0 {
		return 0
	}
	return m.ids[len(m.ids)-1]
}

// add takes in a document as the index has stored it, in the place of the one that had
// its key.
func (m *soakModel) add(d index.Document) error {
	if d.ID == 0 || d.ID <= m.last() {
		return fmt.Errorf("%w: ID %d after %d", ErrWrongAnswer, d.ID, m.last())
	}
	m.remove(d.Key)
	if d.Key != "" {
		m.byKey[d.Key] = d.ID
	}
	m.docs, m.ids, m.prints = append(m.docs, d), append(m.ids, d.ID), append(m.prints, uint64(d.Fingerprint))
	return nil
}

// remove takes out the document that has a key and reports whether there was one.
func (m *soakModel) remove(key string) bool {
	id, known := m.byKey[key]
	if !known {
		return false
	}
	m.removeAt(m.at(id))
	m.tidy()
	return true
}

func (m *soakModel) removeAt(i int) {
	delete(m.byKey, m.docs[i].Key)
	m.docs[i] = index.Document{}
	m.gone++
}

// tidy closes the gaps once they are half of all.
func (m *soakModel) tidy() {
	if m.gone < 64 || 2*m.gone < len(m.docs) {
		return
	}
	m.docs = slices.DeleteFunc(m.docs, func(d index.Document) bool { return d.ID == 0 })
	m.ids, m.prints, m.gone = m.ids[:len(m.docs)], m.prints[:len(m.docs)], 0
	for i := range m.docs {
		m.ids[i], m.prints[i] = m.docs[i].ID, uint64(m.docs[i].Fingerprint)
	}
}

// expire takes out what was added before a Unix second and returns how much.
func (m *soakModel) expire(second int64) (expired int) {
	for i := range m.docs {
		if m.docs[i].ID != 0 && m.docs[i].Added.Unix() < second {
			m.removeAt(i)
			expired++
		}
	}
	m.tidy()
	return expired
}

// query returns the documents within k bits but for that of one ID, by (distance, ID).
// A shingle other than 0 must be within the default limit where both have one.
func (m *soakModel) query(fp, shingle fingerprint.Fingerprint, k int, but uint64) []index.Match {
	var matches []index.Match
	for i, stored := range m.prints {
		distance := bits.OnesCount64(stored ^ uint64(fp))
		if distance > k {
			continue
		}
		d := &m.docs[i]
		if d.ID == 0 || d.ID == but || shingle != 0 && d.Shingle != 0 && distance+shingle.Distance(d.Shingle) > index.DefaultMaxShingleDistance {
			continue
		}
		matches = append(matches, index.Match{Document: *d, Distance: distance})
	}
	slices.SortFunc(matches, func(a, b index.Match) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.ID, b.ID))
	})
	return matches
}

// check compares a verdict with the model's own, and follows it.
func (m *soakModel) check(d index.Document, v index.Verdict) error {
	before := m.byKey[d.Key]
	matches := m.query(d.Fingerprint, d.Shingle, m.k, before)
	want := index.New
	switch {
	case len(matches) > 0:
		want = index.Duplicate
	case before != 0:
		want = index.Known
	}
	if v.Status != want {
		return fmt.Errorf("%w: %v of %q is %v, not %v (%d matches)", ErrWrongAnswer, d.Fingerprint, d.Key, v.Status, want, len(matches))
	}
	if want != index.Duplicate {
		stored := v.Document
		if d.ID, d.Added = stored.ID, stored.Added; d != stored {
			return fmt.Errorf("%w: %+v was stored as %+v", ErrWrongAnswer, d, stored)
		}
		return m.add(stored)
	}
	m.remove(d.Key)
	if !sameMatch(v.Of, matches[0]) {
		return fmt.Errorf("%w: %v of %q is a duplicate of %+v, not of %+v", ErrWrongAnswer, d.Fingerprint, d.Key, v.Of, matches[0])
	}
	return nil
}

func sameMatch(a, b index.Match) bool {
	return a.Distance == b.Distance && sameDocument(a.Document, b.Document)
}

func sameDocument(a, b index.Document) bool {
	same := a.Added.Equal(b.Added)
	a.Added = b.Added
	return same && a == b
}
