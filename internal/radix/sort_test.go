package radix_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/radix"
	"github.com/neardup/neardup/internal/testing/testgen"
)

func TestSort(t *testing.T) {
	t.Run("bytes=8", testSort[[1]uint64])
	t.Run("bytes=16", testSort[[2]uint64])
	t.Run("bytes=24", testSort[[3]uint64])
	t.Run("bytes=32", testSort[[4]uint64])
}

func testSort[R radix.Record](t *testing.T) {
	beyondCache := 1<<20/int(radix.Bytes[R]()) + 1
	for _, k := range testgen.Keys {
		for _, n := range []int{0, 1, 2, 24, 25, 300, 5000, beyondCache} {
			t.Run(fmt.Sprintf("%s/n=%d", k.Name, n), func(t *testing.T) {
				records := testgen.Records[R](n, uint64(n), k.Next)
				want := testgen.StableSorted(records)
				for _, length := range []int{1, 7, 1000, beyondCache} {
					parts := slices.Collect(slices.Chunk(slices.Clone(records),
						max(length, n/1000)))
					got := make([]R, n)
					if radix.SortParts(parts, got); !slices.Equal(got, want) {
						t.Errorf("parts of %d records: not the order of a stable sort", length)
					}
				}
				if got := radix.Sort(records, make([]R, n)); !slices.Equal(got, want) {
					t.Error("not the order of a stable sort")
				}
			})
		}
	}
}

func FuzzSort(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add(make([]byte, 100), uint8(63))
	f.Add([]byte("some bytes that are more than two dozen, for the radix passes"), uint8(7))
	f.Fuzz(func(t *testing.T, data []byte, rotate uint8) {
		records := make([][2]uint64, len(data))
		for i, b := range data {
			x := uint64(b)
			records[i] = [2]uint64{x<<(rotate%64) | x*x>>(rotate/4), uint64(i)}
		}
		want := testgen.StableSorted(records)
		if got := radix.Sort(records, make([][2]uint64, len(records))); !slices.Equal(got, want) {
			t.Error("not the order of a stable sort")
		}
	})
}
