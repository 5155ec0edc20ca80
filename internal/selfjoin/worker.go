package selfjoin

import "math/bits"

const (
	// maxChained is the largest length of a group with chains, whose entries have 16 bits.
	maxChained = 1<<16 - 1
	// maxExpected is the largest average number of fingerprints with the same block for which a
	// group is chained instead of divided.
	maxExpected = 4
	// maxSteps is the number of comparisons per fingerprint from which chains are abandoned, and
	// the group is divided instead.
	maxSteps = 4 * maxExpected

	flushLen = 512
)

// worker is the state of one goroutine of a join.
type worker struct {
	join    *join
	number  int
	pairs   []Pair
	unequal []fp
	scratch []fp
	counts  [1 << maxPartitionBits]uint32
	heads   [1 << maxChainBits]uint16 // positions in a group from 1, or 0
	next    []uint16
}

// run finds the pairs of a group. It may change the order of the group.
func (w *worker) run(group []fp, c constraint) {
	if len(group) < 2 || w.join.stop.Load() {
		return
	}
	if len(group) <= compareAll {
		w.compare(group, &c)
		return
	}
	if len(group) > len(w.scratch) {
		w.scratch = make([]fp, len(group)+len(group)/4)
	}
	w.unequal = append(w.unequal[:0], c.unequal...)
	c.unequal = w.unequal
	w.group(group, w.scratch[:len(group)], c)
	w.unequal = c.unequal
}

// group finds the pairs of a group. room must have the same length.
func (w *worker) group(group, room []fp, c constraint) {
	if len(group) <= compareAll {
		w.compare(group, &c)
		return
	}
	if w.join.stop.Load() {
		return
	}
	s := c.split(len(group), w.join.k, differing(group, group[0]))
	if s.none() {
		w.compare(group, &c)
		return
	}
	swapped, left := false, compareBudget(len(group))
	for step := range c.steps(&s) {
		if w.chained(group, &step) {
			continue
		}
		if left -= w.divide(group, room, &step); left < 0 {
			w.compare(room, step.before())
		}
		group, room = room, group // room now has all fingerprints
		swapped = !swapped
		if left < 0 {
			break
		}
		w.parts(group, room, &step)
	}
	if swapped {
		copy(room, group)
	}
}

// divide sorts a group by a block into room. It returns the number of pairs within the parts.
func (w *worker) divide(group, room []fp, s *step) (comparisons float64) {
	k := w.keyFor(group, s)
	counts := w.counts[:1<<k.width]
	clear(counts)
	for _, f := range group {
		counts[k.of(f)]++
	}
	at, squares := uint32(0), uint64(0)
	for i, n := range counts {
		counts[i] = at
		at += n
		squares += uint64(n) * uint64(n)
	}
	for _, f := range group {
		place := &counts[k.of(f)]
		room[*place] = f
		*place++
	}
	return float64(squares) / 2
}

func (w *worker) keyFor(group []fp, s *step) key {
	return keyOf(s.block, min(maxPartitionBits, bits.Len(uint(len(group)))))
}

// parts finds the pairs of the parts of a divided group.
func (w *worker) parts(group, room []fp, s *step) {
	k := w.keyFor(group, s)
	for begin := 0; begin < len(group); {
		part := k.of(group[begin])
		end := begin + 1
		for end < len(group) && k.of(group[end]) == part {
			end++
		}
		if end-begin > 1 {
			w.group(group[begin:end], room[begin:end], s.constraint)
		}
		begin = end
	}
}

// chained finds the pairs of a group with an equal block, if few fingerprints share a block. It
// compares each fingerprint with the earlier fingerprints in the chain of its key. If the group
// must be divided instead, it returns false and finds no pairs.
func (w *worker) chained(group []fp, s *step) bool {
	if len(group) > maxChained || float64(len(group)) > maxExpected*exp2(s.width) {
		return false
	}
	k := keyOf(s.block, min(maxChainBits, bits.Len(uint(len(group)))+1))
	heads := w.heads[:1<<k.width]
	clear(heads)
	if len(group) >= len(w.next) {
		w.next = make([]uint16, 2*len(group)+1)
	}
	next := w.next
	mark, left, most := len(w.pairs), maxSteps*len(group), w.join.k
	for i, f := range group {
		head := &heads[k.of(f)]
		place := *head
		*head = uint16(i + 1)
		next[i+1] = place
		for ; place != 0; place = next[place] {
			if x := f ^ group[place-1]; bits.OnesCount64(uint64(x)) <= most && s.allows(x) {
				w.pairs = append(w.pairs, pairOf(f, group[place-1]))
			}
			if left--; left < 0 {
				w.pairs = w.pairs[:mark]
				return false
			}
		}
	}
	if len(w.pairs) >= flushLen {
		w.flush()
	}
	return true
}

// compare finds the pairs of a group by comparing all pairs.
func (w *worker) compare(group []fp, c *constraint) {
	for begin := 0; begin < len(group) && !w.join.stop.Load(); begin += tileLen {
		w.compareTile(group[begin:], c)
	}
}

// tileLen is the number of fingerprints that are compared with the rest of a group together, so
// that they stay in a core's first cache.
const tileLen = 1 << 10

// compareTile finds the pairs of the first tileLen fingerprints with each other and with the rest.
func (w *worker) compareTile(group []fp, c *constraint) {
	most := w.join.k
	for i, f := range group {
		for _, g := range group[:min(i, tileLen)] {
			if x := f ^ g; bits.OnesCount64(uint64(x)) <= most && c.allows(x) {
				w.pairs = append(w.pairs, pairOf(f, g))
			}
		}
		if len(w.pairs) >= flushLen {
			w.flush()
			if w.join.stop.Load() {
				return
			}
		}
	}
}

// flush calls found with the pairs of the worker.
func (w *worker) flush() {
	if len(w.pairs) == 0 {
		return
	}
	if !w.join.stop.Load() {
		if err := w.join.found(w.number, w.pairs); err != nil {
			w.join.fail(err)
		}
	}
	w.pairs = w.pairs[:0]
}
