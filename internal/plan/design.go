package plan

import (
	"fmt"
	"slices"
	"strconv"
)

// Designs returns the names of the designs for a distance, blocks-1 to blocks-(k+1) first. Each
// design has a different plan.
func Designs(k int) []string {
	var names []string
	for m := 1; m <= k+1; m++ {
		names = append(names, blocksName(m))
	}
	if k > 0 { // for k = 0, their plan is the one of blocks-1
		names = append(names, "10", "16", "20")
	}
	return names
}

func blocksName(m int) string { return "blocks-" + strconv.Itoa(m) }

// Named returns the plan of a design for a distance. index.ParsePlan lists the designs. In the
// design 20, the prefix of a table is three of k+3 blocks. In the design 10, it is two of k+2
// blocks. In the design 16, it is one of k+1 blocks, and one of k+1 blocks of the other bits.
//
// Error: ErrUnusable if the design does not exist.
func Named(name string, k int) (*Plan, error) {
	if err := checkDistance(k); err != nil {
		return nil, err
	}
	tables, err := tablesOf(name, k)
	if err != nil {
		return nil, err
	}
	return New(k, tables...)
}

func tablesOf(design string, k int) ([]Table, error) {
	switch design {
	case "20":
		return chooseBlocks(k+3, 3), nil
	case "16":
		return twoLevels(k), nil
	case "10":
		return chooseBlocks(k+2, 2), nil
	case "4":
		return blockTables(k, k+1), nil
	case "3":
		return blockTables(k, max(k, 1)), nil
	case "2":
		return blockTables(k, (k+2)/2), nil
	}
	for m := 1; m <= k+1; m++ {
		if design == blocksName(m) {
			return blockTables(k, m), nil
		}
	}
	return nil, fmt.Errorf(
		"%w: no design %q for k = %d: want 2, 3, 4, 10, 16, 20, or blocks-1 to %s",
		ErrUnusable, design, k, blocksName(k+1))
}

// chooseBlocks divides the bits into m blocks, and returns a table for every choice of c blocks.
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
			choose(i+1, slices.Concat(front, blocks[i]), left-1)
		}
	}
	choose(0, nil, c)
	return tables
}

// twoLevels divides the bits into k+1 blocks. For each block, it divides the other bits into k+1
// blocks again.
func twoLevels(k int) []Table {
	var tables []Table
	for _, first := range split([]Bits{{0, 63}}, k+1) {
		_, rest := cut(bringForward(first...), size(first))
		for _, second := range split(rest, k+1) {
			tables = append(tables, leading(slices.Concat(first, second)))
		}
	}
	return tables
}

// leading returns the table whose prefix is these bits.
func leading(front []Bits) Table {
	return Table{Permutation: bringForward(front...), Prefix: size(front)}
}

// split cuts bits into m blocks, whose sizes differ by at most 1, the larger ones first. A block
// may consist of several ranges.
func split(rest []Bits, m int) [][]Bits {
	total := size(rest)
	blocks := make([][]Bits, m)
	for i := range blocks {
		blocks[i], rest = cut(rest, (total+m-1-i)/m)
	}
	return blocks
}
