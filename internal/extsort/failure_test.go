package extsort

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestFileSystemErrors lets single operations on the file system fail: the first ones, and fewer of
// the later ones, and fewest with -short.
func TestFileSystemErrors(t *testing.T) {
	rare, least := int32(10), 8
	if testing.Short() {
		rare, least = 2, 4
	}
	for _, k := range testgen.Keys {
		if k.Name != "random" && k.Name != "nested" && k.Name != "equal" {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			records := testgen.Records[[2]uint64](many, 5, k.Next)
			want := testgen.StableSorted(records)
			before := runtime.NumGoroutine()
			failures := 0
			for at := int32(0); ; at += 1 + at/rare {
				var operations atomic.Int32
				fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(errorfs.Op) error {
					if operations.Add(1)-1 == at {
						return syscall.ENOSPC
					}
					return nil
				}))
				s := New[[2]uint64](Options{MemoryBytes: 1, Dir: "spill/here", FS: fs})
				var err error
				for batch := range slices.Chunk(records, 1000) {
					if err = s.Add(batch...); err != nil {
						break
					}
				}
				got, readErr := readAll(t.Context(), s)
				if err != nil && (len(got) > 0 || !errors.Is(readErr, err)) {
					t.Fatalf("operation %d: %d records, %v after %v", at, len(got), readErr, err)
				}
				err = errors.Join(err, readErr, s.Close())
				if operations.Load() <= at {
					if must(t, err); !slices.Equal(got, want) {
						t.Fatal("not the order of a stable sort")
					}
					break
				}
				failures++
				if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "spill/here") {
					t.Fatalf("operation %d: %v", at, err)
				}
			}
			if failures < least {
				t.Errorf("only %d operations failed", failures)
			}
			testenv.NoMoreGoroutines(t, before)
		})
	}
}

func TestSpillFileCutShort(t *testing.T) {
	dir := t.TempDir()
	s := New[[2]uint64](Options{MemoryBytes: 1, Dir: dir})
	defer s.Close()
	addAll(t, s, testgen.Records[[2]uint64](many, 6, testgen.Keys[0].Next))
	files, err := filepath.Glob(filepath.Join(dir, "*.spill"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for records, next := range s.Sorted(t.Context()) {
		if err = next; len(records) > 0 {
			must(t, os.Truncate(files[0], 500_001))
		}
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(),
		files[0]+" at byte ") {
		t.Error(err)
	}
}

// TestEndsOfLoops tests that no file and no goroutine remains after a loop over Sorted has ended in
// any way, also if its context was done before. Beam cancels the context if a later step fails.
func TestEndsOfLoops(t *testing.T) {
	before, enough := runtime.NumGoroutine(), errors.New("enough")
	for name, c := range map[string]struct {
		// step reports whether the loop goes on. nil: the context is done before the loop begins.
		step func(s *Sorter[[2]uint64], stop context.CancelCauseFunc) bool
		last error
	}{
		"break":  {func(*Sorter[[2]uint64], context.CancelCauseFunc) bool { return false }, nil},
		"panic":  {func(*Sorter[[2]uint64], context.CancelCauseFunc) bool { panic("later") }, nil},
		"before": {nil, context.Canceled},
		"context": {func(_ *Sorter[[2]uint64], stop context.CancelCauseFunc) bool {
			stop(enough)
			return true
		}, enough},
		"Close": {func(s *Sorter[[2]uint64], _ context.CancelCauseFunc) bool {
			must(t, s.Close())
			return true
		}, errClosed},
	} {
		s, fs := newSpilling[[2]uint64]()
		addAll(t, s, testgen.Records[[2]uint64](many, 7, testgen.Keys[0].Next))
		if len(spillFiles(t, fs)) == 0 {
			t.Fatal("nothing was spilled")
		}
		ctx, stop := context.WithCancelCause(t.Context())
		if c.step == nil {
			stop(enough)
		}
		var last error
		n := 0
		func() {
			defer func() { _ = recover() }()
			for run, err := range s.Sorted(ctx) {
				n += len(run)
				if last = err; err == nil && !c.step(s, stop) {
					break
				}
			}
		}()
		stop(nil)
		if !errors.Is(last, c.last) || (n == 0) != (c.step == nil) || n >= many {
			t.Errorf("%s: %d records, error %v", name, n, last)
		}
		if files := spillFiles(t, fs); len(files) > 0 {
			t.Errorf("%s: the loop has left %v", name, files)
		}
		if err := s.Add([2]uint64{}); !errors.Is(err, errSorted) && !errors.Is(err, errClosed) {
			t.Errorf("%s: Add: %v", name, err)
		}
		closeAll(t, s, fs)
		testenv.NoMoreGoroutines(t, before)
	}
}
