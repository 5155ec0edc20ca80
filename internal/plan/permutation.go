package plan

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Permutation rearranges the bits of a fingerprint. It lists ranges of bits in their new order. Bit
// 0 is the most significant bit.
type Permutation []Bits

// Bits is the range of bits from First to Last, both included.
type Bits struct{ First, Last int }

func (b Bits) len() int { return b.Last - b.First + 1 }

// mask returns the mask in which the bits of the range are set.
func (b Bits) mask() uint64 {
	return ^uint64(0) >> (64 - b.len()) << (63 - b.Last)
}

// size returns the total number of bits of the ranges.
func size(ranges []Bits) int {
	n := 0
	for _, b := range ranges {
		n += b.len()
	}
	return n
}

// cut returns the first n bits of the ranges, and the rest.
func cut(ranges []Bits, n int) (first, rest []Bits) {
	for _, b := range ranges {
		taken := min(n, b.len())
		if taken > 0 {
			first = append(first, Bits{b.First, b.First + taken - 1})
		}
		if taken < b.len() {
			rest = append(rest, Bits{b.First + taken, b.Last})
		}
		n -= taken
	}
	return first, rest
}

// bringForward returns the permutation that moves the given ranges to the front, in this order. The
// other bits keep their order.
func bringForward(front ...Bits) Permutation {
	var p Permutation
	taken := uint64(0)
	for _, b := range front {
		p = p.append(b)
		taken |= b.mask()
	}
	for bit := 0; bit < 64; bit++ {
		if taken>>(63-bit)&1 == 0 {
			p = p.append(Bits{bit, bit})
		}
	}
	return p
}

// append adds a range. It extends the last range if the new one follows it directly.
func (p Permutation) append(b Bits) Permutation {
	if n := len(p); n > 0 && p[n-1].Last+1 == b.First {
		p[n-1].Last = b.Last
		return p
	}
	return append(p, b)
}

// check returns an error unless the ranges have each of the 64 bits once.
func (p Permutation) check() error {
	seen := uint64(0)
	for _, b := range p {
		if b.First < 0 || b.Last > 63 || b.First > b.Last {
			return fmt.Errorf("invalid range of bits %d-%d", b.First, b.Last)
		}
		if seen&b.mask() != 0 {
			return fmt.Errorf("bits %d-%d are repeated", b.First, b.Last)
		}
		seen |= b.mask()
	}
	if seen != ^uint64(0) {
		return fmt.Errorf("bits %016x are missing", ^seen)
	}
	return nil
}

func (p Permutation) identity() bool { return len(p) == 1 }

// apply returns the permuted fingerprint.
func (p Permutation) apply(fp uint64) uint64 {
	out := uint64(0)
	for _, b := range p {
		n := b.len()
		out = out<<(n&63) | fp<<b.First>>(64-n) // n is 64 only for the identity, where out is 0
	}
	return out
}

// invert is the inverse of apply.
func (p Permutation) invert(permuted uint64) uint64 {
	out := uint64(0)
	for _, b := range p {
		n := b.len()
		out |= permuted >> (64 - n) << (63 - b.Last)
		permuted = bits.RotateLeft64(permuted, n)
	}
	return out
}

// String returns the ranges as docs/format.md specifies: 16-31,0-15,32-63.
func (p Permutation) String() string {
	var s strings.Builder
	for i, b := range p {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, "%d-%d", b.First, b.Last)
	}
	return s.String()
}

func parsePermutation(s string) (Permutation, error) {
	var p Permutation
	for part := range strings.SplitSeq(s, ",") {
		first, last, found := strings.Cut(part, "-")
		if !found {
			return nil, fmt.Errorf("bits %q do not have the form first-last", part)
		}
		f, err := strconv.Atoi(first)
		if err != nil {
			return nil, err
		}
		l, err := strconv.Atoi(last)
		if err != nil {
			return nil, err
		}
		p = append(p, Bits{f, l})
	}
	return p, nil
}
