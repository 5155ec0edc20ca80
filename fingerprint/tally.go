package fingerprint

import "math/bits"

// tally counts hashes, up to 31 each, in an open-addressing table. A slot is the
// upper 48 bits of a hash, 11 bits of generation and 5 bits of count; a slot of
// another generation is free, so a new text needs no clearing. The place of a
// hash follows from its upper bits alone: two hashes that agree in 48 bits are
// one, whatever the size of the table, so that counts depend on nothing but the
// hashes.
type tally struct {
	slots      []uint64 // length a power of two
	shift      uint8    // 64 - log2 len(slots)
	generation uint64   // in place: bits 5 to 15
	used       int
	limit      int      // grow when so many are used
	buffer     []uint64 // what slots is a part of
	spare      []uint64 // what the table grows into
}

const (
	tallyCountMask      = 1<<5 - 1
	tallyGenerationStep = 1 << 5
	tallyGenerationMask = 1<<16 - 1 - tallyCountMask

	// maxDistinct bounds the memory a text can claim, whatever its length: hashes
	// that are new when so many are there already are left out.
	maxDistinct = 1 << 20
	// keptSlots bounds what a pooled table keeps.
	keptSlots = 1 << 17
	minSlots  = 1 << 8
)

// begin empties the table and gives it the number of slots that suits so many
// distinct hashes; it grows when there are more.
func (t *tally) begin(distinct int) {
	if cap(t.buffer) > keptSlots {
		t.buffer = nil
	}
	if cap(t.spare) > keptSlots {
		t.spare = nil
	}
	size := 1 << bits.Len(uint(min(max(distinct, minSlots/2), maxDistinct)))
	t.buffer = withLength(t.buffer, size)
	t.use(t.buffer[:size])
	t.generation = (t.generation + tallyGenerationStep) & tallyGenerationMask
	if t.generation == 0 {
		clear(t.buffer[:cap(t.buffer)])
		clear(t.spare[:cap(t.spare)])
		t.generation = tallyGenerationStep
	}
	t.used = 0
}

func (t *tally) use(slots []uint64) {
	t.slots = slots
	t.shift = uint8(64 - bits.TrailingZeros(uint(len(slots))))
	t.limit = min(len(slots)/4*3, maxDistinct)
}

func withLength(b []uint64, n int) []uint64 {
	if cap(b) < n {
		return make([]uint64, n)
	}
	return b[:n]
}

// add counts a hash and gives its count so far: 1 when it is new, at most 31. A
// hash that is left out (see maxDistinct) gives 31.
func (t *tally) add(hash uint64) uint64 {
	slots := t.slots
	key := hash&^0xffff | t.generation
	for i := hash >> (t.shift & 63); ; i++ {
		slot := &slots[i&uint64(len(slots)-1)]
		if *slot&^tallyCountMask == key {
			n := *slot & tallyCountMask
			if n < tallyCountMask {
				*slot++
				n++
			}
			return n
		}
		if *slot&tallyGenerationMask != t.generation {
			if t.used >= t.limit {
				return t.addGrown(hash)
			}
			t.used++
			*slot = key | 1
			return 1
		}
	}
}

func (t *tally) addGrown(hash uint64) uint64 {
	if t.used >= maxDistinct {
		return tallyCountMask
	}
	old := t.slots
	size := 2 * len(old)
	t.buffer, t.spare = withLength(t.spare, size), t.buffer
	t.use(t.buffer[:size])
	for _, slot := range old {
		if slot&tallyGenerationMask != t.generation {
			continue
		}
		i := slot >> (t.shift & 63)
		for t.slots[i]&tallyGenerationMask == t.generation {
			i = (i + 1) & uint64(size-1)
		}
		t.slots[i] = slot
	}
	return t.add(hash)
}
