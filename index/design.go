package index

import (
	"fmt"
	"math"
)

// Design is a way to cut the 64 bits into blocks and to build tables from them.
// The paper (section 3.1.2) gives four for k = 3, with 20, 16, 10 and 4 tables;
// these are the same constructions for any k. Two more take fewer tables and more
// probes, by a radius: where m blocks tolerate r flips each, k flips cannot go over
// all of them as long as the sum of r+1 exceeds k (Norouzi, Punjani and Fleet, "Fast
// Search in Hamming Space with Multi-Index Hashing", 2012; Qin et al., "GPH", 2018).
type Design struct {
	Name  string
	build func(k int) []Table
}

// The designs, by the number of tables that they have at k = 3. More tables mean
// longer prefixes, so fewer candidates a query, for more space.
var (
	// Design20 cuts k+3 blocks; a table leads with any 3 of them.
	Design20 = Design{"20", func(k int) []Table { return chooseBlocks(k+3, 3) }}
	// Design16 cuts k+1 blocks and cuts the rest behind each again into k+1.
	Design16 = Design{"16", twoLevels}
	// Design10 cuts k+2 blocks; a table leads with any 2 of them.
	Design10 = Design{"10", func(k int) []Table { return chooseBlocks(k+2, 2) }}
	// Design4 cuts k+1 blocks; a table leads with one of them.
	Design4 = Design{"4", func(k int) []Table { return chooseBlocks(k+1, 1) }}
	// Design3 cuts k blocks; a table leads with one, and one of them has radius 1.
	Design3 = Design{"3", func(k int) []Table { return tolerant(k, max(k, 1)) }}
	// Design2 cuts half of k+1 blocks; a table leads with one, and has radius 1.
	Design2 = Design{"2", func(k int) []Table { return tolerant(k, (k+2)/2) }}
)

// Designs returns the designs, fewest tables first.
func Designs() []Design {
	return []Design{Design2, Design3, Design4, Design10, Design16, Design20}
}

// DesignNamed returns the design of that name.
func DesignNamed(name string) (Design, error) {
	for _, d := range Designs() {
		if d.Name == name {
			return d, nil
		}
	}
	return Design{}, fmt.Errorf("%w: no design %q; there are 2, 3, 4, 10, 16 and 20", ErrPlan, name)
}

// Plan builds the design for a distance k.
func (d Design) Plan(k int) (*Plan, error) {
	if k < 0 || k > MaxDistanceLimit {
		return nil, fmt.Errorf("%w: k = %d is not in 0..%d", ErrPlan, k, MaxDistanceLimit)
	}
	return NewPlan(k, d.build(k)...)
}

// split cuts the given bits into m blocks of equal size, the larger ones first.
// A block may consist of several ranges.
func split(rest []Bits, m int) [][]Bits {
	total := 0
	for _, b := range rest {
		total += b.len()
	}
	blocks := make([][]Bits, m)
	for i := range blocks {
		want := total / m
		if i < total%m {
			want++
		}
		for want > 0 {
			take := min(want, rest[0].len())
			blocks[i] = append(blocks[i], Bits{rest[0].First, rest[0].First + take - 1})
			rest[0].First += take
			want -= take
			if rest[0].len() == 0 {
				rest = rest[1:]
			}
		}
	}
	return blocks
}

func leading(front []Bits) Table {
	prefix := 0
	for _, b := range front {
		prefix += b.len()
	}
	return Table{Permutation: bringForward(front...), Prefix: prefix}
}

// chooseBlocks cuts m blocks and makes a table of every choice of c of them.
func chooseBlocks(m, c int) []Table {
	blocks := split([]Bits{{0, 63}}, m)
	var tables []Table
	var choose func(from int, front []Bits, left int)
	choose = func(from int, front []Bits, left int) {
		if left == 0 {
			tables = append(tables, leading(front))
			return
		}
		for i := from; i <= m-left; i++ {
			choose(i+1, append(front[:len(front):len(front)], blocks[i]...), left-1)
		}
	}
	choose(0, nil, c)
	return tables
}

func twoLevels(k int) []Table {
	var tables []Table
	for _, first := range split([]Bits{{0, 63}}, k+1) {
		rest := bringForward(first...)
		taken := leading(first).Prefix
		for _, second := range split(cutFront(rest, taken), k+1) {
			tables = append(tables, leading(append(first[:len(first):len(first)], second...)))
		}
	}
	return tables
}

// radiusBits is by how much the block of a table with radius 1 is longer than the
// others': its probes are 1 + prefix, so each should meet fewer candidates.
const radiusBits = 4

// tolerant cuts m blocks; as many of them have radius 1 as it takes.
func tolerant(k, m int) []Table {
	withRadius := k + 1 - m
	plain := ((64 - radiusBits*withRadius) * (m - withRadius)) / m // bits of the blocks without
	var tables []Table
	if plain > 0 {
		for _, front := range split([]Bits{{0, plain - 1}}, m-withRadius) {
			tables = append(tables, leading(front))
		}
	}
	if withRadius > 0 {
		for _, front := range split([]Bits{{plain, 63}}, withRadius) {
			t := leading(front)
			t.Radius = 1
			tables = append(tables, t)
		}
	}
	return tables
}

// cutFront returns a permutation's ranges behind its first n bits.
func cutFront(p Permutation, n int) []Bits {
	var rest []Bits
	for _, b := range p {
		skip := min(n, b.len())
		n -= skip
		if b.First+skip <= b.Last {
			rest = append(rest, Bits{b.First + skip, b.Last})
		}
	}
	return rest
}

// OptimalTables is the paper's X(f, k, d) (section 3.1.2): the least number of
// tables with which a query at distance k among 2^d fingerprints of f bits meets
// at most 2^threshold candidates in each table, where every table is made by
// cutting r > k blocks, leading with r-k of them, and doing the same again with
// the rest. f/r need not be whole here, as in the paper.
func OptimalTables(f float64, k int, d, threshold float64) float64 {
	if d <= threshold {
		return 1
	}
	best := math.Inf(1)
	// r-k blocks of f/r bits each are matched: with more blocks than bits that is no cut.
	for r := k + 1; float64(r) <= f; r++ {
		matched := float64(r-k) * f / float64(r)
		if tables := binomial(r, k); tables < best {
			best = min(best, tables*OptimalTables(f-matched, k, d-matched, threshold))
		}
	}
	return best
}

// binomial returns r over k.
func binomial(r, k int) float64 {
	n := 1.0
	for i := range k {
		n = n * float64(r-i) / float64(i+1)
	}
	return n
}
