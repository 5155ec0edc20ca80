package extsort

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/neardup/neardup/internal/radix"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// addAndRead returns the first error of Add, Sorted and Close.
func addAndRead[R radix.Record](ctx context.Context, s *Sorter[R], records []R) ([]R, error) {
	for batch := range slices.Chunk(records, 1000) {
		if err := s.Add(batch...); err != nil {
			if got, again := readAll(ctx, s); len(got) > 0 || !errors.Is(again, err) {
				return nil, fmt.Errorf("%w, but then Sorted gave %d records, error %v", err,
					len(got), again)
			}
			return nil, errors.Join(err, s.Close())
		}
	}
	got, err := readAll(ctx, s)
	return got, errors.Join(err, s.Close())
}

// TestFileSystemErrors lets operations on the file system fail once, from the first to the last.
// With -short, which is for the race detector, there are fewer.
func TestFileSystemErrors(t *testing.T) {
	rare, least := int32(10), 8
	if testing.Short() {
		rare, least = 2, 4
	}
	for _, name := range []string{"random", "nested", "equal"} {
		t.Run(name, func(t *testing.T) {
			k := testgen.Keys[slices.IndexFunc(testgen.Keys,
				func(k testgen.Key) bool { return k.Name == name })]
			records := testgen.Records[[2]uint64](100_000, 5, k.Next)
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
				got, err := addAndRead(t.Context(), s, records)
				if err == nil {
					if !slices.Equal(got, want) {
						t.Fatalf("operation %d: not the order of a stable sort", at)
					}
					if operations.Load() <= at {
						break
					}
					t.Fatalf("operation %d failed, but no call returned an error", at)
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
	addAll(t, s, testgen.Records[[2]uint64](100_000, 6, testgen.Keys[0].Next))
	files, err := filepath.Glob(filepath.Join(dir, "*.spill"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for records, next := range s.Sorted(t.Context()) {
		if err = next; len(records) > 0 {
			must(t, os.Truncate(files[0], 500_001))
		}
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), files[0]+" at byte ") {
		t.Error(err)
	}
}

func TestContext(t *testing.T) {
	records := testgen.Records[[2]uint64](100_000, 7, testgen.Keys[0].Next)
	before := runtime.NumGoroutine()

	s, fs := newSpilling[[2]uint64]()
	addAll(t, s, records)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	why := errors.New("enough")
	var last error
	n := 0
	for run, err := range s.Sorted(ctx) {
		last = err
		n += len(run)
		stop(why)
	}
	if !errors.Is(last, why) || n == 0 || n >= len(records) {
		t.Errorf("%d records, error %v", n, last)
	}
	if files := spillFiles(t, fs); len(files) > 0 { // before Close
		t.Errorf("left %v", files)
	}
	closeAll(t, s, fs)
	testenv.NoMoreGoroutines(t, before)
}

// TestLoopsThatPanicOrNeverBegin tests that no file and no goroutine remains if a loop panics, or
// if its context is done before it begins. Beam does this if a later step fails.
func TestLoopsThatPanicOrNeverBegin(t *testing.T) {
	before := runtime.NumGoroutine()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), canceled} {
		s, fs := newSpilling[[2]uint64]()
		addAll(t, s, testgen.Records[[2]uint64](100_000, 7, testgen.Keys[0].Next))
		if len(spillFiles(t, fs)) == 0 {
			t.Fatal("nothing was spilled")
		}
		func() {
			defer func() { _ = recover() }()
			for range s.Sorted(ctx) {
				panic("behind")
			}
		}()
		if files := spillFiles(t, fs); len(files) > 0 {
			t.Fatalf("left %v", files)
		}
		if err := s.Add([2]uint64{}); !errors.Is(err, errSorted) {
			t.Errorf("Add: %v", err)
		}
	}
	testenv.NoMoreGoroutines(t, before)
}
