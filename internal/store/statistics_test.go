package store

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Pebble reads the statistics of a table that it can not read again and again. It must not
// keep a processor busy with it, nor fill the log, nor hold up Close.
func TestStatisticsOfATableThatCannotBeRead(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Open("store", Options{Create: &Header{}, FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := fillUp(t, s, 1, 20); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer // written by one goroutine, and read when the store is closed
	var attempts atomic.Int64
	s, err = Open("store", Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			// Not what opens a table, which another reader may be waiting for.
			if op.Kind == errorfs.OpFileReadAt && calledBy(".ReadPropertiesBlock") {
				attempts.Add(1)
				return syscall.EIO
			}
			return nil
		})),
	})
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "the first attempt", func() struct{} {
		for attempts.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		return struct{}{}
	})
	time.Sleep(100 * time.Millisecond)
	if err := soon(t, "Close", s.Close); err != nil {
		t.Error(err)
	}
	// With pauses of 5, 10, 20 ms and so on there are 6 in 300 ms, and 18 in 20 minutes.
	if n := attempts.Load(); n > 30 {
		t.Errorf("%d attempts", n)
	}
	if n := strings.Count(log.String(), "statistics"); n != 1 {
		t.Errorf("%d lines of the log:\n%.500s", n, log.String())
	}
}

// running counts the goroutines that have a function in their stack. Some stay of stores that were left.
func running(function string) int {
	stacks := make([]byte, 16<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(function))
}
