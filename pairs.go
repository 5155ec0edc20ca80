package neardup

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/selfjoin"
)

// Pair is a pair of near fingerprints.
type Pair struct {
	First, Second fingerprint.Fingerprint // First < Second
	Distance      int
}

// Pairs yields every pair of different fingerprints of a list that are within k bits. k is 0 to 64.
// Each pair is yielded once, in no particular order. Pairs needs no index, and takes about 32 bytes
// of memory per fingerprint. It yields the first error and stops: index.ErrDistance, or the error
// of ctx. For the documents of an [Index], call its method Pairs.
func Pairs(
	ctx context.Context, fingerprints []fingerprint.Fingerprint, k int,
) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		set, err := selfjoin.NewSet(slices.Clone(fingerprints))
		if err := cmp.Or(checkDistance(k), err); err != nil {
			yield(Pair{}, err)
			return
		}
		for p, err := range set.Pairs(ctx, selfjoin.Options{MaxDistance: k}) {
			if !yield(Pair(p), err) {
				return
			}
		}
	}
}

// Clusters yields the groups of at least two fingerprints of a list that chains of near or equal
// fingerprints connect. A group has the positions of its fingerprints in ascending order. Groups
// are disjoint. The fingerprints at the ends of a chain may have little in common. Stars yields
// groups without such chains. The errors are the same as for Pairs.
func Clusters(
	ctx context.Context, fingerprints []fingerprint.Fingerprint, k int,
) iter.Seq2[[]int, error] {
	return clusters(ctx, fingerprints, k, false)
}

// Stars yields groups like Clusters, but all members of a group are within k bits of its first
// member. So a caller can remove all members except the first. Stars reads the list in order. A
// fingerprint that is in no group begins a group. All fingerprints within k bits that are in no
// group join it.
func Stars(
	ctx context.Context, fingerprints []fingerprint.Fingerprint, k int,
) iter.Seq2[[]int, error] {
	return clusters(ctx, fingerprints, k, true)
}

func clusters(
	ctx context.Context, fingerprints []fingerprint.Fingerprint, k int, stars bool,
) iter.Seq2[[]int, error] {
	return func(yield func([]int, error) bool) {
		found, places, err := findClusters(ctx, fingerprints, k, stars)
		if err != nil {
			yield(nil, err)
			return
		}
		for nodes := range found.All() {
			members := make([]int, 0, 2*len(nodes))
			for _, node := range nodes {
				for _, place := range places.Of(node) {
					members = append(members, int(place))
				}
			}
			slices.Sort(members)
			if !yield(members, nil) {
				return
			}
		}
	}
}

// findClusters returns the clusters of the different fingerprints, and the places of each of them.
func findClusters(
	ctx context.Context, fingerprints []fingerprint.Fingerprint, k int, stars bool,
) (found *selfjoin.Clusters, places *selfjoin.Occurrences, err error) {
	set, places, err := selfjoin.NewSetWithPlaces(slices.Clone(fingerprints))
	if err := cmp.Or(checkDistance(k), err); err != nil {
		return nil, nil, err
	}
	o := selfjoin.Options{MaxDistance: k}
	if !stars {
		found, err = set.Components(ctx, o)
		return found, places, err
	}
	first := make([]uint32, set.Len()) // the first position of each node
	for node := range first {
		first[node] = places.Of(selfjoin.Node(node))[0]
	}
	found, err = set.Stars(ctx, o, first)
	return found, places, err
}

func checkDistance(k int) error {
	if k < 0 || k > 64 {
		return fmt.Errorf("%w: k = %d is not in 0..64", index.ErrDistance, k)
	}
	return nil
}
