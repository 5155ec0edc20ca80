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
	"sync"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/join"
	"github.com/neardup/neardup/internal/selfjoin"
)

// source opens what the flags name.
func (f *joinFlags) source(ctx context.Context) (joinSource, error) {
	switch {
	case f.memoryGiven():
		return f.openExternal(), nil
	case f.indexes.dir == "":
		return f.readLists(ctx)
	}
	x, err := f.indexes.openReadOnly("")
	if err != nil {
		return nil, err
	}
	o := join.Options{MaxShingleDistance: f.shingle, MaxLengthRatio: f.ratio, Stars: f.star}
	if f.call.given("k") {
		o.MaxDistance = distanceOption(*f.k)
	}
	if *f.keep == "shortest-key" {
		o.Prefer = join.ShortestKey
	}
	return &indexSource{x, o}, nil
}

// indexSource is all documents of an index.
type indexSource struct {
	index   *index.Index
	options join.Options
}

func (s *indexSource) close() error { return s.index.Close() }

func (s *indexSource) pairs(ctx context.Context, found func(a, b *member, distance int) error) error {
	for p, err := range s.index.Pairs(ctx, s.options) {
		if err == nil {
			a, b := memberOf(&p.First), memberOf(&p.Second)
			err = found(&a, &b, p.Distance)
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

func memberOf(g *join.Group) member {
	m := documentMember(&g.Document)
	m.Documents = g.Documents
	if g.Documents > 1 {
		m.list = func(yield func(member, error) bool) {
			for d, err := range g.All() {
				if !yield(documentMember(&d), err) {
					return
				}
			}
		}
	}
	return m
}

func documentMember(d *index.Document) member {
	return member{ID: d.ID, Key: d.Key, Fingerprint: d.Fingerprint, Documents: 1}
}

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
	fps    []fingerprint.Fingerprint
	keys   keyList
	scores []float64 // the document with the largest is kept; none: the first one is

	set    *selfjoin.Set
	places *selfjoin.Places // nil where only numbers are printed
}

// keyList is the keys of all documents, or none.
type keyList struct {
	text []byte
	ends []uint64
}

func (l *keyList) add(at int, key string) {
	if l.ends == nil && key == "" {
		return
	}
	for len(l.ends) < at {
		l.ends = append(l.ends, 0)
	}
	l.text = append(l.text, key...)
	l.ends = append(l.ends, uint64(len(l.text)))
}

func (l *keyList) at(i int) string {
	if l.ends == nil {
		return ""
	}
	begin := uint64(0)
	if i > 0 {
		begin = l.ends[i-1]
	}
	return string(l.text[begin:l.ends[i]])
}

func (f *joinFlags) readLists(ctx context.Context) (*listSource, error) {
	s := &listSource{flags: f}
	for chunk, err := range f.chunks(ctx) {
		if err == nil {
			err = s.add(chunk)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, s.sort()
}

// sort makes the set, and finds the places of its nodes unless only numbers are printed.
func (s *listSource) sort() (err error) {
	fps := s.fps
	s.fps = nil
	if *s.flags.form == simhashCPP {
		s.set, err = selfjoin.NewSet(fps)
		return err
	}
	if s.set, err = selfjoin.NewSet(slices.Clone(fps)); err == nil {
		s.places = s.set.Places(fps)
	}
	return err
}

// chunks yields the lists. What is no decimal number ends a list of them: they are known by
// their place.
func (f *joinFlags) chunks(ctx context.Context) iter.Seq2[*corpus.Chunk, error] {
	return func(yield func(*corpus.Chunk, error) bool) {
		reader, err := f.inputs.listReader(f.lists)
		if err != nil {
			yield(nil, err)
			return
		}
		for chunk, err := range f.call.chunks(ctx, reader) {
			if err == nil && f.inputs.format == corpus.Decimal {
				err = firstSkip(chunk)
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}

// firstSkip is an error if a line of a chunk was skipped.
func firstSkip(chunk *corpus.Chunk) error {
	for rec := range chunk.Skips() {
		if !rec.Skip.Broken {
			return fmt.Errorf("%s line %d: %s", rec.Source, rec.Number, rec.Skip.Detail)
		}
	}
	return nil
}

func (s *listSource) add(chunk *corpus.Chunk) error {
	for i, fp := range chunk.Fingerprints {
		key := chunk.Key(i)
		switch *s.flags.keep {
		case "first":
		case "shortest-key":
			score := math.Inf(-1) // of a document without a key
			if key != "" {
				score = -float64(len(key))
			}
			s.scores = append(s.scores, score)
		default:
			tab := strings.LastIndexByte(key, '\t')
			score, err := strconv.ParseFloat(key[tab+1:], 64)
			if err != nil {
				return fmt.Errorf("fingerprint %d (%v): -keep %s wants a number behind the key, after a tab: %w", len(s.fps)+i+1, fp, *s.flags.keep, err)
			}
			s.scores, key = append(s.scores, score), key[:max(tab, 0)]
		}
		s.keys.add(len(s.fps)+i, key)
	}
	s.fps = append(s.fps, chunk.Fingerprints...)
	return nil
}

func (s *listSource) close() error { return nil }

func (s *listSource) options() selfjoin.Options { return selfjoin.Options{MaxDistance: *s.flags.k} }

// document is the one at a place.
func (s *listSource) document(place uint32, f fingerprint.Fingerprint) member {
	return member{ID: uint64(place) + 1, Key: s.keys.at(int(place)), Fingerprint: f, Documents: 1}
}

// member is all documents of a node, named by the one to be kept.
func (s *listSource) member(node selfjoin.Node) member {
	f := s.set.Fingerprint(node)
	if s.places == nil {
		return member{Fingerprint: f, Documents: s.set.Copies(node)}
	}
	m := s.document(s.best(node), f)
	if places := s.places.Of(node); len(places) > 1 {
		m.Documents = len(places)
		m.list = func(yield func(member, error) bool) {
			for _, place := range places {
				if !yield(s.document(place, f), nil) {
					return
				}
			}
		}
	}
	return m
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

func (s *listSource) pairs(ctx context.Context, found func(a, b *member, distance int) error) error {
	for node := range s.set.Repeated() {
		m := s.member(node)
		if err := found(&m, &m, 0); err != nil {
			return err
		}
	}
	for p, err := range s.set.Pairs(ctx, s.options()) {
		if err != nil {
			return err
		}
		first, _ := s.set.Node(p.First)
		second, _ := s.set.Node(p.Second)
		a, b := s.member(first), s.member(second)
		if a.ID > b.ID {
			a, b = b, a
		}
		if err := found(&a, &b, p.Distance); err != nil {
			return err
		}
	}
	return nil
}

func (s *listSource) clusters(ctx context.Context, found func(*cluster) error) error {
	var clusters *selfjoin.Clusters
	var err error
	if s.flags.star {
		clusters, err = s.set.Stars(ctx, s.options(), s.ranks())
	} else {
		clusters, err = s.set.Components(ctx, s.options())
	}
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

// ranks puts the nodes in the order of the documents to be kept.
func (s *listSource) ranks() []uint32 {
	best := make([]uint32, s.set.Len())
	for node := range best {
		best[node] = s.best(selfjoin.Node(node))
	}
	if s.scores == nil {
		return best
	}
	return s.set.Ranks(func(a, b selfjoin.Node) bool { return s.compare(best[a], best[b]) < 0 })
}

// externalSource is lists that are sorted in files, within -memory. Fingerprints are all
// that is known of them, and their places in clusters.
type externalSource struct {
	flags  *joinFlags
	before int64 // memory limit of the garbage collector
}

func (f *joinFlags) openExternal() joinSource {
	const others = 32 << 20 // buffers and the like
	return &externalSource{flags: f, before: debug.SetMemoryLimit(f.memory.bytes() + others)}
}

// close sets the memory limit back, which had garbage collected before it adds to -memory.
func (s *externalSource) close() error {
	debug.SetMemoryLimit(s.before)
	return nil
}

// fingerprints yields those of the lists.
func (s *externalSource) fingerprints(ctx context.Context) iter.Seq2[[]fingerprint.Fingerprint, error] {
	return func(yield func([]fingerprint.Fingerprint, error) bool) {
		for chunk, err := range s.flags.chunks(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(chunk.Fingerprints, nil) {
				return
			}
		}
	}
}

func (s *externalSource) pairs(ctx context.Context, found func(a, b *member, distance int) error) error {
	var mu sync.Mutex
	o := selfjoin.Options{MaxDistance: *s.flags.k, MemoryBytes: s.flags.memory.bytes()}
	return selfjoin.External(ctx, s.fingerprints(ctx), o, func(_ int, pairs []selfjoin.Pair) error {
		mu.Lock()
		defer mu.Unlock()
		var a, b member
		for i := range pairs {
			a.Fingerprint, b.Fingerprint = pairs[i].First, pairs[i].Second
			if err := found(&a, &b, pairs[i].Distance); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *externalSource) clusters(ctx context.Context, found func(*cluster) error) error {
	o := selfjoin.ExternalClusterOptions{Stars: s.flags.star, Copies: s.flags.equal || s.flags.removals()}
	o.MaxDistance, o.MemoryBytes = *s.flags.k, s.flags.memory.bytes()
	return selfjoin.ExternalClusters(ctx, s.fingerprints(ctx), o, func(c *selfjoin.ExternalCluster) error {
		return found(&cluster{documents: int(c.Copies), members: func(yield func(member, error) bool) {
			for m, err := range c.Members() {
				if !yield(member{ID: uint64(m.Place) + 1, Fingerprint: m.Fingerprint, Documents: int(m.Copies)}, err) {
					return
				}
			}
		}})
	})
}
