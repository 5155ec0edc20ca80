package scan

import "testing"

// TestFiltersAreAsLargeAsTheyShouldBe fails on 32-bit processors if 2^31 or 2^32 is ever
// an int.
func TestFiltersAreAsLargeAsTheyShouldBe(t *testing.T) {
	for bits := minFilterBits; bits <= maxFilterBits; bits++ {
		s := shape{bits: bits}
		if want := int64(1) << bits / 8; s.bytes() != want || 8*int64(s.words()) != want {
			t.Errorf("2^%d bits: %d words, %d bytes, want %d bytes", bits, s.words(), s.bytes(), want)
		}
	}
}
