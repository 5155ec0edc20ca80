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
// Most hashes count. So all are added to a simhash, and those that do not count are then
// taken off it again.
//
// Two hashes that agree in their upper 48 bits are one. A slot has them, and below them
// a generation, so that a new text needs no clearing.

// placeShift is the lowest bit of a hash that says where its slot is.
const placeShift = 44

// front is what counts and set have in common.
type front struct {
	slots      []uint64 // length a power of two
	buffer     []uint64 // what slots is a part of
	generation uint64   // in its place in a slot, never 0
	others     []uint64 // hashes whose slot has another
	rest       tally    // of those
	off        []uint64 // what to take off, inverted
}

// begin empties the table and gives it so many slots or up to twice as many.
func (f *front) begin(slots int, step, end uint64) {
	size := 1 << bits.Len(uint(max(slots, minSlots)-1))
	if cap(f.buffer) < size || cap(f.buffer) > max(size, keptSlots) {
		f.buffer, f.generation = make([]uint64, size), 0
	}
	f.slots = f.buffer[:size]
	if f.generation += step; f.generation == end {
		clear(f.buffer[:cap(f.buffer)])
		f.generation = step
	}
	f.rest.begin(size / 8)
}

// place is the slot of a hash.
func (f *front) place(hash uint64) uint64 { return hash >> placeShift & uint64(len(f.slots)-1) }

// free reports whether a slot has another generation than key. The low bits are those
// of a count.
func free(slot, key, low uint64) bool { return (slot^key)&(0xffff&^low) != 0 }

// counts counts hashes, up to 126 each. Below the hash a slot has 9 bits of generation
// and 7 of the count.
type counts struct{ front }

func (c *counts) begin(slots int) { c.front.begin(slots, 1<<countBits, 1<<16) }

// takeOff takes hashes off a simhash to which they were added: each that has come more than
// most times, for every time beyond.
func (c *counts) takeOff(sum *Accumulator, hashes []uint64, most uint64) {
	c.off = slices.Grow(c.off[:0], len(hashes))[:len(hashes)]
	c.off = c.off[:c.count(hashes, most)]
	c.others = c.others[:0]
	for i, h := range c.off {
		if c.slots[c.place(h)]^(h&^0xffff|c.generation) > countMask {
			c.others = append(c.others, h)
		}
		c.off[i] = ^h
	}
	sum.addAll(c.off)
	sum.addAll(c.rest.addAll(c.off[:0], c.others, most))
}

// count counts hashes, and puts those into c.off that do not count or whose slot has
// another. It gives their number.
func (c *counts) count(hashes []uint64, most uint64) (n int) {
	slots, generation, off := c.slots, c.generation, c.off[:len(hashes)]
	for _, h := range hashes {
		at := h >> placeShift & uint64(len(slots)-1)
		key := h&^0xffff | generation
		slot := slots[at]
		if free(slot, key, countMask) {
			slot = key
		}
		count := slot ^ key
		counted := uint64(0)
		if count < most {
			counted = 1
		}
		slots[at] = slot + counted
		off[n] = h
		n += int(counted ^ 1)
	}
	return n
}

// set is a set of hashes. Below the hash a slot has 16 bits of generation.
type set struct {
	front
	places    []uint32 // of hashes that are not new or whose slot has another
	besides   []uint64
	newPlaces []int32
}

func (s *set) begin(slots int) { s.front.begin(slots, 1, 1<<16) }

// addTo adds those of hashes that are new to one simhash, and what stands beside them to
// another, unless that is nil.
func (s *set) addTo(sum, besideSum *Accumulator, hashes, beside []uint64) {
	s.places = slices.Grow(s.places[:0], len(hashes))[:len(hashes)]
	s.places = s.places[:s.look(hashes)]
	s.others, s.besides = s.others[:0], s.besides[:0]
	for _, i := range s.places {
		if h := hashes[i]; s.slots[s.place(h)] != h&^0xffff|s.generation {
			s.others = append(s.others, h)
			s.besides = append(s.besides, beside[i])
		}
	}
	s.newPlaces = s.rest.addNew(s.newPlaces[:0], s.others)
	s.add(sum, hashes, s.others)
	if besideSum != nil {
		s.add(besideSum, beside, s.besides)
	}
}

// add adds hashes, takes off those at s.places, and adds those of others at s.newPlaces.
func (s *set) add(sum *Accumulator, hashes, others []uint64) {
	sum.addAll(hashes)
	s.off = s.off[:0]
	for _, i := range s.places {
		s.off = append(s.off, ^hashes[i])
	}
	for _, i := range s.newPlaces {
		s.off = append(s.off, others[i])
	}
	sum.addAll(s.off)
}

// look puts hashes into the table, and the places into s.places of those that are not
// new or whose slot has another. It gives their number.
func (s *set) look(hashes []uint64) (n int) {
	slots, generation, places := s.slots, s.generation, s.places[:len(hashes)]
	for i, h := range hashes {
		at := h >> placeShift & uint64(len(slots)-1)
		key := h&^0xffff | generation
		slot, known := slots[at], 1
		if uint16(slot) != uint16(generation) {
			slot = key
		}
		if uint16(slots[at]) != uint16(generation) {
			known = 0
		}
		slots[at] = slot
		places[n] = uint32(i)
		n += known
	}
	return n
}
