// Package join compares all documents of an index with each other: Pairs finds every pair
// that matches, Clusters the groups of documents that pairs connect.
//
// It misses none and yields none twice, whatever the plan of the index: it probes no table,
// but reads the fingerprints of one moment into memory and compares them there
// (internal/selfjoin). Then the documents of those that are near are read, and the rule
// decides. Documents with the same fingerprint are one Group, so that a page with a million
// copies is one line for each page near it, not a million.
package join

import (
	"iter"

	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/store"
)

// Options of index.Index.Pairs and Clusters. The zero value asks for what check-and-add
// calls duplicates.
type Options struct {
	// MaxDistance is k, from 0 (for which index.Exact stands) to 64. It may be beyond what
	// the index was made for. Default: that of the index.
	MaxDistance int

	// MaxShingleDistance, ShortAllowance and MaxLengthRatio are as in index.Options. 0: the value
	// of the index.
	MaxShingleDistance int
	ShortAllowance     int
	MaxLengthRatio     float64

	// Stars makes clusters whose members all match the first one, by visiting the documents
	// in the order of their IDs. Default: connected components.
	Stars bool
}

// Group is the documents of one scope that have the same fingerprint (and the same
// Shingles and length, if these count).
type Group struct {
	match.Document     // the one with the smallest ID
	Documents      int // how many

	ids    []uint64
	reader Reader
}

// All yields all documents of the group, by ID. It reads the record of each, and may be
// called only within the loop that yielded the group.
func (g *Group) All() iter.Seq2[match.Document, error] {
	return func(yield func(match.Document, error) bool) {
		for _, id := range g.ids {
			d, err := g.reader.Document(id, g.stored())
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

func (g *Group) stored() uint64 { return store.Stored(uint64(g.Fingerprint), g.Scope) }

// Pair is two groups of documents near each other, or one group of several documents
// twice, which stands for all pairs of these.
type Pair struct {
	First, Second Group // First.ID <= Second.ID
	Distance      int
}

// Cluster is documents that are near-duplicates of each other.
type Cluster struct {
	// Members are groups of documents, in the order of their smallest IDs.
	Members []Group
}

// Documents counts those of all members.
func (c *Cluster) Documents() int {
	n := 0
	for i := range c.Members {
		n += c.Members[i].Documents
	}
	return n
}

// Source is an index at one moment.
type Source struct {
	Readers      []Reader // of this moment: one for each worker, and one for whoever takes the results
	Rule         match.Rule
	Bare         bool // no document has a record
	Fingerprints int  // about how many there are
}

// Reader reads the documents of one moment. It is for one goroutine.
type Reader interface {
	// Postings yields the stored fingerprints from first on, ascending, with their documents.
	Postings(first uint64) iter.Seq2[store.Posting, error]

	// Document returns one that has a stored fingerprint.
	Document(id, stored uint64) (match.Document, error)
}

// yieldEach yields what comes many at a time, until an error or until yield returns false.
func yieldEach[T any](seq iter.Seq2[[]T, error], yield func(T) bool) error {
	for many, err := range seq {
		if err != nil {
			return err
		}
		for _, one := range many {
			if !yield(one) {
				return nil
			}
		}
	}
	return nil
}
