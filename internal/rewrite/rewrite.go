// Package rewrite is what index and compaction tell each other while an open index is packed
// (index.Index.Rewrite). It is types only.
package rewrite

import (
	"context"
	"iter"
	"time"

	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// Frozen is what Rewrite gives to be packed: what was packed before, and the epoch that is frozen.
type Frozen struct {
	Store       *store.Store
	View        *store.View    // has keys and records besides
	Plan        *plan.Plan     // under which it is to be packed
	Counters    store.Counters // in the moment of the view
	FilterBytes int64          // as Options of the index have it

	// Of a Rewrite that adds documents, the ID of the first of them; 0: this one adds none.
	First uint64
	// Added is the second in which they came, as far as they do not say so themselves.
	Added time.Time
	// Loads must be called with what says which hashes of keys they may have, as soon as that is known.
	Loads func(may func(hash uint64) bool)
}

// Packed is what was made of it, ready to be taken.
type Packed struct {
	Rewrite *store.Rewrite
	Entries uint64                                   // fingerprints
	Filter  func(table int) iter.Seq2[[]byte, error] // the chunks of the filter of a table
	Close   func() error                             // of the Rewrite, whether it was taken or not
	Added   *Added                                   // nil: no documents were added
}

// Added is what there is to say of documents that were added.
type Added struct {
	Documents, Bare uint64 // how many more there are with them than in Frozen, modulo 2^64
	Records         bool   // any has one
	Oldest          uint64 // second
	Taken           func() // is called once they are stored
}

// Addition is documents that a Rewrite adds.
type Addition struct {
	Read  func(context.Context, *store.Store, *plan.Plan) (documents uint64, err error) // says how many
	Close func() error                                                                  // after Read, and after Packed.Close if that is called
}
