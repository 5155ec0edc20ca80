package store

import (
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// closesOf records the stack of each call that closes a table file.
type closesOf struct {
	vfs.FS
	mu     sync.Mutex
	stacks []string
}

type closingFile struct {
	vfs.File
	fs *closesOf
}

func (f *closesOf) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, o...)
	if err == nil && filepath.Ext(name) == ".sst" {
		file = &closingFile{file, f}
	}
	return file, err
}

func (f *closingFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.stacks = append(f.fs.stacks, string(debug.Stack()))
	return f.File.Close()
}

// TestLastViewOfAnOldVersion tests that the goroutine that closes the last view of a version does
// not remove its files from the caches of Pebble: that can take a second.
func TestLastViewOfAnOldVersion(t *testing.T) {
	fsys := &closesOf{FS: vfs.NewMem()}
	s := openIn(t, fsys)
	for id := range uint64(4) {
		apply(t, s, true, func(b *Batch) { document(b, 1+id) })
		must(t, s.db.Flush())
	}
	v, err := s.View()
	must(t, err, errOf(v.Records(0)),
		s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false), v.Close())
	s.jobs.closing.Wait()
	fsys.mu.Lock()
	stacks := fsys.stacks
	fsys.mu.Unlock()
	if len(stacks) == 0 {
		t.Error("no obsolete file was closed")
	}
	for _, stack := range stacks {
		if strings.Contains(stack, "(*View).Close") {
			t.Errorf("Close of a view closes a file:\n%s", stack)
		}
	}
	must(t, s.Close())
}
