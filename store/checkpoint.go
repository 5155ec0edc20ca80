package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/neardup/neardup/internal/surgeon"
)

// markerPrefix begins the name of the file that says which MANIFEST is the current
// one. Without it there is no database.
const markerPrefix = "marker.manifest."

// Checkpoint makes dir a store of its own that holds what this one held at one moment
// during the call, everything that was applied before it included. The files of tables
// are linked where the file system can, all others copied. dir is durable when it
// returns, and must not exist before or be empty; after an error it is as it was. One
// that was cut short by a crash is no index.
func (s *Store) Checkpoint(ctx context.Context, dir string) error {
	release, err := s.HoldCheckpoints(ctx)
	if err != nil {
		return err
	}
	defer release()
	// The log is complete up to the last step of a Rewrite, or the copy would have the step without what was
	// written before it. With Pebble's own, a log that fails ends the process.
	if err := s.Sync(); err != nil {
		return err
	}
	c := checkpoint{ctx: ctx, s: s, dir: dir, staging: s.fs.PathJoin(dir, incomingDir)}
	if err = c.begin(); err == nil {
		err = c.make()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("checkpoint to %s: %w", dir, err), c.undo())
	}
	return nil
}

// HoldCheckpoints waits until none is made, and lets none begin before release is called.
func (s *Store) HoldCheckpoints(ctx context.Context) (release func(), err error) {
	select {
	case s.checkpoints <- struct{}{}:
		return func() { <-s.checkpoints }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// checkpoint is one being made. Pebble writes it into a folder in its own, from which
// the files move up, the marker last: so the folder is an index once all of it is there.
type checkpoint struct {
	ctx     context.Context
	s       *Store
	dir     string
	staging string
	remove  string   // what was made of dir's path; "": nothing
	moved   []string // files in dir
	begun   bool
}

// begin makes dir, or sees that it is empty but for what a crash left of an earlier try.
func (c *checkpoint) begin() error {
	if err := c.refuseInside(); err != nil {
		return err
	}
	fsys := c.s.fs
	names, err := fsys.List(c.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.begun = true
		c.remove, err = makeDir(c.dir, fsys)
		return err
	case err != nil:
		return err
	}
	for _, name := range names {
		if name != incomingDir {
			return fmt.Errorf("%w: it holds %q, and must be empty", fs.ErrExist, name)
		}
	}
	c.begun = true
	return fsys.RemoveAll(c.staging)
}

// refuseInside refuses a folder in that of the store.
func (c *checkpoint) refuseInside() error {
	fsys := c.s.fs
	_, at := missing(c.dir, fsys)
	at, err := canonicalDir(at, fsys)
	if err != nil {
		return err
	}
	for ; ; at = fsys.PathDir(at) {
		if at == c.s.dir {
			return fmt.Errorf("%w: it is in the folder of the index itself", fs.ErrExist)
		}
		if fsys.PathDir(at) == at {
			return nil
		}
	}
}

func (c *checkpoint) make() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	copying := c.copyFiles
	if !c.s.readOnly {
		copying = func() error { return c.s.guard(func() error { return c.s.db.Checkpoint(c.staging) }) }
	}
	if err := translateError(c.s.guarded.Copy(c.ctx, copying, c.dir, c.staging)); err != nil {
		return err
	}
	if err := surgeon.WriteDigest(c.staging, c.s.fs); err != nil {
		return err
	}
	return c.moveUp()
}

// copyFiles is Pebble's Checkpoint for a store that is open for reading: no one else
// can write to it, so its files are what is to be copied.
func (c *checkpoint) copyFiles() error {
	return surgeon.CopyFiles(c.s.dir, c.staging, c.s.guarded, func(name, _ string) (bool, error) { return notPebbles(name), nil })
}

// notPebbles tells what in the folder of a store is not of its database, or of no use in a copy.
func notPebbles(name string) bool {
	return name == "LOCK" || name == incomingDir || strings.HasPrefix(name, surgeon.DigestName)
}

// moveUp moves the files to where they belong, and the digest last: where it is, there is an index.
func (c *checkpoint) moveUp() error {
	fsys := c.s.fs
	names, err := fsys.List(c.staging)
	if err != nil {
		return err
	}
	var groups [3][]string
	for _, name := range names {
		group := 0
		switch {
		case strings.HasPrefix(name, markerPrefix):
			group = 1
		case name == surgeon.DigestName:
			group = 2
		}
		groups[group] = append(groups[group], name)
	}
	for _, group := range groups {
		for _, name := range group {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			c.moved = append(c.moved, name)
			if err := fsys.Rename(fsys.PathJoin(c.staging, name), fsys.PathJoin(c.dir, name)); err != nil {
				return err
			}
		}
		if err := surgeon.SyncDir(c.dir, fsys); err != nil {
			return err
		}
	}
	return fsys.RemoveAll(c.staging)
}

// undo removes what was made, the marker first.
func (c *checkpoint) undo() error {
	if !c.begun {
		return nil
	}
	fsys := c.s.fs
	var errs []error
	for _, name := range slices.Backward(c.moved) {
		if err := fsys.Remove(fsys.PathJoin(c.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, fsys.RemoveAll(c.staging))
	if c.remove != "" {
		errs = append(errs, fsys.RemoveAll(c.remove))
	}
	return errors.Join(errs...)
}
