package index

import (
	"context"
	"errors"

	"github.com/neardup/neardup/internal/extsort"
)

// compareStars is the number of comparisons for each member after which the pairs of a
// component are sorted instead: there are many stars then, and so few pairs.
const compareStars = 256

// stars gives each member, in their order, to the first one kept that it matches, or
// keeps it.
func (j *join) stars(ctx context.Context, members []Group) ([][]Group, error) {
	var parts [][]Group
	left := compareStars * len(members)
next:
	for i := range members {
		g := &members[i]
		if left < 0 {
			return j.starsOfPairs(ctx, members)
		}
		for p := range parts {
			if j.matches(&parts[p][0], g) {
				parts[p] = append(parts[p], *g)
				left -= p + 1
				continue next
			}
		}
		left -= len(parts)
		parts = append(parts, []Group{*g})
	}
	return parts, ctx.Err()
}

// starsOfPairs is stars, by way of all pairs.
func (j *join) starsOfPairs(ctx context.Context, members []Group) (parts [][]Group, err error) {
	sorter := extsort.New[[1]uint64](extsort.Options{MemoryBytes: 64 << 20})
	defer func() { err = errors.Join(err, sorter.Close()) }()
	err = j.eachNear(ctx, members, func(a, b int) error {
		if !j.matches(&members[a], &members[b]) {
			return nil
		}
		return sorter.Add(ctx, [][1]uint64{{uint64(min(a, b))<<32 | uint64(max(a, b))}})
	})
	if err != nil {
		return nil, err
	}
	owner := make([]int, len(members))
	for i := range owner {
		owner[i] = i
	}
	for run, err := range sorter.Sorted(ctx) {
		if err != nil {
			return nil, err
		}
		for _, r := range run {
			center, member := int(r[0]>>32), int(uint32(r[0]))
			if owner[center] == center && owner[member] == member {
				owner[member] = center
			}
		}
	}
	return partsOf(members, func(i int) int { return owner[i] }), nil
}
