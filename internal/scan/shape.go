package scan

import "math"

// shape is the size and the kind of a filter.
type shape struct {
	bits   int // 2^bits in all; 0: no filter
	hashed bool
}

const (
	minFilterBits = 12
	maxFilterBits = 32
)

func (s shape) bytes() int64 { return 8 * int64(s.words()) }

// words does not shift by all the bits first, which 32-bit words do not hold.
func (s shape) words() int { return 1 << (s.bits - 6) }

// shapes returns the filters that there may be for a field: a bit for each value of its
// first bits, or two bits for each value of all of them.
func (n near) shapes() []shape {
	var all []shape
	for bits := minFilterBits; bits <= maxFilterBits; bits++ {
		if bits <= n.width {
			all = append(all, shape{bits, false})
		}
		if bits < n.width {
			all = append(all, shape{bits, true})
		}
	}
	return all
}

// inserts returns the values that a filter takes for so many queries.
func (s shape) inserts(queries int, n near) float64 {
	if s.hashed {
		return float64(queries) * ball(n.width, n.radius)
	}
	return float64(queries) * ball(s.bits, n.radius)
}

// passing returns the part of random fingerprints that the filter lets through.
func (s shape) passing(queries int, n near) float64 {
	inserts := s.inserts(queries, n)
	full := -math.Expm1(-inserts / math.Exp2(float64(s.bits)))
	if !s.hashed {
		return full
	}
	there := -math.Expm1(-inserts / math.Exp2(float64(n.width)))
	full = -math.Expm1(-2 * inserts / math.Exp2(float64(s.bits)))
	return there + (1-there)*full*full
}
