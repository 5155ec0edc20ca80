package fingerprint

import (
	"math/bits"
	"slices"
)

// counts and set are tables of hashes that take no branch on what they find, since
// whether a word is new is a matter of chance: each hash has one slot, and it stays with
// the first hash that comes to it. The others, few where the table is large enough,
// go to a tally. What is counted does not depend on who has a slot.
//
// Two hashes that agree in their upper 48 bits are one. A slot has them, and below them
// a generation, so that a new text needs no clearing.

// front is what counts and set have in common.
type front struct {
	slots      []uint64 // length a power of two
	buffer     []uint64 // what slots is a part of
	shift      uint8    // 64 - log2 len(slots)
	generation uint64   // in its place in a slot, never 0
	others     []uint64 // hashes whose slot has another
	found      []uint8  // what was found for each hash
	rest       tally
}

// begin empties the table and gives it so many slots or up to twice as many.
func (f *front) begin(slots int, step, end uint64) {
	size := 1 << bits.Len(uint(max(slots, minSlots)-1))
	if cap(f.buffer) < size || cap(f.buffer) > max(size, keptSlots) {
		f.buffer, f.generation = make([]uint64, size), 0
	}
	f.slots = f.buffer[:size]
	f.shift = uint8(64 - bits.TrailingZeros(uint(size)))
	if f.generation += step; f.generation == end {
		clear(f.buffer[:cap(f.buffer)])
		f.generation = step
	}
	f.rest.begin(size / 8)
}

// What a look into the table says of a hash.
const (
	chosen = 1 << iota // it counts, or is new
	other              // its slot has another
)

// counts counts hashes, up to 126 each. Below the hash a slot has 9 bits of generation
// and 7 of the count.
type counts struct{ front }

func (c *counts) begin(slots int) { c.front.begin(slots, 1<<countBits, 1<<16) }

// addAll counts hashes one after the other and appends those to dst that have come at
// most so many times.
func (c *counts) addAll(dst, hashes []uint64, most uint64) []uint64 {
	c.found = slices.Grow(c.found[:0], len(hashes))[:len(hashes)]
	c.count(hashes, most)
	dst = slices.Grow(dst, len(hashes))
	c.others = slices.Grow(c.others[:0], len(hashes))
	n, m := divide(dst[len(dst):cap(dst)], c.others[:len(hashes)], hashes, c.found)
	return c.rest.addAll(dst[:len(dst)+n], c.others[:m], most)
}

// count is apart from divide so that each keeps to the registers.
func (c *counts) count(hashes []uint64, most uint64) {
	slots, shift, generation, found := c.slots, c.shift&63, c.generation, c.found
	for i, h := range hashes {
		at := h >> shift & uint64(len(slots)-1)
		key := h&^0xffff | generation
		slot := slots[at]
		if (slot^key)&(0xffff&^countMask) != 0 {
			slot = key
		}
		// Below 2^56, since hashes of one slot agree in 8 bits at least.
		count := slot ^ key
		counted := (count - most) >> 63
		slots[at] = slot + counted
		found[i] = uint8(counted | (0xffff-count)>>63<<1)
	}
}

func divide(out, others, hashes []uint64, found []uint8) (n, m int) {
	out, others, found = out[:len(hashes)], others[:len(hashes)], found[:len(hashes)]
	for i, h := range hashes {
		choice := int(found[i])
		out[n] = h
		n += choice & chosen
		others[m] = h
		m += choice >> 1
	}
	return n, m
}

// set is a set of hashes. Below the hash a slot has 16 bits of generation.
type set struct {
	front
	places    []int32 // of hashes whose slot has another
	newPlaces []int32
}

func (s *set) begin(slots int) { s.front.begin(slots, 1, 1<<16) }

// addNew keeps of hashes, and of what stands beside them, those that are new. It gives their
// number.
func (s *set) addNew(hashes, beside []uint64) int {
	s.found = slices.Grow(s.found[:0], len(hashes))[:len(hashes)]
	s.look(hashes)
	s.others = slices.Grow(s.others[:0], 2*len(hashes))[:2*len(hashes)]
	others, othersBeside := s.others[:len(hashes)], s.others[len(hashes):]
	n, m := 0, 0
	found, beside := s.found, beside[:len(hashes)]
	for i, h := range hashes {
		b, choice := beside[i], int(found[i])
		hashes[n], beside[n] = h, b
		n += choice & chosen
		others[m], othersBeside[m] = h, b
		m += choice >> 1
	}
	s.newPlaces = s.rest.addNew(s.newPlaces[:0], others[:m])
	for _, k := range s.newPlaces {
		hashes[n], beside[n] = others[k], othersBeside[k]
		n++
	}
	return n
}

func (s *set) look(hashes []uint64) {
	slots, shift, generation, found := s.slots, s.shift&63, s.generation, s.found
	for i, h := range hashes {
		at := h >> shift & uint64(len(slots)-1)
		key := h&^0xffff | generation
		slot, fresh := slots[at], uint8(0)
		if uint16(slot) != uint16(generation) {
			fresh = chosen
		}
		if uint16(slot) != uint16(generation) {
			slot = key
		}
		slots[at] = slot
		found[i] = fresh | uint8(-(slot^key)>>63<<1) // below 2^56 too
	}
}
