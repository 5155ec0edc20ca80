package store

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// The store stops while Pebble makes a folder or a file of a checkpoint. Checkpoint does not
// wait for Pebble, which then may never end, but nothing comes up in the folder after it.
func TestStopInTheMiddleOfACheckpoint(t *testing.T) {
	for what, at := range map[string]errorfs.OpKind{"folder": errorfs.OpMkdirAll, "file": errorfs.OpCreate, "link": errorfs.OpLink} {
		t.Run(what, func(t *testing.T) {
			mem := vfs.NewMem()
			reached, goOn := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			s, err := Open("store", Options{Create: &Header{}, FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				// Of a link, errorfs tells the name that there is already.
				if op.Kind == at && (at == errorfs.OpLink || strings.HasPrefix(op.Path, "copy/"+incomingDir)) && once.CompareAndSwap(false, true) {
					close(reached)
					<-goOn
				}
				return nil
			}))})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := fillUp(t, s, 1, 4); err != nil {
				t.Fatal(err)
			}
			if err := s.db.Flush(); err != nil { // for a table to link
				t.Fatal(err)
			}
			returned := make(chan error, 1)
			go func() { returned <- s.Checkpoint(t.Context(), "copy") }()
			soon(t, "Checkpoint", func() struct{} { return <-reached })
			s.guarded.Stop(syscall.EIO)
			time.Sleep(10 * time.Millisecond) // for a Checkpoint that does not wait
			close(goOn)
			if err := soon(t, "Checkpoint", func() error { return <-returned }); !errors.Is(err, ErrFailed) {
				t.Error(err)
			}
			time.Sleep(10 * time.Millisecond) // for what goes on behind it
			if _, err := mem.Stat("copy"); !errors.Is(err, fs.ErrNotExist) {
				names, _ := mem.List("copy")
				t.Errorf("the folder is there after it, with %q: %v", names, err)
			}
			if err := soon(t, "Close", s.Close); !errors.Is(err, ErrFailed) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}
