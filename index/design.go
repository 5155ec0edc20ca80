package index

import (
	"fmt"
	"math"
)

// Design is a way to cut the 64 bits into blocks and to build tables from them.
//
// The design blocks-m cuts m blocks, and table i leads with block i; see Blocks. The
// others are the paper's (section 3.1.2), whose tables lead with several blocks. A
// number for a name is the number of tables at k = 3, and the same construction at
// any other k: 20, 16, 10 and 4 are the paper's four, 3 and 2 take fewer tables and
// more probes. At k = 3 the designs 2, 3 and 4 are blocks-2, blocks-3 and blocks-4.
//
// A name and a k stand for the same plan in every version.
type Design struct {
	Name  string
	least int // k
	build func(k int) []Table
}

// The designs named by a number. More tables mean longer prefixes, so fewer
// candidates a query, for more space.
var (
	// Design20 cuts k+3 blocks; a table leads with any 3 of them.
	Design20 = Design{"20", 0, func(k int) []Table { return chooseBlocks(k+3, 3) }}
	// Design16 cuts k+1 blocks and cuts the rest behind each again into k+1.
	Design16 = Design{"16", 0, twoLevels}
	// Design10 cuts k+2 blocks; a table leads with any 2 of them.
	Design10 = Design{"10", 0, func(k int) []Table { return chooseBlocks(k+2, 2) }}
	// Design4 is Blocks(k+1), where no table has a radius.
	Design4 = Design{"4", 0, func(k int) []Table { return blockTables(k, k+1) }}
	// Design3 is Blocks(k), where one table has radius 1.
	Design3 = Design{"3", 0, func(k int) []Table { return blockTables(k, max(k, 1)) }}
	// Design2 is Blocks of half of k+1, where all tables or all but one have radius 1.
	Design2 = Design{"2", 0, func(k int) []Table { return blockTables(k, (k+2)/2) }}
)

// Designs returns the designs that are named by a number, which exist for every k:
// those with the fewest tables at k = 3 first.
func Designs() []Design {
	return []Design{Design2, Design3, Design4, Design10, Design16, Design20}
}

// DesignsFor returns all designs for a distance, blocks-1 to blocks-(k+1) first.
// None of them gives the same plan as another.
func DesignsFor(k int) []Design {
	var designs []Design
	for m := 1; m <= k+1; m++ {
		designs = append(designs, Blocks(m))
	}
	for _, d := range []Design{Design10, Design16, Design20} {
		if k > 0 { // else one table, as in blocks-1
			designs = append(designs, d)
		}
	}
	return designs
}

// DesignNamed returns the design of that name.
func DesignNamed(name string) (Design, error) {
	for _, d := range Designs() {
		if d.Name == name {
			return d, nil
		}
	}
	for _, d := range DesignsFor(MaxDistanceLimit) {
		if d.Name == name {
			return d, nil
		}
	}
	return Design{}, fmt.Errorf("%w: no design %q; there are 2, 3, 4, 10, 16, 20, and blocks-1 to blocks-%d for k = %d",
		ErrPlan, name, MaxDistanceLimit+1, MaxDistanceLimit)
}

// Plan builds the design for a distance k.
func (d Design) Plan(k int) (*Plan, error) {
	if k < 0 || k > MaxDistanceLimit {
		return nil, fmt.Errorf("%w: k = %d is not in 0..%d", ErrPlan, k, MaxDistanceLimit)
	}
	if k < d.least {
		return nil, fmt.Errorf("%w: design %s is for k = %d or more, not %d", ErrPlan, d.Name, d.least, k)
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
