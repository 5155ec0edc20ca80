package groups

import (
	"context"
	"iter"
	"slices"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/selfjoin"
)

// Lists has the fingerprints of lists in memory. It is a Source.
type Lists struct {
	Fingerprints []fingerprint.Fingerprint
	MaxDistance  int
	Stars        bool // each member of a cluster is within MaxDistance of the kept one

	keys Keys
}

// Read reads lists of fingerprints. The ID of a document is the number of its fingerprint, counted
// from 1 over all lists.
func Read(chunks iter.Seq2[*corpus.Chunk, error], maxDistance int, stars bool) (*Lists, error) {
	l := &Lists{MaxDistance: maxDistance, Stars: stars}
	var parts [][]fingerprint.Fingerprint
	read := 0
	for chunk, err := range chunks {
		if err != nil {
			return nil, err
		}
		for i := range chunk.Fingerprints {
			l.keys.Add(read+i, chunk.Key(i))
		}
		parts = append(parts, slices.Clone(chunk.Fingerprints))
		read += len(chunk.Fingerprints)
	}
	l.Fingerprints = slices.Concat(parts...)
	return l, nil
}

// member returns a member whose first document is at the index place.
func (l *Lists) member(place uint32, fp fingerprint.Fingerprint, documents int) Member {
	return memberOf(&index.Document{ID: uint64(place) + 1, Key: l.keys.At(int(place)),
		Fingerprint: fp}, documents)
}

// Pairs is Source.Pairs. It sorts Fingerprints.
func (l *Lists) Pairs(ctx context.Context) iter.Seq2[*Pair, error] {
	return func(yield func(*Pair, error) bool) {
		set, places, err := selfjoin.NewSetWithPlaces(l.Fingerprints)
		if err != nil {
			yield(nil, err)
			return
		}
		member := func(node selfjoin.Node) Member {
			of := places.Of(node)
			return l.member(of[0], set.Fingerprint(node), len(of))
		}
		for node := range set.Repeated() {
			if m := member(node); !yield(&Pair{m, m, 0}, nil) {
				return
			}
		}
		var pair Pair
		for p, err := range set.Pairs(ctx, selfjoin.Options{MaxDistance: l.MaxDistance}) {
			if err != nil {
				yield(nil, err)
				return
			}
			a, _ := set.Node(p.First)
			b, _ := set.Node(p.Second)
			pair = Pair{member(a), member(b), p.Distance}
			if pair.First.ID > pair.Second.ID {
				pair.First, pair.Second = pair.Second, pair.First
			}
			if !yield(&pair, nil) {
				return
			}
		}
	}
}

// Clusters is Source.Clusters.
func (l *Lists) Clusters(ctx context.Context) iter.Seq2[*Cluster, error] {
	find := neardup.Clusters
	if l.Stars {
		find = neardup.Stars
	}
	return func(yield func(*Cluster, error) bool) {
		for places, err := range find(ctx, l.Fingerprints, l.MaxDistance) {
			members := func(yield func(ClusterMember, error) bool) {
				for _, place := range places {
					if !yield(
						ClusterMember{Member: l.member(uint32(place), l.Fingerprints[place], 1)},
						nil) {
						return
					}
				}
			}
			if !yield(&Cluster{len(places), members}, err) || err != nil {
				return
			}
		}
	}
}
