package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/join"
	"github.com/neardup/neardup/internal/selfjoin"
)

// source opens what the flags name.
func (f *joinFlags) source(ctx context.Context) (joinSource, error) {
	if f.indexes.dir != "" {
		x, err := f.indexes.openReadOnly()
		if err != nil {
			return nil, err
		}
		o := join.Options{MaxShingleDistance: f.match.shingle, MaxLengthRatio: f.match.ratio, Stars: f.star}
		if f.call.given("k") {
			o.MaxDistance = distanceOption(*f.k)
		}
		if *f.keep == "shortest-key" {
			o.Prefer = join.ShortestKey
		}
		return &indexSource{x, o}, nil
	}
	reader, err := f.inputs.listReader(f.lists)
	if err != nil {
		return nil, err
	}
	chunks := f.call.chunks(ctx, reader, f.inputs.format == corpus.Decimal) // numbers are known by their place: none may be missing
	if f.memoryGiven() {
		return openExternal(f, chunks), nil
	}
	return readLists(f, chunks)
}

// indexSource is all documents of an index.
type indexSource struct {
	index   *index.Index
	options join.Options
}

func (s *indexSource) close() error { return s.index.Close() }

func (s *indexSource) pairs(ctx context.Context, _ int, found func(worker int, a, b *member, distance int) error) error {
	for p, err := range s.index.Pairs(ctx, s.options) {
		if err == nil {
			a, b := memberOf(&p.First), memberOf(&p.Second)
			err = found(0, &a, &b, p.Distance)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *indexSource) clusters(ctx context.Context, found func(*cluster) error) error {
	for c, err := range s.index.Clusters(ctx, s.options) {
		if err == nil {
			members := make([]member, len(c.Members))
			for i := range members {
				members[i] = memberOf(&c.Members[i])
			}
			err = found(clusterOf(members))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func memberOf(g *join.Group) member { return member{g.Document, g.Documents, g.All()} }

// clusterOf is a cluster of members that are in memory.
func clusterOf(members []member) *cluster {
	c := &cluster{members: func(yield func(member, error) bool) {
		for _, m := range members {
			if !yield(m, nil) {
				return
			}
		}
	}}
	for i := range members {
		c.documents += members[i].Documents
	}
	return c
}

// listSource is fingerprints that were read from lists. A document's ID is the number
// of its record, all lists together, from 1.
type listSource struct {
	flags  *joinFlags
	keys   keyList
	scores []float64 // the document with the largest is kept; none: the first one is
	set    *selfjoin.Set
	places *selfjoin.Occurrences // nil where only numbers are printed
}

func readLists(f *joinFlags, chunks iter.Seq2[*corpus.Chunk, error]) (*listSource, error) {
	s := &listSource{flags: f}
	var parts [][]fingerprint.Fingerprint
	read := 0
	for chunk, err := range chunks {
		if err != nil {
			return nil, err
		}
		for i, fp := range chunk.Fingerprints {
			key, err := s.score(chunk.Key(i))
			if err != nil {
				return nil, fmt.Errorf("fingerprint %d (%v): %w", read+i+1, fp, err)
			}
			s.keys.add(read+i, key)
		}
		parts = append(parts, slices.Clone(chunk.Fingerprints))
		read += len(chunk.Fingerprints)
	}
	var err error
	if *f.form == simhashCPP {
		s.set, err = selfjoin.NewSet(slices.Concat(parts...))
	} else {
		s.set, s.places, err = selfjoin.NewSetWithPlaces(slices.Concat(parts...))
	}
	return s, err
}

// score gives a document its score, and returns its key without the number behind it.
func (s *listSource) score(key string) (string, error) {
	score := math.Inf(-1)
	switch *s.flags.keep {
	case "first":
		return key, nil
	case "shortest-key":
		if key != "" {
			score = -float64(len(key))
		}
	default:
		tab := strings.LastIndexByte(key, '\t')
		var err error
		if score, err = strconv.ParseFloat(key[tab+1:], 64); err != nil {
			return "", fmt.Errorf("-keep %s wants a number behind the key, after a tab: %w", *s.flags.keep, err)
		}
		key = key[:max(tab, 0)]
	}
	s.scores = append(s.scores, score)
	return key, nil
}

func (s *listSource) close() error { return nil }

// document is the one at a place.
func (s *listSource) document(place uint32, node selfjoin.Node) index.Document {
	return index.Document{ID: uint64(place) + 1, Key: s.keys.at(int(place)), Fingerprint: s.set.Fingerprint(node)}
}

// member is all documents of a node.
func (s *listSource) member(node selfjoin.Node) member {
	if s.places == nil {
		return member{Document: index.Document{Fingerprint: s.set.Fingerprint(node)}, Documents: s.set.Copies(node)}
	}
	places := s.places.Of(node)
	if len(places) == 1 {
		return member{Document: s.document(places[0], node), Documents: 1}
	}
	return member{s.document(s.best(node), node), len(places), func(yield func(index.Document, error) bool) {
		for _, place := range places {
			if !yield(s.document(place, node), nil) {
				return
			}
		}
	}}
}

// best is the place of the document of a node that is to be kept.
func (s *listSource) best(node selfjoin.Node) uint32 {
	return slices.MinFunc(s.places.Of(node), s.compare)
}

// compare orders places of documents, the one to be kept first.
func (s *listSource) compare(a, b uint32) int {
	if s.scores == nil {
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(s.scores[b], s.scores[a]), cmp.Compare(a, b))
}

func (s *listSource) pairs(ctx context.Context, workers int, found func(worker int, a, b *member, distance int) error) error {
	for node := range s.set.Repeated() {
		m := s.member(node)
		if err := found(0, &m, &m, 0); err != nil {
			return err
		}
	}
	return s.set.Each(ctx, selfjoin.Options{MaxDistance: *s.flags.k, Workers: workers}, func(worker int, pairs []selfjoin.Pair) error {
		var edges [][2]selfjoin.Node
		if s.places != nil {
			edges = s.set.Edges(pairs)
			s.places.Fetch(edges)
		}
		var a, b member
		for i := range pairs {
			if s.places != nil {
				a, b = s.member(edges[i][0]), s.member(edges[i][1])
			} else {
				a.Fingerprint, b.Fingerprint = pairs[i].First, pairs[i].Second
			}
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

func (s *listSource) clusters(ctx context.Context, found func(*cluster) error) error {
	clusters, err := s.grouped(ctx)
	if err != nil {
		return err
	}
	for nodes := range clusters.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		members := make([]member, len(nodes))
		for i, node := range nodes {
			members[i] = s.member(node)
		}
		if s.places != nil { // the kept one first, the others as they were listed
			slices.SortFunc(members, func(a, b member) int { return s.compare(uint32(a.ID-1), uint32(b.ID-1)) })
			slices.SortFunc(members[1:], func(a, b member) int { return cmp.Compare(a.ID, b.ID) })
		}
		if err := found(clusterOf(members)); err != nil {
			return err
		}
	}
	return nil
}

func (s *listSource) grouped(ctx context.Context) (*selfjoin.Clusters, error) {
	o := selfjoin.Options{MaxDistance: *s.flags.k}
	if !s.flags.star {
		return s.set.Components(ctx, o)
	}
	best := make([]uint32, s.set.Len()) // the place of the document of each node to be kept
	for node := range best {
		best[node] = s.best(selfjoin.Node(node))
	}
	if s.scores != nil {
		best = s.set.Ranks(func(a, b selfjoin.Node) bool { return s.compare(best[a], best[b]) < 0 })
	}
	return s.set.Stars(ctx, o, best)
}

// externalSource is lists that are sorted in files, within -memory. Fingerprints are all
// that is known of them, and their places in clusters.
type externalSource struct {
	flags        *joinFlags
	fingerprints iter.Seq2[[]fingerprint.Fingerprint, error]
	before       int64 // memory limit of the garbage collector
}

func openExternal(f *joinFlags, chunks iter.Seq2[*corpus.Chunk, error]) *externalSource {
	// The program itself takes some 20 MiB besides.
	s := &externalSource{flags: f, before: debug.SetMemoryLimit(f.memory.bytes() / 8 * 7)}
	s.fingerprints = func(yield func([]fingerprint.Fingerprint, error) bool) {
		for chunk, err := range chunks {
			if err == nil && len(chunk.Fingerprints) > 0 && chunk.Key(0) != "" {
				err = fmt.Errorf("%s: -memory reads u64le and decimal, which have no keys: give -format if it is one of these", chunk.Source)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(chunk.Fingerprints, nil) {
				return
			}
		}
	}
	return s
}

// close sets the memory limit back, which had garbage collected before it adds to -memory.
func (s *externalSource) close() error {
	debug.SetMemoryLimit(s.before)
	return nil
}

func (s *externalSource) options() selfjoin.Options {
	return selfjoin.Options{MaxDistance: *s.flags.k, MemoryBytes: s.flags.memory.bytes()}
}

func (s *externalSource) pairs(ctx context.Context, workers int, found func(worker int, a, b *member, distance int) error) error {
	o := s.options()
	o.Workers = workers
	return selfjoin.ExternalPairs(ctx, s.fingerprints, o, func(worker int, pairs []selfjoin.Pair) error {
		var a, b member
		for i := range pairs {
			a.Fingerprint, b.Fingerprint = pairs[i].First, pairs[i].Second
			if err := found(worker, &a, &b, pairs[i].Distance); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *externalSource) clusters(ctx context.Context, found func(*cluster) error) error {
	o := selfjoin.ExternalClusterOptions{Options: s.options(), Stars: s.flags.star, Copies: *s.flags.form != simhashCPP}
	return selfjoin.ExternalClusters(ctx, s.fingerprints, o, func(c *selfjoin.ExternalCluster) error {
		return found(&cluster{int(c.Copies), func(yield func(member, error) bool) {
			for m, err := range c.Members() {
				if !yield(member{Document: index.Document{ID: uint64(m.Place) + 1, Fingerprint: m.Fingerprint}, Documents: int(m.Copies)}, err) {
					return
				}
			}
		}})
	})
}
