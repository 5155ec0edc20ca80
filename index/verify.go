package index

import (
	"context"
	"iter"

	"github.com/neardup/neardup/index/verify"
)

// Verify checks all of the index, as package verify says, and yields every problem that it
// finds, in no particular order; nothing if there is none. It looks at one moment, while
// reads and writes go on. What is in no file yet but the log was checked when the index was
// opened.
//
// It reads everything once, the files a second time, and keeps 2 bits for every ID in
// use, 8 bytes a packed block, and one saved filter at a time.
//
// If ctx ends, or the store fails, the last Problem is Unchecked with that error. After a
// break nothing more is read.
func (x *Index) Verify(ctx context.Context, opts ...verify.Options) iter.Seq[verify.Problem] {
	return func(yield func(verify.Problem) bool) {
		var o verify.Options
		for _, o = range opts {
		}
		stopped := false
		err := x.verify(ctx, o, func(p verify.Problem) bool {
			stopped = !yield(p)
			return !stopped
		})
		if err != nil && !stopped {
			yield(verify.Unfinished(err))
		}
	}
}

func (x *Index) verify(ctx context.Context, o verify.Options, report func(verify.Problem) bool) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	defer x.end()
	view, counters, err := x.snapshot()
	if err != nil {
		return err
	}
	defer view.Close()
	source := verify.Source{Store: x.store, View: view, Counters: counters, Plan: x.plan, Packed: x.packed, Live: x.live}
	return verify.Run(ctx, source, o, report)
}
