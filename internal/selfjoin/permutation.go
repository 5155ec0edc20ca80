package selfjoin

import "math/bits"

// permutation moves the bits of a block to the top, and back.
type permutation struct {
	forth, back bitMap
	width       int
}

// bitMap has what each byte of a fingerprint adds.
type bitMap [8][256]fp

func (m *bitMap) apply(f fp) fp {
	return m[0][byte(f)] | m[1][byte(f>>8)] | m[2][byte(f>>16)] | m[3][byte(f>>24)] |
		m[4][byte(f>>32)] | m[5][byte(f>>40)] | m[6][byte(f>>48)] | m[7][byte(f>>56)]
}

func (m *bitMap) set(from, to int) {
	for value := range 256 {
		if value>>(from%8)&1 != 0 {
			m[from/8][value] |= 1 << to
		}
	}
}

func newPermutation(block fp) *permutation {
	p := &permutation{width: bits.OnesCount64(uint64(block))}
	high, low := 64-p.width, 0
	for bit := range 64 {
		to := &low
		if block>>bit&1 != 0 {
			to = &high
		}
		p.forth.set(bit, *to)
		p.back.set(*to, bit)
		*to++
	}
	return p
}
