package index

import (
	"context"
	"errors"

	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/selfjoin"
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
	stars := selfjoin.NewStarBuilder(extsort.Options{MemoryBytes: 64 << 20})
	defer func() { err = errors.Join(err, stars.Close()) }()
	err = j.eachNear(ctx, members, func(a, b int) error {
		if !j.matches(&members[a], &members[b]) {
			return nil
		}
		return stars.Add(ctx, [][2]uint32{{uint32(a), uint32(b)}})
	})
	if err != nil {
		return nil, err
	}
	owners := selfjoin.NewForest(len(members))
	if err := stars.Owners(ctx, owners); err != nil {
		return nil, err
	}
	return partsOf(members, owners), nil
}
