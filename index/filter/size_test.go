package filter

import "testing"

// TestSize compares with the filters that are really made.
func TestSize(t *testing.T) {
	for _, prefix := range []int{1, 6, 9, 16, 23, 24, 25, 26, 32, 63, 64} {
		for _, n := range []int64{1, 511, 1000, 70_000, 1_000_000, 3_000_000} {
			for _, budget := range []int64{0, 63, 64, 5000, 1 << 20, 3 << 20, 1 << 40} {
				bytes, _ := Size(prefix, n, budget)
				if got := mustFilter(t, prefix, n, budget).Bytes(); got != bytes {
					t.Errorf("prefix %d, n = %d, budget %d: Size says %d bytes, it has %d", prefix, n, budget, bytes, got)
				}
			}
		}
	}
}
