package fingerprint

import "math/bits"

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
	used       int      // slots at most, no more than half of them
}

const (
	countBits  = 7
	maxCount   = 1<<countBits - 1
	oneHash    = 1 << countBits // the lowest bit of the hash in a slot
	generation = 1 << 55        // the lowest bit of the generation

	// keptSlots bounds what a pooled table keeps, in slots of 8 bytes.
	keptSlots = 1 << 19
	minSlots  = 1 << 8
)

// begin empties the table and gives it some slots, at least half as many as asked for unless
// that is above keptSlots.
func (c *hashCounter) begin(slots int) {
	size := 1 << (bits.Len(uint(min(max(slots, minSlots), keptSlots))) - 1)
	if c.generation += generation; cap(c.slots) < size || cap(c.slots) > keptSlots || c.generation == 0 {
		c.slots, c.generation = make([]uint64, size), generation
	}
	c.use(c.slots[:size])
}

func (c *hashCounter) use(slots []uint64) {
	c.slots, c.used = slots, 0
	c.shift = uint8(64 - bits.TrailingZeros(uint(len(slots))))
}

// count counts hashes one after the other, and sets counts to how often each of them has come so
// far. Whether a hash is new is a matter of chance, so there is no branch on it.
func (c *hashCounter) count(counts []uint8, hashes []uint64) {
	if c.used+len(hashes) > len(c.slots)/2 {
		c.used = c.occupied() // what came again has taken no slot
		for c.used+len(hashes) > len(c.slots)*3/8 {
			c.grow()
		}
	}
	c.used += len(hashes)
	slots, shift, empty := c.slots, c.shift&63, c.generation
	mask := uint64(len(slots) - 1)
	counts = counts[:len(hashes)]
	for j, h := range hashes {
		key := h>>16<<countBits | empty
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
		count -= count >> countBits // maxCount at most
		slots[i] = key | count
		counts[j] = uint8(count)
	}
}

// occupied counts the slots that are taken.
func (c *hashCounter) occupied() (n int) {
	for _, slot := range c.slots {
		if slot^c.generation < generation {
			n++
		}
	}
	return n
}

// grow moves to a table of twice the size.
func (c *hashCounter) grow() {
	old := c.slots
	c.use(make([]uint64, 2*len(old)))
	mask := uint64(len(c.slots) - 1)
	for _, slot := range old {
		if slot^c.generation >= generation {
			continue
		}
		i := slot >> countBits << 16 >> (c.shift & 63)
		for c.slots[i&mask] != 0 {
			i++
		}
		c.slots[i&mask] = slot
		c.used++
	}
}
