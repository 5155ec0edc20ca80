package eval

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

var (
	// ErrDocuments is wrapped by errors about invalid documents.
	ErrDocuments = errors.New("invalid documents")
	// ErrUnknown is wrapped if no pair has both of its documents among the documents read.
	ErrUnknown = errors.New("unknown documents")
)

// pair has the indexes of two documents, the smaller index first.
type pair struct{ a, b int32 }

// label is the class of a listed pair.
type label struct {
	class      class
	similarity float64
}

type class uint8

const (
	unlisted class = iota // a negative pair
	positive
	negative // listed
	between  // neither positive nor negative
)

// Numbers has the numbers of documents and pairs.
type Numbers struct {
	Documents int
	Positive  int
	Negative  int64 // listed or not
	Between   int   // listed pairs that count as neither
	Identical int64 // excluded pairs, whose texts have equal tokens
}

// Labelled is a set of documents with labels on their pairs.
type Labelled struct {
	Numbers
	Unknown int // listed pairs with a document that was not read

	docs   []*Document
	labels map[pair]label
}

// Label joins documents and labels. If a pair is listed twice, its last label counts. If two
// documents have the same ID, or a document has none, Label returns ErrDocuments. If no pair names
// two of the documents, it returns ErrUnknown.
func Label(docs []*Document, pairs []Pair) (*Labelled, error) {
	l := &Labelled{Numbers: Numbers{Documents: len(docs)}, docs: docs,
		labels: make(map[pair]label, len(pairs))}
	byID := make(map[string]int, len(docs))
	for i, d := range docs {
		if d.ID == "" {
			return nil, fmt.Errorf("%w: document %d has no id", ErrDocuments, i+1)
		}
		if _, twice := byID[d.ID]; twice {
			return nil, fmt.Errorf("%w: the id %.80q is repeated", ErrDocuments, d.ID)
		}
		byID[d.ID] = i
	}
	for _, p := range pairs {
		a, ok := byID[p.A]
		b, known := byID[p.B]
		if !ok || !known {
			l.Unknown++
			continue
		}
		l.labels[ordered(a, b)] = label{classOf(p.Similarity), p.Similarity}
	}
	if len(pairs) > 0 && len(l.labels) == 0 {
		return nil, fmt.Errorf("%w: none of the %d pairs has both of its ids among the %d "+
			"documents; the first has %.80q and %.80q",
			ErrUnknown, len(pairs), len(docs), pairs[0].A, pairs[0].B)
	}
	l.count()
	return l, nil
}

func ordered(a, b int) pair {
	if a > b {
		a, b = b, a
	}
	return pair{int32(a), int32(b)}
}

func classOf(similarity float64) class {
	switch {
	case similarity >= PositiveAt:
		return positive
	case similarity < NegativeBelow:
		return negative
	}
	return between
}

// identical reports whether the texts of two documents have equal tokens.
func (l *Labelled) identical(a, b int) bool {
	return l.docs[a].tokens == l.docs[b].tokens
}

func (l *Labelled) count() {
	for p, label := range l.labels {
		switch {
		case l.identical(int(p.a), int(p.b)):
			delete(l.labels, p)
		case label.class == positive:
			l.Positive++
		case label.class == between:
			l.Between++
		}
	}
	n, different := int64(len(l.docs)), l.different()
	l.Identical = n*(n-1)/2 - different
	l.Negative = different - int64(l.Positive) - int64(l.Between)
}

// different returns the number of pairs of documents whose tokens differ.
func (l *Labelled) different() (pairs int64) {
	copies := make(map[digest]int64)
	for i, d := range l.docs {
		pairs += int64(i) - copies[d.tokens]
		copies[d.tokens]++
	}
	return pairs
}

// eachPair calls do for each pair of compared documents for which near returns true. values has one
// value per document. Several goroutines call do; one goroutine handles all pairs of a later
// document. eachPair examines all pairs, since no table helps with distances up to 16 of 64 bits.
func eachPair[V any](l *Labelled, values []V, near func(a, b V) bool, do func(later, earlier int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for a := int(next.Add(1)) - 1; a < len(values); a = int(next.Add(1)) - 1 {
				for b, other := range values[:a] {
					if near(values[a], other) && l.compared(a, b) {
						do(a, b)
					}
				}
			}
		})
	}
	wg.Wait()
}

// compared reports whether a pair counts: both documents have tokens, and the tokens differ.
func (l *Labelled) compared(a, b int) bool {
	return !l.docs[a].empty() && !l.docs[b].empty() && !l.identical(a, b)
}
