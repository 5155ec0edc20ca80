//go:build unix

package extsort

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestSpillFilesArePrivate tests that only the owner can read a spill file and its directory.
func TestSpillFilesArePrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "made")
	s := New[[2]uint64](Options{MemoryBytes: 1, Dir: dir})
	defer s.Close()
	addAll(t, s, testgen.Records[[2]uint64](many, 6, testgen.Keys[0].Next))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if must(t, err); len(files) == 0 {
		t.Error("no spill files")
	}
	for _, path := range append(files, dir) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}
