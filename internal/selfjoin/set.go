package selfjoin

import (
	"fmt"
	"iter"
	"math/bits"

	"github.com/neardup/neardup/internal/hugepages"
)

// Set is the set of distinct fingerprints of a collection. They are its nodes, which are numbered
// from 0 in ascending order. A Set is safe for concurrent use.
type Set struct {
	fps     []fp
	repeats []repeat // the nodes with more than one copy, ascending

	// by value of the leading bits: the first node with this or a larger value
	starts []uint32
	shift  int
}

// Node is the number of a distinct fingerprint in its Set.
type Node = uint32

type repeat struct {
	node   Node
	copies int
}

// maxLen is the largest number of fingerprints of a set, equal ones included.
const maxLen = 1<<32 - 2

// NewSet returns the set of a collection, which it sorts on all cores. It takes ownership of the
// slice. Sorting needs as much memory again. It returns an error for more than maxLen fingerprints.
func NewSet(fps []fp) (*Set, error) {
	if err := checkLen(len(fps)); err != nil {
		return nil, err
	}
	sortAll(fps)
	s := &Set{}
	s.take(fps, func(int) {})
	return s, nil
}

// NewSetWithPlaces is like NewSet. It also returns the positions in the slice of the copies of each
// node, which need 8 bytes per fingerprint.
func NewSetWithPlaces(fps []fp) (*Set, *Occurrences, error) {
	if err := checkLen(len(fps)); err != nil {
		return nil, nil, err
	}
	o := &Occurrences{places: sortPlaces(fps), starts: make([]uint32, 0, len(fps)+1)}
	hugepages.Prefer(o.starts[:cap(o.starts)])
	s := &Set{}
	s.take(fps, func(start int) { o.starts = append(o.starts, uint32(start)) })
	o.starts = append(o.starts, uint32(len(fps)))
	return s, o, nil
}

// take sets the nodes to sorted fingerprints. It calls started with the position of the first copy
// of each node.
func (s *Set) take(fps []fp, started func(start int)) {
	distinct := fps[:0]
	for begin := 0; begin < len(fps); {
		end := begin + 1
		for end < len(fps) && fps[end] == fps[begin] {
			end++
		}
		if end-begin > 1 {
			s.repeats = append(s.repeats, repeat{Node(len(distinct)), end - begin})
		}
		started(begin)
		distinct = append(distinct, fps[begin])
		begin = end
	}
	s.fps = distinct
	s.makeStarts()
}

// SortedSet returns the set of ascending, distinct fingerprints, and takes ownership of the slice.
// copies returns the number of copies of a node; if it is nil, each node has one copy. SortedSet
// returns an error for more than maxLen fingerprints.
func SortedSet(fps []fp, copies func(Node) int) (*Set, error) {
	if err := checkLen(len(fps)); err != nil {
		return nil, err
	}
	s := &Set{fps: fps}
	if copies != nil {
		for node := range Node(len(fps)) {
			if n := copies(node); n > 1 {
				s.repeats = append(s.repeats, repeat{node, n})
			}
		}
	}
	s.makeStarts()
	return s, nil
}

func checkLen(n int) error {
	if uint64(n) > maxLen {
		return fmt.Errorf("%w: %d, want at most %d", errTooMany, n, uint64(maxLen))
	}
	return nil
}

// makeStarts sets starts, with 4 to 8 nodes per value on average.
func (s *Set) makeStarts() {
	leading := max(bits.Len(uint(len(s.fps)))-3, 0)
	s.shift = 64 - leading
	s.starts = make([]uint32, 1<<leading+1)
	hugepages.Prefer(s.starts)
	next := uint64(0)
	for node, f := range s.fps {
		for ; next <= uint64(f)>>s.shift; next++ {
			s.starts[next] = uint32(node)
		}
	}
	for ; next < uint64(len(s.starts)); next++ {
		s.starts[next] = uint32(len(s.fps))
	}
}

// Len returns the number of nodes.
func (s *Set) Len() int { return len(s.fps) }

// Fingerprint returns the fingerprint of a node.
func (s *Set) Fingerprint(node Node) fp { return s.fps[node] }

// Repeated yields the nodes with more than one copy, and the number of copies.
func (s *Set) Repeated() iter.Seq2[Node, int] {
	return func(yield func(Node, int) bool) {
		for _, r := range s.repeats {
			if !yield(r.node, r.copies) {
				return
			}
		}
	}
}

// Node returns the node of a fingerprint, or the next larger node if the fingerprint is not found.
func (s *Set) Node(f fp) (node Node, found bool) {
	leading := uint64(f) >> s.shift
	begin, end := int(s.starts[leading]), int(s.starts[leading+1])
	for begin < end {
		if middle := int(uint(begin+end) / 2); s.fps[middle] < f {
			begin = middle + 1
		} else {
			end = middle
		}
	}
	return Node(begin), begin < len(s.fps) && s.fps[begin] == f
}

// nodesOf returns the nodes of fingerprints that are in the set. Their cache misses overlap.
func (s *Set) nodesOf(fps []fp) []Node {
	nodes := make([]Node, len(fps))
	for i, f := range fps {
		nodes[i] = s.starts[uint64(f)>>s.shift]
	}
	for i, f := range fps {
		if s.fps[nodes[i]] < f {
			nodes[i]++
		}
	}
	for i, f := range fps {
		for steps := 16; s.fps[nodes[i]] < f; nodes[i]++ {
			if steps--; steps == 0 { // many nodes have the same leading bits
				nodes[i], _ = s.Node(f)
				break
			}
		}
	}
	return nodes
}

// Occurrences has the positions in a collection of the copies of each node.
type Occurrences struct {
	places []uint32 // by node, then ascending
	starts []uint32 // the start of each node in places
}

// Of returns the positions of the copies of a node, in ascending order.
func (o *Occurrences) Of(node Node) []uint32 {
	return o.places[o.starts[node]:o.starts[node+1]:o.starts[node+1]]
}
