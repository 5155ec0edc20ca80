// Package join compares all documents of an index with each other: Pairs finds every pair
// that matches, Clusters the groups of documents that pairs connect.
//
// The result is complete and has no repetitions, for any plan of the index. The package
// does not probe the tables. It reads the fingerprints of a snapshot into memory and
// compares them there (internal/selfjoin). It then reads the documents of near fingerprints,
// and the rule decides. Documents with the same fingerprint are one Group, so that a page
// with a million copies is one line for each page near it, not a million.
package join

import (
	"iter"

	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/store"
)

// Options configures index.Index.Pairs and Clusters. The zero value selects the rule of
// check-and-add.
type Options struct {
	// MaxDistance is k, 0 to 64; index.Exact stands for 0. It may be larger than the k of the
	// index. Default: the k of the index.
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
	Documents      int // the number of documents

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

// Pair is a pair of matching groups. A group of several documents also forms a pair with
// itself, which stands for all pairs of its documents.
type Pair struct {
	First, Second Group // First.ID <= Second.ID
	Distance      int
}

// Cluster is a set of near-duplicates.
type Cluster struct {
	// Members are groups of documents, in the order of their smallest IDs.
	Members []Group
}

// Documents returns the number of documents of all members.
func (c *Cluster) Documents() int {
	n := 0
	for i := range c.Members {
		n += c.Members[i].Documents
	}
	return n
}

// Source is a snapshot of an index.
type Source struct {
	Readers      []Reader // of the snapshot: one per worker, and one for the caller
	Rule         match.Rule
	Bare         bool // no document has a record
	Fingerprints int  // their approximate number
}

// Reader reads the documents of a snapshot. It is not safe for concurrent use.
type Reader interface {
	// Postings yields the stored fingerprints from first on, ascending, with their documents.
	Postings(first uint64) iter.Seq2[store.Posting, error]

	// Document returns a document with the stored fingerprint.
	Document(id, stored uint64) (match.Document, error)
}

// yieldEach yields the elements of batches, until an error or until yield returns false.
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
