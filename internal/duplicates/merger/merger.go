// Package merger has the merge operator of counts of duplicates. It is apart from package
// duplicates, which clients of a server link without the store.
package merger

import (
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/duplicates"
)

// Counts adds the counts that are written for one document. Its name is part of the storage format.
var Counts = &pebble.Merger{
	Name: "neardup.duplicates",
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		c, err := duplicates.Decode(value)
		return &sum{c}, err
	},
}

// sum is a pebble.ValueMerger.
type sum struct{ duplicates.Count }

func (s *sum) MergeNewer(value []byte) error {
	c, err := duplicates.Decode(value)
	s.Count = s.Add(c)
	return err
}

func (s *sum) MergeOlder(value []byte) error { return s.MergeNewer(value) }

func (s *sum) Finish(bool) ([]byte, io.Closer, error) { return s.Append(nil), nil, nil }
