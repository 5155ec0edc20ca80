package crashfs

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestCloneWhileLinking deadlocks if Link and CrashClone are not serialized.
func TestCloneWhileLinking(t *testing.T) {
	fsys := New()
	f, err := fsys.Create("a", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 3000 {
			if err := fsys.Link("a", fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 300 {
		fsys.CrashClone(vfs.CrashCloneCfg{})
	}
	group.Wait()
	names, err := fsys.List("")
	if err != nil || len(names) != 3001 {
		t.Errorf("%d names: %v", len(names), err)
	}
}
