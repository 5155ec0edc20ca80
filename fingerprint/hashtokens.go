package fingerprint

import (
	"encoding/binary"
	"slices"
)

// hashTokens appends the hashes of the tokens in t.out to dst.
func (t *tokenizer) hashTokens(dst []uint64) []uint64 {
	n := len(t.out)
	t.out = slices.Grow(t.out, fastPathRoom(0))
	out := t.out[:n+fastPathRoom(0)]
	clear(out[n:])
	t.findBoundaries(out, n)
	count := len(t.boundaries) / 2
	t.units += count * wordUnits
	if t.each != nil {
		return t.hashEach(dst, out)
	}
	dst = slices.Grow(dst, count)
	hashes := dst[len(dst) : len(dst)+count]
	edges := t.boundaries[:2*count]
	for k := range hashes {
		start, end := int(edges[2*k]), int(edges[2*k+1])
		size := end - start
		if size > 16 {
			hashes[k] = hashLong(out[start:], size)
			continue
		}
		token := out[start : start+16]
		mask := &firstBytes[size]
		hashes[k] = hash16(binary.LittleEndian.Uint64(token)&mask[0], binary.LittleEndian.Uint64(token[8:])&mask[1], size)
	}
	return dst[:len(dst)+count]
}

// hashLong is hashToken for the first size bytes of b, more than 16; b has bytes beyond.
func hashLong(b []byte, size int) uint64 {
	before, left := uint64(0), size
	for ; left > 16; left -= 16 {
		before = hash16(before^binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), size)
		b = b[16:]
	}
	mask := &firstBytes[left]
	return hash16(before^binary.LittleEndian.Uint64(b)&mask[0], binary.LittleEndian.Uint64(b[8:])&mask[1], size)
}

// hashEach is hashTokens by t.each.
func (t *tokenizer) hashEach(dst []uint64, out []byte) []uint64 {
	for k := 0; k < len(t.boundaries); k += 2 {
		dst = append(dst, t.each(out[t.boundaries[k]:t.boundaries[k+1]]))
	}
	return dst
}
