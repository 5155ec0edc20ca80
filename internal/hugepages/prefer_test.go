package hugepages

import "testing"

// TestPrefer calls Prefer for slices of all lengths around the page size. Neither their content
// nor the memory around them may change.
func TestPrefer(t *testing.T) {
	const page = 2 << 20
	for _, n := range []int{0, 1, page, 2*page - 1, 2 * page, 2*page + 1, 5*page + 4097} {
		for skip := range 3 {
			s := make([]byte, n+2*skip)
			Prefer(s[skip : n+skip])
			for i := range s {
				s[i] = byte(i)
			}
			Prefer(s[skip : n+skip])
			for i := range s {
				if s[i] != byte(i) {
					t.Fatalf("%d bytes from %d on: byte %d is %d", n, skip, i, s[i])
				}
			}
		}
	}
}
