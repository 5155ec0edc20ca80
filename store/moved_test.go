//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
)

// What may happen to the folder of an index that is open.
var moves = map[string]struct {
	move func(t *testing.T, dir string) (is string) // where the index is now; "": nowhere
	fine bool
}{
	"nothing": {func(t *testing.T, dir string) string { return dir }, true},
	"the link that it was opened by is removed": {func(t *testing.T, dir string) string {
		must(t, os.Remove(dir+".link"))
		return dir
	}, true},
	"moved": {func(t *testing.T, dir string) string {
		must(t, os.Rename(dir, dir+".old"))
		return dir + ".old"
	}, false},
	"moved and replaced": {func(t *testing.T, dir string) string {
		s := openReal(t, dir+".new")
		must(t, commitOf(s, true, func(b *Batch) { document(b, 1) }), s.guard(s.db.Flush), s.Close())
		must(t, os.Mkdir(dir+".new/"+incomingDir, 0o700), os.Rename(dir, dir+".old"), os.Rename(dir+".new", dir))
		return dir + ".old"
	}, false},
	"removed": {func(t *testing.T, dir string) string {
		must(t, os.RemoveAll(dir))
		return ""
	}, false},
	"the folder above is a file": {func(t *testing.T, dir string) string {
		above := filepath.Dir(dir)
		must(t, os.Rename(above, above+".old"), os.WriteFile(above, nil, 0o600))
		return filepath.Join(above+".old", filepath.Base(dir))
	}, false},
	"LOCK is another": {func(t *testing.T, dir string) string {
		lock := filepath.Join(dir, "LOCK")
		must(t, os.Rename(lock, lock+".old"), os.WriteFile(lock, nil, 0o600))
		return dir
	}, false},
}

func openReal(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{Create: &Header{Plan: "plan"}})
	must(t, err)
	return s
}

// underDir lists what there is under a path, with what the files hold if that must not change either.
func underDir(dir string, held bool) string {
	var all strings.Builder
	filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		fmt.Fprintln(&all, path, err)
		if held && err == nil && !entry.IsDir() {
			data, err := os.ReadFile(path)
			fmt.Fprintln(&all, xxhash.Sum64(data), err)
		}
		return nil
	})
	return all.String()
}

// An index whose folder is moved, removed or replaced fails at the next thing that it does, whatever that is:
// nothing is acknowledged from there on, nothing under its path changes, and
// what was acknowledged is where the folder is.
func TestFolderThatIsMoved(t *testing.T) {
	next := map[string]func(s *Store, r *Rewrite) error{
		"a write": func(s *Store, r *Rewrite) error {
			return commitOf(s, true, func(b *Batch) { document(b, 51) })
		},
		"a flush": func(s *Store, r *Rewrite) error {
			return errors.Join(commitOf(s, false, func(b *Batch) { document(b, 51) }), s.guard(s.db.Flush))
		},
		"the start of a rewrite": func(s *Store, r *Rewrite) error {
			_, err := s.NewRewrite(0)
			return err
		},
		"a file of a rewrite":    func(s *Store, r *Rewrite) error { return r.AddClock(1, 1) },
		"the step of a rewrite":  func(s *Store, r *Rewrite) error { return r.Commit(t.Context(), "plan", Counters{NextID: 51}) },
		"the rewrite of records": func(s *Store, r *Rewrite) error { return s.CompactRecords(t.Context()) },
		"a checkpoint":           func(s *Store, r *Rewrite) error { return s.Checkpoint(t.Context(), s.dir+".copy") },
		"nothing but Close":      func(s *Store, r *Rewrite) error { return s.Sync() },
	}
	for how, c := range moves {
		for what, call := range next {
			t.Run(how+", then "+what, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "above", "ix")
				must(t, os.MkdirAll(dir, 0o700), os.Symlink(dir, dir+".link"))
				s := openReal(t, dir+".link")
				for id := uint64(1); id <= 50; id++ {
					must(t, commitOf(s, true, func(b *Batch) { document(b, id) }))
				}
				r, err := s.NewRewrite(0)
				must(t, err)
				is := c.move(t, dir)
				before := underDir(dir, is != dir)
				err = soon(t, what, func() error { return call(s, r) })
				if c.fine {
					must(t, err, r.Close(), s.Close())
					return
				}
				if !errors.Is(err, fault.ErrFailed) || !errors.Is(err, errMoved) {
					t.Errorf("%s: %v", what, err)
				}
				if err := commitOf(s, false, func(b *Batch) { document(b, 52) }); !errors.Is(err, errMoved) {
					t.Errorf("a write behind it: %v", err)
				}
				r.Close()
				if err := soon(t, "Close", s.Close); !errors.Is(err, fault.ErrFailed) || !errors.Is(err, errMoved) {
					t.Errorf("Close: %v", err)
				}
				if after := underDir(dir, is != dir); after != before {
					t.Errorf("the folder is\n%.2000s\nand was\n%.2000s", after, before)
				}
				if _, err := os.Stat(dir + ".copy"); err == nil {
					t.Error("there is a copy")
				}
				if is == "" {
					return
				}
				again := openReal(t, is)
				if n := records(t, again); n < 50 || n > 51 {
					t.Errorf("%d documents", n)
				}
				must(t, again.Close())
			})
		}
	}
}

// No file system call reaches a folder that has taken the place of the index's, and none elsewhere is refused.
func TestCallsInAFolderThatIsAnother(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "ix"), t.TempDir()
	s := openReal(t, dir)
	must(t, os.Rename(dir, dir+".old"), os.MkdirAll(dir, 0o700))
	for _, in := range []string{dir, out, dir + "2"} {
		must(t, os.MkdirAll(in, 0o700))
		var names []any
		for i := range 10 {
			name := filepath.Join(in, fmt.Sprintf("%d.log", i))
			must(t, os.WriteFile(name, nil, 0o600))
			names = append(names, name)
		}
		name := func(i int) string { return names[i].(string) }
		closing := func(f vfs.File, err error) error {
			if err != nil {
				return err
			}
			return errors.Join(f.SyncData(), f.Close())
		}
		before := underDir(in, true)
		for what, call := range map[string]func() error{
			"Create":             func() error { return closing(s.fs.Create(filepath.Join(in, "made.log"), "")) },
			"Open":               func() error { return closing(s.fs.Open(name(0))) },
			"OpenReadWrite":      func() error { return closing(s.fs.OpenReadWrite(filepath.Join(in, "open"), "")) },
			"ReuseForWrite":      func() error { return closing(s.fs.ReuseForWrite(name(1), filepath.Join(out, "reused"), "")) },
			"ReuseForWrite into": func() error { return closing(s.fs.ReuseForWrite(out+"/0.log", name(2), "")) },
			"Link":               func() error { return s.fs.Link(name(3), filepath.Join(out, "linked")) },
			"Link into":          func() error { return s.fs.Link(dir+".old/LOCK", filepath.Join(in, "linked")) },
			"Rename":             func() error { return s.fs.Rename(name(4), filepath.Join(out, "renamed")) },
			"Remove":             func() error { return s.fs.Remove(name(5)) },
			"RemoveAll":          func() error { return s.fs.RemoveAll(name(6)) },
			"MkdirAll":           func() error { return s.fs.MkdirAll(filepath.Join(in, "made"), 0o700) },
		} {
			if err := call(); in == dir && !errors.Is(err, errMoved) || in != dir && errors.Is(err, errMoved) {
				t.Errorf("%s in %s: %v", what, in, err)
			}
		}
		if after := underDir(in, true); (after == before) != (in == dir) {
			t.Errorf("%s is\n%s\nand was\n%s", in, after, before)
		}
	}
	if err := s.Close(); !errors.Is(err, errMoved) {
		t.Error(err)
	}
}

// A checkpoint that fails leaves what it has not made: here a link that leads nowhere.
func TestFailedCheckpointLeavesALink(t *testing.T) {
	dir := t.TempDir()
	s := openReal(t, filepath.Join(dir, "ix"))
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(filepath.Join(dir, "nowhere"), link))
	if err := s.Checkpoint(t.Context(), link); err == nil {
		t.Error("a link that leads nowhere is a folder")
	}
	if _, err := os.Lstat(link); err != nil {
		t.Error(err)
	}
	must(t, s.Close())
}
