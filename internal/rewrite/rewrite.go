// Package rewrite connects packages index and compaction while an open index is packed. Neither the
// types nor the function are part of the public API.
package rewrite

import (
	"context"
	"iter"

	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// Repack packs the entries of an *index.Index that were written before the call, together with
// the packed entries. The function pack makes new tables while reads and writes go on.
// They replace the old ones in one step. Repack does not call pack if there is nothing to do.
// Package index sets the function.
var Repack func(ctx context.Context, x any, pack Pack) error

// Pack makes new tables of the frozen entries.
type Pack func(context.Context, Frozen) (Packed, error)

// Frozen has the entries to pack: the packed entries and the frozen epoch.
type Frozen struct {
	Store       *store.Store
	View        *store.View // has keys and records as well
	Plan        *plan.Plan
	Counters    store.Counters // at the moment of the view
	FilterBytes int64          // of the options of the index
}

// Packed is the result of packing, which replaces the frozen entries.
type Packed struct {
	Rewrite *store.Rewrite
	Entries uint64                                   // fingerprints
	Filter  func(table int) iter.Seq2[[]byte, error] // the chunks of the filter of a table
	Close   func() error                             // of the Rewrite, whether it was taken or not
}
