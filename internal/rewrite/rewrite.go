// Package rewrite lets package compaction pack an open index of package index, without types and
// functions in the public API.
package rewrite

import (
	"context"
	"iter"

	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// Repack packs the entries that were written to an *index.Index before the call, together with the
// packed entries. The function pack writes new tables while reads and writes go on. The new tables
// replace the old tables in one step. If there is nothing to pack, Repack does not call pack.
// Package index sets Repack.
var Repack func(ctx context.Context, x any, pack Pack) error

// Pack writes new tables with the given entries.
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
	Close   func() error                             // of the Rewrite, also if it was not installed
}
