package scan

import "math/bits"

// varying is the bits in which some fingerprints differ. Only these tell them apart, so
// fields are made of them: gathered in a row, with the rest left out, from the highest
// bit of a word on.
type varying struct {
	width int
	moves []move
}

// move is a run of bits and what it is shifted to the left by.
type move struct {
	mask  uint64
	shift int
}

// allVary is for fingerprints that are left as they are.
var allVary = varying{width: 64}

// varyingOf returns the bits in which the fingerprints differ.
func varyingOf(fps []uint64) varying {
	or, and := uint64(0), ^uint64(0)
	for _, fp := range fps {
		or, and = or|fp, and&fp
	}
	var v varying
	for differ := or &^ and; differ != 0; {
		first := bits.LeadingZeros64(differ)
		width := bits.LeadingZeros64(^(differ << first))
		mask := field{first, width}.mask()
		v.moves = append(v.moves, move{mask, first - v.width})
		v.width += width
		differ &^= mask
	}
	if v.width == 64 {
		return allVary
	}
	return v
}

// all reports whether the fingerprints are left as they are.
func (v *varying) all() bool { return v.width == 64 }

func (v *varying) of(fp uint64) uint64 {
	if v.all() {
		return fp
	}
	gathered := uint64(0)
	for _, m := range v.moves {
		gathered |= fp & m.mask << m.shift
	}
	return gathered
}

// gather appends the fingerprints with their bits gathered.
func (v *varying) gather(dst, fps []uint64) []uint64 {
	for _, fp := range fps {
		dst = append(dst, v.of(fp))
	}
	return dst
}

// spread returns the bits of a fingerprint that are gathered in these ones.
func (v *varying) spread(gathered uint64) uint64 {
	if v.all() {
		return gathered
	}
	fp := uint64(0)
	for _, m := range v.moves {
		fp |= gathered >> m.shift & m.mask
	}
	return fp
}
