package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/surgeon"
)

// TestFilesArePrivate: nothing of an index, of a replacement or of a checkpoint can be read by others, and
// what there was before keeps its mode.
func TestFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes")
	}
	root := t.TempDir()
	dir := filepath.Join(root, "made", "ix")
	s, err := Open(dir, Options{Create: &Header{}})
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	document(b, 1)
	apply(t, s, b, true)
	if err := s.Checkpoint(t.Context(), filepath.Join(root, "copies", "1")); err != nil {
		t.Fatal(err)
	}
	r, err := s.NewRewrite(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AddClock(1, 1); err != nil {
		t.Fatal(err)
	}
	if err := r.AddFilterChunk(0, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	kinds := allPrivate(t, root)
	for _, kind := range []string{"LOCK", ".log", ".sst", "MANIFEST", "OPTIONS", "marker", incomingDir, surgeon.DigestName} {
		if !kinds[kind] {
			t.Errorf("no %s among %v", kind, kinds)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "LOCK"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "LOCK"))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("LOCK has mode %v, %v", info.Mode(), err)
	}
}

// allPrivate looks at the modes of all in a folder, and returns the kinds of files there are.
func allPrivate(t *testing.T, root string) map[string]bool {
	t.Helper()
	kinds := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		name := d.Name()
		if ext := filepath.Ext(name); ext == ".log" || ext == ".sst" {
			name = ext
		}
		name, _, _ = strings.Cut(name, "-")
		if strings.HasPrefix(name, "marker") {
			name = "marker"
		}
		kinds[name] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}
