package eval

import (
	"errors"
	"fmt"
)

// ErrUnknown is wrapped when no pair has both of its documents among those read.
var ErrUnknown = errors.New("unknown documents")

// pair is two places among the documents, the smaller first.
type pair struct{ a, b int32 }

// label of a listed pair.
type label struct {
	class      class
	similarity float64
}

type class uint8

const (
	positive class = iota + 1
	negative       // listed
	between        // neither positive nor negative
)

// Labelled are documents with labels on their pairs.
type Labelled struct {
	Documents *Documents

	Positive  int   // pairs
	Negative  int64 // pairs, listed or not
	Between   int   // listed pairs that count as neither
	Identical int64 // pairs that are left out: their texts are identical
	Unknown   int   // listed pairs with a document that was not read

	labels map[pair]label
}

// Label joins documents and labels. A pair that is listed twice counts once, with
// its last label.
func Label(docs *Documents, pairs []Pair) (*Labelled, error) {
	l := &Labelled{Documents: docs, labels: make(map[pair]label, len(pairs))}
	for _, p := range pairs {
		a, ok := docs.Find(p.A)
		b, known := docs.Find(p.B)
		if !ok || !known {
			l.Unknown++
			continue
		}
		l.labels[ordered(a, b)] = label{classOf(p.Similarity), p.Similarity}
	}
	if len(pairs) > 0 && len(l.labels) == 0 {
		return nil, fmt.Errorf("%w: none of the %d pairs has both of its ids among the %d documents; the first has %.80q and %.80q",
			ErrUnknown, len(pairs), len(docs.All), pairs[0].A, pairs[0].B)
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

// identical reports whether two documents were read with the same content.
func (l *Labelled) identical(a, b int) bool {
	return l.Documents.All[a].content == l.Documents.All[b].content
}

func (l *Labelled) count() {
	n := int64(len(l.Documents.All))
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
	copies := make(map[[16]byte]int64)
	for i := range l.Documents.All {
		content := l.Documents.All[i].content
		l.Identical += copies[content]
		copies[content]++
	}
	l.Negative = n*(n-1)/2 - l.Identical - int64(l.Positive) - int64(l.Between)
}
