package fingerprint

import (
	"math/bits"
	"slices"
)

// hashCounter counts hashes, up to 127 each, in an open-addressing table. A slot is, from
// the highest bit down, 9 bits of generation, the upper 48 bits of a hash and 7
// bits of count. A slot of another generation is free, so a new text needs no
// clearing. The place of a hash follows from its upper bits, and two hashes that
// agree in 48 bits are one: counts depend on nothing but the hashes, whatever the
// size of the table.
type hashCounter struct {
	slots      []uint64 // length a power of two
	shift      uint8    // 64 - log2 len(slots)
	generation uint64   // in its place in a slot, never 0
	used       int
	limit      int      // grow when so many are used
	buffer     []uint64 // what slots is a part of
	spare      []uint64 // what the table grows into
}

const (
	countBits  = 7
	countMask  = 1<<countBits - 1
	oneHash    = 1 << countBits // the lowest bit of the hash in a slot
	generation = 1 << 55        // the lowest bit of the generation

	// keptSlots bounds what a pooled table keeps, in slots of 8 bytes.
	keptSlots = 1 << 19
	minSlots  = 1 << 8
)

// key is the slot of a hash with a count of 0.
func (t *hashCounter) key(hash uint64) uint64 { return hash>>16<<countBits | t.generation }

// begin empties the table and gives it some slots, at least half as many as
// asked for; it grows when more than half of them are used.
func (t *hashCounter) begin(slots int) {
	size := 1 << (bits.Len(uint(max(slots, minSlots))) - 1)
	t.buffer = withLength(t.buffer, size)
	t.use(t.buffer)
	t.advance()
	t.used = 0
}

// trim gives back what an unusual text made large.
func (t *hashCounter) trim() {
	if cap(t.buffer) > keptSlots {
		t.slots, t.buffer = nil, nil
	}
	if cap(t.spare) > keptSlots {
		t.spare = nil
	}
}

// advance frees all slots.
func (t *hashCounter) advance() {
	t.generation += generation
	if t.generation == 0 {
		clear(t.buffer[:cap(t.buffer)])
		clear(t.spare[:cap(t.spare)])
		t.generation = generation
	}
}

func (t *hashCounter) use(slots []uint64) {
	t.slots = slots
	t.shift = uint8(64 - bits.TrailingZeros(uint(len(slots))))
	t.limit = len(slots) / 2
}

func withLength(b []uint64, n int) []uint64 {
	if cap(b) < n {
		return make([]uint64, n)
	}
	return b[:n]
}

// addAll counts hashes one after the other and appends those to dst whose count
// so far is at most most, which is below 127.
func (t *hashCounter) addAll(dst, hashes []uint64, most uint64) []uint64 {
	for len(hashes) > 0 {
		n := t.room(len(hashes))
		dst = t.addSome(dst, hashes[:n], most)
		hashes = hashes[n:]
	}
	return dst
}

// addNew appends the places in hashes to dst of those that are new. It is addAll with
// a most of 1 for tables that are used in no other way.
func (t *hashCounter) addNew(dst []int32, hashes []uint64) []int32 {
	for at := 0; at < len(hashes); {
		n := t.room(len(hashes) - at)
		dst = t.addSomeNew(dst, hashes[at:at+n], int32(at))
		at += n
	}
	return dst
}

// room makes room for at least one hash and at most n, and gives the number.
func (t *hashCounter) room(n int) int {
	if t.used == t.limit {
		t.grow()
	}
	return min(n, t.limit-t.used)
}

// counterBlock is how many hashes addSome takes at a time; a uint8 counts them.
const counterBlock = 256

// addSome is addAll for so many hashes as surely fit. Whether a hash is new and
// whether it counts are matters of chance, so there is no branch on either; and
// it takes two passes, so that each keeps to the registers.
func (t *hashCounter) addSome(dst, hashes []uint64, most uint64) []uint64 {
	var counts [counterBlock]uint8
	for len(hashes) > 0 {
		block := hashes[:min(len(hashes), counterBlock)]
		hashes = hashes[len(block):]
		t.countBlock(&counts, block)

		dst = slices.Grow(dst, len(block))
		out := dst[len(dst) : len(dst)+len(block)]
		n, fresh := 0, 0
		for i, h := range block {
			count := counts[uint8(i)]
			out[n] = h
			if uint64(count) <= most {
				n++
			}
			if count == 1 {
				fresh++
			}
		}
		dst = dst[:len(dst)+n]
		t.used += fresh
	}
	return dst
}

func (t *hashCounter) countBlock(counts *[counterBlock]uint8, hashes []uint64) {
	slots, shift, key0 := t.slots, t.shift&63, t.generation
	mask := uint64(len(slots) - 1)
	for j, h := range hashes {
		key := h>>16<<countBits | key0
		i := h >> shift & mask
		// Against key, the slot of the hash differs in the count only, a free one
		// in the generation at least, and another's in between.
		diff := slots[i] ^ key
		for diff-oneHash < generation-oneHash {
			i = (i + 1) & mask
			diff = slots[i] ^ key
		}
		if diff >= generation {
			diff = 0
		}
		count := diff + 1
		count -= count >> countBits // 127 at most
		slots[i] = key | count
		counts[uint8(j)] = uint8(count)
	}
}

// addSomeNew is addNew for so many hashes as surely fit, the first one of place at.
func (t *hashCounter) addSomeNew(dst []int32, hashes []uint64, at int32) []int32 {
	dst = slices.Grow(dst, len(hashes))
	out := dst[len(dst) : len(dst)+len(hashes)]
	slots, shift, key0 := t.slots, t.shift&63, t.generation
	mask := uint64(len(slots) - 1)
	n := 0
	for j, h := range hashes {
		key := h>>16<<countBits | key0
		i := h >> shift & mask
		diff := slots[i] ^ key
		for diff-1 < generation-1 { // another hash of this generation
			i = (i + 1) & mask
			diff = slots[i] ^ key
		}
		slots[i] = key
		out[n] = at + int32(j)
		if diff != 0 {
			n++
		}
	}
	t.used += n
	return dst[:len(dst)+n]
}

// find gives the slot of a hash, or the free one where it belongs.
func (t *hashCounter) find(hash, key uint64) *uint64 {
	for i := hash >> (t.shift & 63); ; i++ {
		slot := &t.slots[i&uint64(len(t.slots)-1)]
		if (*slot^key)-oneHash >= generation-oneHash {
			return slot
		}
	}
}

// grow moves to a table of twice the size. It takes a new generation, since the
// spare buffer may hold stale slots of the current one.
func (t *hashCounter) grow() {
	old, was := t.slots, t.generation
	if was+generation == 0 {
		old = slices.Clone(old) // advance is about to clear it
	}
	t.buffer, t.spare = withLength(t.spare, 2*len(old)), t.buffer
	t.use(t.buffer)
	t.advance()
	for _, slot := range old {
		if slot^was < generation {
			hash := slot >> countBits << 16
			key := t.key(hash)
			*t.find(hash, key) = key | slot&countMask
		}
	}
}
