package index

import "context"

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
