//go:build unix

package compaction_test

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// What is sorted in files goes nowhere once the folder of the index is moved: what is there may be another index.
func TestLoadIntoAFolderThatIsMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ix")
	var docs iter.Seq2[index.Document, error] = func(yield func(index.Document, error) bool) {
		for n := range 200_000 { // more than there is memory for
			if n == 1000 {
				if err := os.Rename(dir, dir+".old"); err != nil {
					t.Error(err)
				}
			}
			if !yield(index.Document{Fingerprint: fingerprint.Fingerprint(n) << 40}, nil) {
				return
			}
		}
	}
	_, err := compaction.Load(t.Context(), dir, docs, compaction.LoadOptions{MemoryBytes: 1 << 20})
	if !errors.Is(err, index.ErrFailed) {
		t.Errorf("the load: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a folder again: %v", err)
	}
}
