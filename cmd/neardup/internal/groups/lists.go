package groups

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/selfjoin"
)

// ListOptions of OfLists.
type ListOptions struct {
	MaxDistance int
	Stars       bool // every member of a cluster is near to the one that is kept
	Numbers     bool // fingerprints are all that is wanted: no IDs, no keys, each once
}

// listSource is lists of fingerprints in memory.
type listSource struct {
	ListOptions
	keys   Keys
	set    *selfjoin.Set
	places *selfjoin.Occurrences // nil where only numbers are wanted
}

// OfLists reads lists of fingerprints into memory. The ID of a document is the number of its record,
// counted from 1 through all lists.
func OfLists(chunks iter.Seq2[*corpus.Chunk, error], o ListOptions) (_ Source, err error) {
	s := &listSource{ListOptions: o}
	var parts [][]fingerprint.Fingerprint
	read := 0
	for chunk, err := range chunks {
		if err != nil {
			return nil, err
		}
		for i := range chunk.Fingerprints {
			s.keys.Add(read+i, chunk.Key(i))
		}
		parts = append(parts, slices.Clone(chunk.Fingerprints))
		read += len(chunk.Fingerprints)
	}
	if o.Numbers {
		s.set, err = selfjoin.NewSet(slices.Concat(parts...))
	} else {
		s.set, s.places, err = selfjoin.NewSetWithPlaces(slices.Concat(parts...))
	}
	return s, err
}

// document is the one at a place.
func (s *listSource) document(place uint32, node selfjoin.Node) index.Document {
	return index.Document{ID: uint64(place) + 1, Key: s.keys.At(int(place)), Fingerprint: s.set.Fingerprint(node)}
}

// member is all documents of a node.
func (s *listSource) member(node selfjoin.Node) Member {
	if s.places == nil {
		return Member{Document: index.Document{Fingerprint: s.set.Fingerprint(node)}, Documents: s.set.Copies(node)}
	}
	places := s.places.Of(node)
	if len(places) == 1 {
		return Member{Document: s.document(places[0], node), Documents: 1}
	}
	return Member{Document: s.document(s.first(node), node), Documents: len(places), list: func(yield func(index.Document, error) bool) {
		for _, place := range places {
			if !yield(s.document(place, node), nil) {
				return
			}
		}
	}}
}

// first returns the place of the document of a node that is kept: the first one that is listed.
func (s *listSource) first(node selfjoin.Node) uint32 { return slices.Min(s.places.Of(node)) }

func (s *listSource) Pairs(ctx context.Context, workers int, found func(worker int, a, b *Member, distance int) error) error {
	for node := range s.set.Repeated() {
		m := s.member(node)
		if err := found(0, &m, &m, 0); err != nil {
			return err
		}
	}
	return s.set.Each(ctx, selfjoin.Options{MaxDistance: s.MaxDistance, Workers: workers}, func(worker int, pairs []selfjoin.Pair) error {
		if s.places == nil {
			return eachNumbers(worker, pairs, found)
		}
		edges := s.set.Edges(pairs)
		s.places.Fetch(edges)
		for i, e := range edges {
			a, b := s.member(e[0]), s.member(e[1])
			if a.ID > b.ID {
				a, b = b, a
			}
			if err := found(worker, &a, &b, pairs[i].Distance); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachNumbers calls found with pairs of which nothing but the fingerprints is known.
func eachNumbers(worker int, pairs []selfjoin.Pair, found func(worker int, a, b *Member, distance int) error) error {
	var a, b Member
	for _, p := range pairs {
		a.Fingerprint, b.Fingerprint = p.First, p.Second
		if err := found(worker, &a, &b, p.Distance); err != nil {
			return err
		}
	}
	return nil
}

func (s *listSource) Clusters(ctx context.Context, found func(*Cluster) error) error {
	clusters, err := s.clusters(ctx)
	if err != nil {
		return err
	}
	for nodes := range clusters.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		members := make([]Member, len(nodes))
		for i, node := range nodes {
			members[i] = s.member(node)
		}
		if s.places != nil { // as they were listed: the first one is kept
			slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
		}
		if err := found(clusterOf(members)); err != nil {
			return err
		}
	}
	return nil
}

func (s *listSource) clusters(ctx context.Context) (*selfjoin.Clusters, error) {
	o := selfjoin.Options{MaxDistance: s.MaxDistance}
	if !s.Stars {
		return s.set.Components(ctx, o)
	}
	first := make([]uint32, s.set.Len()) // the place of the first document of each node
	for node := range first {
		first[node] = s.first(selfjoin.Node(node))
	}
	return s.set.Stars(ctx, o, first)
}
