//go:build unix

package extsort

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestSpillFilesArePrivate tests the permissions of spill files, which may hold private data.
func TestSpillFilesArePrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "made")
	s := New[[2]uint64](Options{MemoryBytes: 1, Dir: dir})
	defer s.Close()
	addAll(t, s, testgen.Records[[2]uint64](100_000, 6, testgen.Keys[0].Next))
	files := 0
	if err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if err == nil && !info.IsDir() {
			files++
		}
		return err
	}); err != nil || files == 0 {
		t.Errorf("%d spill files: %v", files, err)
	}
}
