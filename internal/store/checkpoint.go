package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
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
	if err := s.Sync(); err != nil { // with Pebble's own, a log that fails ends the process
		return err
	}
	select {
	case s.checkpoints <- struct{}{}:
		defer func() { <-s.checkpoints }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c := checkpoint{ctx: ctx, s: s, dir: dir, staging: s.fs.PathJoin(dir, incomingDir)}
	err := c.begin()
	if err == nil {
		err = c.make()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("checkpoint to %s: %w", dir, err), c.undo())
	}
	return nil
}

// checkpoint is one being made. Pebble writes it into a folder in its own, from which
// the files move up, the marker last: so the folder is an index once all of it is there.
type checkpoint struct {
	ctx      context.Context
	s        *Store
	dir      string
	staging  string
	remove   string   // what of dir's path did not exist; "": all of it did
	moved    []string // files in dir
	begun    bool
	unsynced error // of a folder that could not be synced
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
		c.begun, c.remove = true, firstMissing(c.dir, fsys)
		return makeDir(c.dir, fsys)
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
	at := c.dir
	for ; ; at = fsys.PathDir(at) {
		if _, err := fsys.Stat(at); err == nil || fsys.PathDir(at) == at {
			break
		}
	}
	at, err := onlyName(at, fsys)
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

// firstMissing returns the highest folder of a path that is not there.
func firstMissing(dir string, fsys vfs.FS) string {
	for parent := fsys.PathDir(dir); parent != fsys.PathDir(parent); parent = fsys.PathDir(parent) {
		if _, err := fsys.Stat(parent); err == nil {
			break
		}
		dir = parent
	}
	return dir
}

func (c *checkpoint) make() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.s.readOnly {
		if err := c.copyFiles(); err != nil {
			return err
		}
	} else {
		c.s.checkpointFS.copying.Store(c)
		err := c.s.guard(func() error { return c.s.db.Checkpoint(c.staging) })
		c.s.checkpointFS.copying.Store(nil)
		if errors.Is(err, ErrFailed) { // Pebble may be at it still, up to its next change of the disk
			c.s.watch.settle()
			return err
		}
		if err = errors.Join(classify(err), c.unsynced); err != nil {
			return err
		}
	}
	if err := writeDigest(c.staging, c.s.fs); err != nil {
		return err
	}
	return c.moveUp()
}

// copyFiles is Pebble's Checkpoint for a store that is open for reading: no one else
// can write to it, so its files are what is to be copied.
func (c *checkpoint) copyFiles() error {
	fsys := c.s.fs
	if err := fsys.MkdirAll(c.staging, 0o755); err != nil {
		return err
	}
	names, err := fsys.List(c.s.dir)
	if err != nil {
		return err
	}
	copying := &checkpointFS{FS: fsys}
	copying.copying.Store(c)
	for _, name := range names {
		from, to := fsys.PathJoin(c.s.dir, name), fsys.PathJoin(c.staging, name)
		switch {
		case name == "LOCK" || name == incomingDir || strings.HasPrefix(name, digestName):
			continue
		case strings.HasSuffix(name, ".sst"):
			err = vfs.LinkOrCopy(copying, from, to)
		default:
			err = vfs.Copy(copying, from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
		case name == digestName:
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
		if err := syncDir(c.dir, fsys); err != nil {
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

func syncDir(dir string, fsys vfs.FS) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// has reports whether a file is of this checkpoint.
func (c *checkpoint) has(name string) bool {
	return c != nil && strings.HasPrefix(name, c.staging)
}

// create makes a file of the checkpoint, which takes no more once the context ends.
func (c *checkpoint) create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	var f vfs.File
	err := c.change(func() (err error) {
		f, err = c.s.fs.Create(name, category)
		return err
	})
	if err != nil {
		return nil, err
	}
	return cancelledFile{f, c.ctx}, nil
}

// change changes the disk, unless the store has stopped.
func (c *checkpoint) change(do func() error) error {
	if c.s.watch == nil {
		return do()
	}
	return c.s.watch.change(false, do)
}

// openDir opens a folder of the checkpoint.
func (c *checkpoint) openDir(name string) (vfs.File, error) {
	f, err := c.s.fs.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return checkpointDir{f, c}, nil
}

// checkpointDir keeps an error of Sync for later: Pebble panics where a marker cannot be
// made durable, as it cannot know then what a database of its own is.
type checkpointDir struct {
	vfs.File
	c *checkpoint
}

func (d checkpointDir) Sync() error {
	d.c.unsynced = errors.Join(d.c.unsynced, d.File.Sync())
	return nil
}

// link makes a second name for a file. LinkOrCopy does not copy what may not be
// linked, though there are file systems that answer so where they know no links.
func (c *checkpoint) link(oldname, newname string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	err := c.change(func() error { return c.s.fs.Link(oldname, newname) })
	if errors.Is(err, fs.ErrPermission) {
		return errNoLinks
	}
	return err
}

var errNoLinks = errors.New("no link can be made")

// cancelledFile takes no more once a context ends.
type cancelledFile struct {
	vfs.File
	ctx context.Context
}

func (f cancelledFile) Write(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}
