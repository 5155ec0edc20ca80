package eval

import (
	"cmp"
	"slices"
	"sync"
)

// Mistake is a negative pair that matches, or a positive one that does not.
type Mistake struct {
	False      bool // matches, and should not
	A, B       string
	Distance   int
	Shingle    int     // distance; -1: one of them has none
	Ratio      float64 // of the lengths; 0: one is not known
	Similarity float64 // -1: the pair has no label
}

// Mistakes returns what a rule gets wrong with one seed: false pairs first, each kind
// by distance and then in the order of the documents.
func (l *Labelled) Mistakes(r Rule, seed int) []Mistake {
	docs := l.Documents.All
	fps := make([]uint64, len(docs))
	for i := range docs {
		fps[i] = uint64(docs[i].Signatures[seed].Fingerprint)
	}
	var mu sync.Mutex
	found := make(map[pair]bool)
	nearPairs(fps, func(_, a, b int) {
		if apart := l.apart(seed, a, b); r.matches(&apart) && !docs[a].empty() && !docs[b].empty() && !l.identical(a, b) {
			mu.Lock()
			found[ordered(a, b)] = true
			mu.Unlock()
		}
	})
	var wrong []pair
	for p := range found {
		if c := l.labels[p].class; c != positive && c != between {
			wrong = append(wrong, p)
		}
	}
	for p, label := range l.labels {
		if label.class == positive && !found[p] {
			wrong = append(wrong, p)
		}
	}
	slices.SortFunc(wrong, func(p, q pair) int { return cmp.Or(cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b)) })
	mistakes := make([]Mistake, 0, len(wrong))
	for _, p := range wrong {
		m := Mistake{False: found[p], A: docs[p.a].ID, B: docs[p.b].ID, Similarity: -1}
		apart := l.apart(seed, int(p.a), int(p.b))
		m.Distance, m.Shingle, m.Ratio = apart.distance, apart.shingle, apart.ratio
		if label, listed := l.labels[p]; listed {
			m.Similarity = label.similarity
		}
		mistakes = append(mistakes, m)
	}
	slices.SortStableFunc(mistakes, func(m, n Mistake) int {
		if m.False != n.False {
			if m.False {
				return -1
			}
			return 1
		}
		return m.Distance - n.Distance
	})
	return mistakes
}
