package fingerprint

// capped adds words to a simhash, each most times at the most. Hardly a word of a usual
// text comes so often. So all are added, and words with the same upper bits are counted
// together; where such a count is beyond most in the end, its words are counted one by one,
// and what is too much is taken off again. In a long text, where many counts would be,
// words are counted one by one at once.
type capped struct {
	most    uint64
	long    bool
	added   []uint64 // unless long
	sums    [1 << sumBits]uint32
	largest uint32
	counts  counts
}

const (
	sumBits = 10

	// longText is the least size of a long text, in bytes.
	longText = 1 << 16
)

// begin is for a new text of so many bytes.
func (c *capped) begin(size int, most uint64) {
	c.most, c.long = most, size >= longText
	if c.long {
		c.counts.begin(1 << 15)
		return
	}
	c.added, c.largest = c.added[:0], 0
	clear(c.sums[:])
}

func (c *capped) addTo(sum *Accumulator, hashes []uint64) {
	sum.addAll(hashes)
	if c.long {
		c.counts.takeOff(sum, hashes, c.most)
		return
	}
	c.added = append(c.added, hashes...)
	largest := c.largest
	for _, h := range hashes {
		n := c.sums[h>>(64-sumBits)] + 1
		c.sums[h>>(64-sumBits)] = n
		largest = max(largest, n)
	}
	c.largest = largest
}

// end takes off what addTo added too much of.
func (c *capped) end(sum *Accumulator) {
	if c.long || uint64(c.largest) <= c.most {
		return
	}
	n := 0
	for _, h := range c.added {
		c.added[n] = h
		n += int((c.most - uint64(c.sums[h>>(64-sumBits)])) >> 63) // no branch
	}
	c.counts.begin(n)
	c.counts.takeOff(sum, c.added[:n], c.most)
}
