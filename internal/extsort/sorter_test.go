package extsort

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/radix"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

var must = testenv.Must

// addAll adds records in batches of random length.
func addAll[R radix.Record](t testing.TB, s *Sorter[R], records []R) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(len(records)), 1))
	for rest := records; len(rest) > 0; {
		n := min(random.IntN(1<<random.IntN(14)), len(rest)) // as many as Add collects, and more
		batch := slices.Clone(rest[:n])
		must(t, s.Add(batch...))
		clear(batch) // Add has copied it
		rest = rest[n:]
	}
	if s.Len() != int64(len(records)) {
		t.Fatalf("Len is %d after %d records", s.Len(), len(records))
	}
}

// readAll collects the runs. It overwrites each run, as a consumer may.
func readAll[R radix.Record](ctx context.Context, s *Sorter[R]) (all []R, err error) {
	for run, err := range s.Sorted(ctx) {
		if err != nil {
			return all, err
		}
		if len(run) == 0 {
			return all, errors.New("an empty run")
		}
		all = append(all, run...)
		clear(run)
	}
	return all, nil
}

// newSpilling returns a Sorter with the minimal memory of 1 MiB, half of which holds records.
func newSpilling[R radix.Record]() (*Sorter[R], *vfs.MemFS) {
	fs := vfs.NewMem()
	return New[R](Options{MemoryBytes: 1, Dir: "spill/here", FS: fs}), fs
}

func spillFiles(t testing.TB, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List("spill/here")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

// checkSorted adds records and reads them. They must be in stable order, and no file may remain.
// It returns the number of files.
func checkSorted[R radix.Record](t *testing.T, s *Sorter[R], fs vfs.FS, records []R) (files int) {
	t.Helper()
	addAll(t, s, records)
	files = len(spillFiles(t, fs))
	got, err := readAll(t.Context(), s)
	if err != nil || !slices.Equal(got, testgen.StableSorted(records)) {
		t.Errorf("not the order of a stable sort: %d records, %v", len(got), err)
	}
	closeAll(t, s, fs)
	return files
}

// closeAll closes a Sorter twice. No file may remain.
func closeAll[R radix.Record](t *testing.T, s *Sorter[R], fs vfs.FS) {
	t.Helper()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if files := spillFiles(t, fs); len(files) > 0 {
		t.Errorf("left %v", files)
	}
}

func TestSorter(t *testing.T) {
	t.Run("bytes=8", testSorter[[1]uint64])
	t.Run("bytes=24", testSorter[[3]uint64])
	if testing.Short() { // goroutines do not differ between records
		return
	}
	t.Run("bytes=16", testSorter[[2]uint64])
	t.Run("bytes=32", testSorter[[4]uint64])
}

func testSorter[R radix.Record](t *testing.T) {
	var record R
	many := 800_000 / int(unsafe.Sizeof(record)) // more than fit in memory
	for _, k := range testgen.Keys {
		for _, n := range []int{0, 1, 100, 5000, many} {
			t.Run(fmt.Sprintf("%s/n=%d", k.Name, n), func(t *testing.T) {
				s, fs := newSpilling[R]()
				if files := checkSorted(t, s, fs, testgen.Records[R](n, uint64(n), k.Next)); (files > 0) != (n == many) {
					t.Errorf("%d files", files)
				}
			})
		}
	}
}

func TestBreak(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, k := range testgen.Keys {
		for _, runs := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", k.Name, runs), func(t *testing.T) {
				s, fs := newSpilling[[2]uint64]()
				addAll(t, s, testgen.Records[[2]uint64](100_000, 3, k.Next))
				n := 0
				for _, err := range s.Sorted(t.Context()) {
					must(t, err)
					if n++; n == runs {
						break
					}
				}
				testenv.NoMoreGoroutines(t, before+1) // one for this subtest
				closeAll(t, s, fs)
			})
		}
	}
}

func TestClose(t *testing.T) {
	records := testgen.Records[[2]uint64](100_000, 4, testgen.Keys[0].Next)
	before := runtime.NumGoroutine()
	s, fs := newSpilling[[2]uint64]()
	addAll(t, s, records)
	closeAll(t, s, fs)
	if err := s.Add(records...); !errors.Is(err, errClosed) {
		t.Errorf("Add: %v", err)
	}
	if _, err := readAll(t.Context(), s); !errors.Is(err, errClosed) {
		t.Errorf("Sorted: %v", err)
	}

	s, fs = newSpilling[[2]uint64]()
	addAll(t, s, records)
	var steps []error
	for _, err := range s.Sorted(t.Context()) {
		if steps = append(steps, err); err == nil {
			closeAll(t, s, fs)
		}
	}
	if len(steps) != 2 || !errors.Is(steps[1], errClosed) {
		t.Errorf("closed in the loop: %v", steps)
	}
	if err := New[[1]uint64](Options{}).Close(); err != nil {
		t.Error(err)
	}
	testenv.NoMoreGoroutines(t, before)
}

func TestSortedOnce(t *testing.T) {
	s, fs := newSpilling[[1]uint64]()
	defer closeAll(t, s, fs)
	if got, err := readAll(t.Context(), s); err != nil || len(got) > 0 {
		t.Errorf("an empty Sorter gives %v, %v", got, err)
	}
	if _, err := readAll(t.Context(), s); !errors.Is(err, errSorted) {
		t.Errorf("Sorted: %v", err)
	}
	if err := s.Add([1]uint64{}); !errors.Is(err, errSorted) {
		t.Errorf("Add: %v", err)
	}
}
