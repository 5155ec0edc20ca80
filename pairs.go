package neardup

import (
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
		if err := checkDistance(k); err != nil {
			yield(Pair{}, err)
			return
		}
		set, err := selfjoin.NewSet(slices.Clone(fingerprints))
		if err != nil {
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
// are disjoint. The fingerprints at the ends of a chain may have little in common. Stars makes
// groups without such chains. The errors are the same as for Pairs.
func Clusters(
	ctx context.Context, fingerprints []fingerprint.Fingerprint, k int,
) iter.Seq2[[]int, error] {
	return clusters(fingerprints, k, func(set *selfjoin.Set,
		_ *selfjoin.Occurrences) (*selfjoin.Clusters, error) {
		return set.Components(ctx, selfjoin.Options{MaxDistance: k})
	})
}

// Stars yields groups like Clusters, but all members of a group are within k bits of its first
// member. So a caller can remove all members except the first. Stars reads the list in order. A
// fingerprint that is in no group begins a group. All fingerprints within k bits that are in no
// group join it.
func Stars(
	ctx context.Context, fingerprints []fingerprint.Fingerprint, k int,
) iter.Seq2[[]int, error] {
	return clusters(fingerprints, k, func(set *selfjoin.Set,
		places *selfjoin.Occurrences) (*selfjoin.Clusters, error) {
		first := make([]uint32, set.Len()) // the first position of each node
		for node := range first {
			first[node] = places.Of(selfjoin.Node(node))[0]
		}
		return set.Stars(ctx, selfjoin.Options{MaxDistance: k}, first)
	})
}

func clusters(
	fingerprints []fingerprint.Fingerprint, k int, join func(*selfjoin.Set,
		*selfjoin.Occurrences) (*selfjoin.Clusters, error),
) iter.Seq2[[]int, error] {
	return func(yield func([]int, error) bool) {
		if err := checkDistance(k); err != nil {
			yield(nil, err)
			return
		}
		set, places, err := selfjoin.NewSetWithPlaces(slices.Clone(fingerprints))
		if err != nil {
			yield(nil, err)
			return
		}
		found, err := join(set, places)
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

func checkDistance(k int) error {
	if k < 0 || k > 64 {
		return fmt.Errorf("%w: k = %d is not in 0..64", index.ErrDistance, k)
	}
	return nil
}
