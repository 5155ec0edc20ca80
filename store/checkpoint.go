package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Checkpoint makes dir a copy of the store at one moment during the call, with every batch that was
// applied before the call. If the file system supports hard links, table files are linked. Other
// files are copied.
//
// The directory dir must be empty or must not exist. Checkpoint writes to dir + ".incomplete",
// which must not exist, and renames it at the end, so dir is complete once it contains files, and
// durable once Checkpoint has returned nil. After an error, dir is empty or does not exist. A crash
// can leave dir + ".incomplete".
func (s *Store) Checkpoint(ctx context.Context, dir string) error {
	select {
	case s.checkpoints <- struct{}{}:
		defer func() { <-s.checkpoints }()
	case <-ctx.Done():
		return ctx.Err()
	}
	// Without a complete log, the copy could have an installed Rewrite but not the writes before
	// it. Pebble's option WithFlushedWAL would end the process if the log cannot be written.
	if err := s.Sync(); err != nil {
		return err
	}
	if err := s.checkpoint(ctx, dir); err != nil {
		return fmt.Errorf("checkpoint to %s: %w", dir, err)
	}
	return nil
}

// WaitForCheckpoint waits for the end of a checkpoint that began before the call. If ctx ends
// first, it returns the error of ctx.
func (s *Store) WaitForCheckpoint(ctx context.Context) error {
	select {
	case s.checkpoints <- struct{}{}:
		<-s.checkpoints
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) checkpoint(ctx context.Context, dir string) (err error) {
	if err := errors.Join(ctx.Err(), s.refuseInside(dir)); err != nil {
		return err
	}
	dir = s.fs.PathJoin(dir) // without a separator at its end
	incomplete := dir + ".incomplete"
	names, err := s.fs.List(dir)
	exists := err == nil
	switch {
	case exists && len(names) > 0:
		return fmt.Errorf("%w: the directory is not empty: it contains %q", fs.ErrExist, names[0])
	case !exists && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if _, err := s.fs.Stat(incomplete); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s: %w: remove what an interrupted checkpoint has left",
			incomplete, fs.ErrExist), err)
	}
	parent := s.fs.PathDir(dir)
	created, err := makeDir(parent, s.fs)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.fs.RemoveAll(incomplete))
			if created != "" {
				err = errors.Join(err, s.fs.RemoveAll(created))
			}
		}
	}()
	if err != nil {
		return err
	}
	copying := s.copyFiles
	if !s.readOnly {
		copying = func(to string) error { return s.db.Checkpoint(to) }
	}
	err = translateError(s.guarded.Copy(ctx, func() error { return copying(incomplete) }))
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if exists {
		if err := s.fs.Remove(dir); err != nil {
			return err
		}
	}
	if err := s.fs.Rename(incomplete, dir); err != nil {
		return err
	}
	if err := syncDir(parent, s.fs); err != nil {
		return errors.Join(err, s.fs.RemoveAll(dir))
	}
	return nil
}

// refuseInside returns an error if dir is the directory of the store or is in it.
func (s *Store) refuseInside(dir string) error {
	_, at := missing(dir, s.fs)
	at, err := canonicalDir(at, s.fs)
	if err != nil {
		return err
	}
	for ; ; at = s.fs.PathDir(at) {
		if at == s.dir {
			return fmt.Errorf("%w: it is inside the directory of the index", fs.ErrExist)
		}
		if s.fs.PathDir(at) == at {
			return nil
		}
	}
}

// copyFiles replaces Pebble's Checkpoint for a store that is open for reading. No process changes
// the files meanwhile, since the directory is locked.
func (s *Store) copyFiles(to string) error {
	if err := s.guarded.MkdirAll(to, 0o700); err != nil {
		return err
	}
	names, err := s.fs.List(s.dir)
	for _, name := range names {
		if err != nil {
			return err
		}
		copying := vfs.Copy
		switch {
		case name == "LOCK" || name == incomingDir:
			continue
		case strings.HasSuffix(name, ".sst"):
			copying = vfs.LinkOrCopy
		}
		err = copying(s.guarded, s.fs.PathJoin(s.dir, name), s.fs.PathJoin(to, name))
	}
	return errors.Join(err, syncDir(to, s.guarded))
}
