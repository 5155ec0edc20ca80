package extsort

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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
		n := min(random.IntN(1<<random.IntN(14)), len(rest)) // up to twice distributedTogether
		batch := slices.Clone(rest[:n])
		must(t, s.Add(batch...))
		clear(batch) // Add must have copied it
		rest = rest[n:]
	}
	if s.Len() != int64(len(records)) {
		t.Fatalf("Len is %d after %d records", s.Len(), len(records))
	}
}

// readAll returns all records that Sorted yields. It overwrites each slice, as a caller may.
func readAll[R radix.Record](ctx context.Context, s *Sorter[R]) (all []R, err error) {
	for run, err := range s.Sorted(ctx) {
		if err != nil {
			return all, err
		}
		if len(run) == 0 {
			return all, errors.New("Sorted has yielded an empty slice")
		}
		all = append(all, run...)
		clear(run)
	}
	return all, nil
}

// many is a number of records of 16 bytes that do not fit in the memory of newSpilling.
const many = 100_000

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

// closeAll closes a Sorter twice. It must leave no file.
func closeAll[R radix.Record](t *testing.T, s *Sorter[R], fs vfs.FS) {
	t.Helper()
	must(t, s.Close(), s.Close())
	if files := spillFiles(t, fs); len(files) > 0 {
		t.Errorf("Close has left %v", files)
	}
}

func TestSorter(t *testing.T) {
	t.Run("bytes=8", testSorter[[1]uint64])
	t.Run("bytes=24", testSorter[[3]uint64])
	if testing.Short() {
		return
	}
	t.Run("bytes=16", testSorter[[2]uint64])
	t.Run("bytes=32", testSorter[[4]uint64])
}

func testSorter[R radix.Record](t *testing.T) {
	var record R
	many := 800_000 / int(unsafe.Sizeof(record)) // do not fit in memory
	for _, k := range testgen.Keys {
		for _, n := range []int{0, 1, 100, 5000, many} {
			t.Run(fmt.Sprintf("%s/n=%d", k.Name, n), func(t *testing.T) {
				s, fs := newSpilling[R]()
				records := testgen.Records[R](n, uint64(n), k.Next)
				addAll(t, s, records)
				if files := spillFiles(t, fs); (len(files) > 0) != (n == many) {
					t.Errorf("%d files", len(files))
				}
				got, err := readAll(t.Context(), s)
				if must(t, err); !slices.Equal(got, testgen.StableSorted(records)) {
					t.Errorf("not the order of a stable sort: %d records", len(got))
				}
				closeAll(t, s, fs)
			})
		}
	}
}

// TestCallsInTheWrongOrder calls Add and Sorted after Sorted and after Close.
func TestCallsInTheWrongOrder(t *testing.T) {
	for _, want := range []error{errSorted, errClosed} {
		s, fs := newSpilling[[2]uint64]()
		if want == errClosed {
			addAll(t, s, testgen.Records[[2]uint64](many, 4, testgen.Keys[0].Next))
			closeAll(t, s, fs)
		} else if got, err := readAll(t.Context(), s); err != nil || len(got) > 0 {
			t.Errorf("an empty Sorter yields %v, %v", got, err)
		}
		if _, err := readAll(t.Context(), s); !errors.Is(err, want) {
			t.Errorf("Sorted: %v, want %v", err, want)
		}
		if err := s.Add([2]uint64{}); !errors.Is(err, want) {
			t.Errorf("Add: %v, want %v", err, want)
		}
		closeAll(t, s, fs)
	}
	must(t, New[[1]uint64](Options{}).Close())
}

// TestMemoryBound measures the live heap. The tolerance is 10 % and 4 MiB.
func TestMemoryBound(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short")
	}
	const memory, n, batch = 16 << 20, 2_000_000, 5000 // 32 MB
	for _, k := range testgen.Keys {
		t.Run(k.Name, func(t *testing.T) {
			peak := testenv.PeakHeap(func() {
				random := rand.New(rand.NewPCG(8, 0))
				records := make([][2]uint64, batch)
				s := New[[2]uint64](Options{MemoryBytes: memory, Dir: t.TempDir()})
				defer s.Close()
				for at := range n / batch {
					for i := range records {
						records[i] = [2]uint64{k.Next(random, at*batch+i), 0}
					}
					must(t, s.Add(records...))
				}
				got := 0
				for run, err := range s.Sorted(t.Context()) {
					must(t, err)
					got += len(run)
				}
				if got != n {
					t.Errorf("%d records, want %d", got, n)
				}
			})
			t.Logf("%.1f MiB at the peak", float64(peak)/(1<<20))
			if limit := uint64(memory + memory/10 + 4<<20); peak > limit {
				t.Errorf("%d bytes at the peak, the limit is %d", peak, limit)
			}
		})
	}
}
