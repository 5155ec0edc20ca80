package index

import (
	"context"

	"github.com/neardup/neardup/index/match"
	"github.com/neardup/neardup/index/plan"
)

// Stats describe an index. All figures are of the moment of the call.
type Stats = match.Stats

// Stats returns what there is to say of the index. It is cheap. After Close it is
// the zero Stats.
func (x *Index) Stats() Stats {
	if x.begin(context.Background()) != nil {
		return Stats{}
	}
	defer x.end()
	x.commitMu.Lock()
	counters, state := x.counters, x.hold()
	x.commitMu.Unlock()
	defer state.tables.Release()
	header := x.store.Header()
	directory, cached := state.tables.PackedMemory()
	filters, live := int64(0), int64(0)
	for _, set := range state.sets() {
		filters += set.Bytes()
	}
	for _, set := range state.live {
		live += set.Count()
	}
	s := Stats{
		MaxDistance: x.plan.MaxDistance,
		Plan:        header.Plan,
		Tables:      len(x.plan.Tables),
		Probes:      x.plan.Probes(),
		Analyzer:    header.Analyzer,
		Format:      int(x.store.Meta().Format),
		Documents:   counters.Documents,
		Bare:        counters.Bare,
		NextID:      counters.NextID,
		DiskBytes:   x.store.DiskBytes(),

		Generation:     state.tables.Generation(),
		Packed:         state.tables.PackedEntries(),
		Live:           uint64(live),
		FilterBytes:    uint64(filters),
		DirectoryBytes: uint64(directory),
		CachedBytes:    uint64(cached),

		StoreCachedBytes: uint64(x.store.CachedBytes()),
		CacheShort:       state.tables.CacheShort(),
	}
	if advice, found := x.plan.ReplanAdvice(int64(counters.Documents), x.opts.Limits, plan.Costs{}); found {
		s.Outgrown = advice.String()
	}
	return s
}

// Checkpoint makes dir a copy of the index, as it was at one moment during the call,
// while reads and writes go on. Everything that was acknowledged before the call is in
// it, NoSync writes included. It opens as an index of its own, with the plan, IDs and
// times of this one.
//
// dir must not exist, or be empty, and not lie within the index. Nothing is copied
// that need not be: the tables, which are nearly all of an index, are hard links where
// dir is on the same file system, so that a checkpoint takes milliseconds and little
// disk at first. It keeps that disk from being freed as the index changes. As linked
// files are one on the disk, copy a checkpoint to another one for a backup that
// survives it.
//
// When Checkpoint returns nil, dir is durable. Otherwise it is as it was before; one
// that a crash cut short is not taken for an index. Checkpoints are made one at a time.
//
// Errors: fs.ErrExist where dir holds something or lies within the index, ErrClosed,
// ErrFailed, ctx's and those of the file system.
func (x *Index) Checkpoint(ctx context.Context, dir string) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	defer x.end()
	return x.store.Checkpoint(ctx, dir)
}
