package extsort

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

func stableSorted[R Record](records []R) []R {
	want := slices.Clone(records)
	slices.SortStableFunc(want, func(a, b R) int { return cmp.Compare(a[0], b[0]) })
	return want
}

func TestSortRecords(t *testing.T) {
	t.Run("bytes=8", testSortRecords[[1]uint64])
	t.Run("bytes=16", testSortRecords[[2]uint64])
	t.Run("bytes=24", testSortRecords[[3]uint64])
	t.Run("bytes=32", testSortRecords[[4]uint64])
}

func testSortRecords[R Record](t *testing.T) {
	beyondCache := cacheBytes/int(recordBytes[R]()) + 1
	for _, k := range keys {
		for _, n := range []int{0, 1, 2, insertionLen, insertionLen + 1, 300, 5000, beyondCache} {
			t.Run(fmt.Sprintf("%s/n=%d", k.name, n), func(t *testing.T) {
				records := makeRecords[R](n, uint64(n), k.next)
				want := stableSorted(records)
				if got := sortRecords(records, make([]R, n)); !slices.Equal(got, want) {
					t.Error("not the order of a stable sort")
				}
			})
		}
	}
}

func FuzzSortRecords(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add(make([]byte, 100), uint8(63))
	f.Add([]byte("some bytes that are more than two dozen, for the radix passes"), uint8(7))
	f.Fuzz(func(t *testing.T, data []byte, rotate uint8) {
		records := make([][2]uint64, len(data))
		for i, b := range data {
			x := uint64(b)
			records[i] = [2]uint64{x<<(rotate%64) | x*x>>(rotate/4), uint64(i)}
		}
		want := stableSorted(records)
		if got := sortRecords(records, make([][2]uint64, len(records))); !slices.Equal(got, want) {
			t.Error("not the order of a stable sort")
		}
	})
}
