package selfjoin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"sort"

	"github.com/neardup/neardup/internal/ordered"
)

// Set is the distinct fingerprints of a collection. Its nodes are numbered from 0 in
// the order of their fingerprints. It may be used by several goroutines at once.
type Set struct {
	fps     []fp
	repeats []repeat // of the nodes with more than one copy, by node
	copies  int      // all of them

	starts []uint32 // for each value of the leading bits the first node with it or a larger one
	shift  int
}

// Node is the number of a distinct fingerprint in its Set.
type Node = uint32

type repeat struct {
	node   Node
	copies int
}

// ErrTooMany: a set has more fingerprints than nodes can be numbered.
var ErrTooMany = errors.New("selfjoin: too many fingerprints")

// MaxLen is the largest number of fingerprints of a set, equal ones included.
const MaxLen = 1<<32 - 2

func checkLen(n int) error {
	if uint64(n) > MaxLen {
		return fmt.Errorf("%w: %d, at most %d in memory", ErrTooMany, n, uint64(MaxLen))
	}
	return nil
}

// NewSet sorts a collection, on all cores, and takes the slice over. It needs as much
// memory again while it sorts. It refuses more than MaxLen with ErrTooMany.
func NewSet(fps []fp) (*Set, error) {
	if err := checkLen(len(fps)); err != nil {
		return nil, err
	}
	s := &Set{copies: len(fps)}
	sortAll(fps)
	distinct := fps[:0]
	for begin := 0; begin < len(fps); {
		end := begin + 1
		for end < len(fps) && fps[end] == fps[begin] {
			end++
		}
		if end-begin > 1 {
			s.repeats = append(s.repeats, repeat{Node(len(distinct)), end - begin})
		}
		distinct = append(distinct, fps[begin])
		begin = end
	}
	s.fps = distinct
	s.makeStarts()
	return s, nil
}

// SortedSet makes a set of fingerprints that are ascending and distinct already, and
// takes the slice over. It refuses more than MaxLen with ErrTooMany.
func SortedSet(fps []fp) (*Set, error) {
	if err := checkLen(len(fps)); err != nil {
		return nil, err
	}
	s := &Set{fps: fps, copies: len(fps)}
	s.makeStarts()
	return s, nil
}

// Counted returns the set with the number of copies of each node.
func (s *Set) Counted(copies func(Node) int) *Set {
	counted := *s
	counted.repeats, counted.copies = nil, 0
	for node := range Node(len(s.fps)) {
		n := copies(node)
		counted.copies += n
		if n > 1 {
			counted.repeats = append(counted.repeats, repeat{node, n})
		}
	}
	return &counted
}

// makeStarts makes the directory of Node: 1 to 2 nodes for each value on average.
func (s *Set) makeStarts() {
	leading := max(bits.Len(uint(len(s.fps)))-3, 0)
	s.shift = 64 - leading
	s.starts = make([]uint32, 1<<leading+1)
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

// Total returns the number of fingerprints, equal ones included.
func (s *Set) Total() int { return s.copies }

// Fingerprint returns that of a node.
func (s *Set) Fingerprint(node Node) fp { return s.fps[node] }

// Copies returns how often a node's fingerprint occurs.
func (s *Set) Copies(node Node) int {
	i := sort.Search(len(s.repeats), func(i int) bool { return s.repeats[i].node >= node })
	if i < len(s.repeats) && s.repeats[i].node == node {
		return s.repeats[i].copies
	}
	return 1
}

// Repeated yields the nodes of more than one copy, and the number of copies.
func (s *Set) Repeated() iter.Seq2[Node, int] {
	return func(yield func(Node, int) bool) {
		for _, r := range s.repeats {
			if !yield(r.node, r.copies) {
				return
			}
		}
	}
}

// EqualPairs returns how many pairs of equal fingerprints there are, which Pairs does
// not list.
func (s *Set) EqualPairs() uint64 {
	n := uint64(0)
	for _, r := range s.repeats {
		n += uint64(r.copies) * uint64(r.copies-1) / 2
	}
	return n
}

// Node returns the node of a fingerprint.
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

// Options of a search.
type Options struct {
	// MaxDistance is k: 0 to 64. There is no default. Up to about 6 the work grows
	// little faster than the collection; above 12 it comes down to comparing all
	// with all.
	MaxDistance int

	// Workers is the number of goroutines; default runtime.GOMAXPROCS(0).
	Workers int

	// MemoryBytes is about what ExternalPairs and ExternalClusters take in all; default 1 GiB,
	// at least 16 MiB. A Set takes what its methods say.
	MemoryBytes int64

	// Dir is where their temporary files go: 16 bytes a fingerprint for pairs, 24 for clusters,
	// and what is in clusters. They are gone when the call returns. Default os.TempDir().
	Dir string
}

// ErrDistance: MaxDistance is not one.
var ErrDistance = errors.New("selfjoin: distance out of range")

func (o *Options) check() error {
	if o.MaxDistance < 0 || o.MaxDistance > 64 {
		return fmt.Errorf("%w: k = %d is not in 0..64", ErrDistance, o.MaxDistance)
	}
	return nil
}

// Each calls found with every pair of distinct fingerprints within the distance, once.
// It does so from Workers goroutines, in no order, some hundreds of pairs at a time
// that are good until found returns; each goroutine has its own number, from 0. An
// error of found ends the search and is returned. Besides the set, about 8 bytes a node
// are taken, and 16 if a large part of all share a prefix. Errors: ErrDistance, ctx's.
func (s *Set) Each(ctx context.Context, o Options, found func(worker int, pairs []Pair) error) error {
	if err := o.check(); err != nil {
		return err
	}
	return each(ctx, s.fps, o.MaxDistance, o.Workers, found)
}

// Pairs yields every pair of distinct fingerprints within the distance, once, in no
// order. It stops at the first error, which it yields. Cost and errors are those of
// Each; what was found ahead of the loop is bounded.
func (s *Set) Pairs(ctx context.Context, o Options) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		const ahead = 32
		for pairs, err := range ordered.All(ctx, 0, ahead, func(p *ordered.Pipe[[]Pair]) error {
			return s.Each(p.Context(), o, func(_ int, pairs []Pair) error { return p.Send(slices.Clone(pairs)) })
		}) {
			if err != nil {
				yield(Pair{}, err)
				return
			}
			for _, p := range pairs {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}
