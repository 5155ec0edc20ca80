package index

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/selfjoin"
	"github.com/neardup/neardup/store"
)

// JoinOptions configures Pairs and Clusters. The zero value selects the rule of CheckAndAdd.
type JoinOptions struct {
	// MaxDistance is k in bits, 0 to 64. It may be larger than the k of the index. 0: the k of the
	// index. Exact: 0 bits.
	MaxDistance int

	// MaxShingleDistance, ShortAllowance and MaxLengthRatio are as in Options. 0: the value of the
	// index.
	MaxShingleDistance int
	ShortAllowance     int
	MaxLengthRatio     float64

	// Stars selects clusters whose members all match the first member. Clusters then visits the
	// documents in the order of their IDs. Default: connected components.
	Stars bool
}

// Group is all documents of one scope that have the same fingerprint. If the rule compares Shingles
// and lengths, these are also the same.
type Group struct {
	Document      // the document with the smallest ID
	Documents int // the number of documents

	ids    []uint64
	reader *reader
}

// All yields all documents of the group, ordered by ID. It reads the record of each document. It
// may be called only within the loop that yielded the group.
func (g *Group) All() iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		for _, id := range g.ids {
			d, err := g.reader.member(id, storedOf(&g.Document))
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// Pair is a pair of matching groups. If First and Second are the same group of several documents,
// the Pair represents all pairs of these documents.
type Pair struct {
	First, Second Group // First.ID <= Second.ID
	Distance      int   // of the fingerprints, in bits
}

// Cluster is a group of documents that are near-duplicates.
type Cluster struct {
	Members []Group // in the order of their smallest IDs
}

// Documents returns the number of documents of all members.
func (c *Cluster) Documents() int {
	n := 0
	for i := range c.Members {
		n += c.Members[i].Documents
	}
	return n
}

// Pairs yields every pair of matching groups of documents once, in no particular order. All pairs
// describe one moment. Documents with the same fingerprint are one group, so a page with a million
// copies adds one pair, not a million pairs, for each near page. A group of several documents is
// also a pair with itself, at distance 0.
//
// Pairs reads all fingerprints and IDs into memory, which takes about 32 bytes per document. It
// compares them, and reads one record for each document of a pair that may have one. Pairs yields
// the first error and stops: ErrDistance, ErrClosed, ErrCorrupt, or the error of ctx. The index
// must not be closed within the loop.
func (x *Index) Pairs(ctx context.Context, o JoinOptions) iter.Seq2[Pair, error] {
	return joined(ctx, x, o, (*joiner).sendPairs)
}

// Clusters yields the clusters of at least two documents. The clusters are disjoint and describe
// one moment.
//
// By default, clusters are the connected components of Pairs: two documents are in one cluster if a
// chain of pairs connects them. The documents at the ends of a chain may have little in common, and
// one page that resembles two groups joins them. With Stars, every member matches the first
// document of the cluster, so the others can be deleted. A chain may then be split into several
// clusters.
//
// Cost and errors are as for Pairs, with 8 additional bytes of memory per fingerprint. Stars sorts
// the pairs of a large component, 16 bytes each, with 64 MiB of memory and a file in the directory
// for temporary files. The index must not be closed from within the loop.
func (x *Index) Clusters(ctx context.Context, o JoinOptions) iter.Seq2[Cluster, error] {
	return joined(ctx, x, o, (*joiner).sendClusters)
}

// joined yields the results of run for a snapshot of the index.
func joined[T any](
	ctx context.Context, x *Index, o JoinOptions, run func(*joiner,
		context.Context) iter.Seq2[[]T, error],
) iter.Seq2[T, error] {
	return loop(ctx, x, func(yield func(T) bool) (err error) {
		rule, err := joinRule(x.rule, o)
		if err != nil {
			return err
		}
		readers, err := x.sameReaders(runtime.GOMAXPROCS(0) + 1)
		if err != nil {
			return err
		}
		defer closeAll(readers, &err)
		j, err := newJoiner(ctx, readers, rule, o.Stars)
		if err != nil {
			return err
		}
		for many, err := range run(j, ctx) {
			if err != nil {
				return err
			}
			for _, one := range many {
				if !yield(one) {
					return nil
				}
			}
		}
		return nil
	})
}

// joinRule returns the rule of an index with the options of a join.
func joinRule(r match.Rule, o JoinOptions) (match.Rule, error) {
	r = r.With(o.MaxShingleDistance, o.ShortAllowance, o.MaxLengthRatio)
	switch {
	case o.MaxDistance == Exact:
		r.MaxDistance = 0
	case o.MaxDistance < 0 || o.MaxDistance > 64:
		return r, fmt.Errorf("%w: k = %d is not in 0..64", ErrDistance, o.MaxDistance)
	case o.MaxDistance > 0:
		r.MaxDistance = o.MaxDistance
	}
	return r, r.Check()
}

// member returns the document of an ID and its stored fingerprint.
func (r *reader) member(id, stored uint64) (Document, error) {
	d, found, err := r.document(id, stored)
	if err == nil && !found {
		err = fmt.Errorf("%w: an entry of table 0 has the removed document %d", ErrCorrupt, id)
	}
	return d, err
}

const (
	// pairsAtOnce is the number of pairs that a worker sends at a time.
	pairsAtOnce = 256
	// pairsAhead is the number of these batches that may wait for the caller.
	pairsAhead = 32
)

// sendPairs yields every pair of matching groups, and every group of several documents with itself,
// once, in no particular order.
func (j *joiner) sendPairs(ctx context.Context) iter.Seq2[[]Pair, error] {
	return ordered.All(ctx, 0, pairsAhead, func(p *ordered.Pipe[[]Pair]) error {
		return j.pairs(p.Context(), p.Send)
	})
}

// pairs calls send with all pairs, in several goroutines.
func (j *joiner) pairs(ctx context.Context, send func([]Pair) error) error {
	copies := pairSender{joiner: j, ctx: ctx, r: j.readers[0], send: send}
	for node := range selfjoin.Node(j.set.Len()) {
		if j.copies(node) > 1 {
			if err := copies.add(node, node); err != nil {
				return err
			}
		}
	}
	if err := copies.flush(); err != nil {
		return err
	}
	return j.set.Each(ctx, j.options(), func(worker int, found []selfjoin.Pair) error {
		near := pairSender{joiner: j, ctx: ctx, r: j.readers[worker], send: send}
		for _, nodes := range j.set.Edges(found) {
			if err := near.add(nodes[0], nodes[1]); err != nil {
				return err
			}
		}
		return near.flush()
	})
}

// pairSender sends the pairs of the groups of nodes, many at a time.
type pairSender struct {
	*joiner
	ctx  context.Context
	r    *reader
	send func([]Pair) error

	pairs []Pair
	a, b  []Group // of the two nodes, reused
}

// add adds the matching pairs of the groups of two nodes, which may be the same node.
func (s *pairSender) add(a, b selfjoin.Node) (err error) {
	if s.a, err = s.appendGroups(s.a[:0], s.r, a); err != nil {
		return err
	}
	others := s.a
	if a != b {
		if s.b, err = s.appendGroups(s.b[:0], s.r, b); err != nil {
			return err
		}
		others = s.b
	}
	for i := range s.a {
		for k := range others {
			first, second := &s.a[i], &others[k]
			if a == b && (k > i || k == i && first.Documents == 1) ||
				!s.rule.Matches(&first.Document, &second.Document) {
				continue
			}
			if first.ID > second.ID {
				first, second = second, first
			}
			s.pairs = append(s.pairs, Pair{*first, *second,
				first.Fingerprint.Distance(second.Fingerprint)})
		}
		if len(s.pairs) >= pairsAtOnce {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.ctx.Err()
}

func (s *pairSender) flush() error {
	if len(s.pairs) == 0 {
		return nil
	}
	pairs := s.pairs
	s.pairs = nil
	return s.send(pairs)
}

// joiner compares all documents of a snapshot with each other. The result is complete and has no
// repetitions, for any plan of the index. A joiner does not probe the tables. It reads the
// fingerprints and IDs into memory and compares them there (internal/selfjoin). It then reads the
// documents of near fingerprints, and the rule decides. Documents with the same fingerprint are one
// Group, so that a page with a million copies is one member for each page near it, not a million.
type joiner struct {
	readers  []*reader // of the snapshot: one per worker, and the last one for Group.All
	rule     match.Rule
	centered bool // clusters are stars
	bare     bool // no document has a record

	set    *selfjoin.Set
	ids    []uint64 // of all documents, by fingerprint
	starts []uint64 // the start of each node in ids, and the end of the last one
}

// newJoiner reads a snapshot.
func newJoiner(
	ctx context.Context, readers []*reader, rule match.Rule, stars bool,
) (*joiner, error) {
	x := readers[0].x
	j := &joiner{readers: readers, rule: rule, centered: stars,
		bare: x.firstRecord.Load() == noRecord}
	about := int(x.store.Now().PackedEntries()) / rangeCount
	var parts [rangeCount]joinPart
	err := eachRange(readers[:j.workers()], func(r *reader, n int, first, last uint64) error {
		return parts[n].read(ctx, r.v, first, last, about)
	})
	if err != nil {
		return nil, err
	}
	nodes, documents := 0, 0
	for _, s := range parts {
		nodes, documents = nodes+len(s.fps), documents+len(s.ids)
	}
	fps := make([]fingerprint.Fingerprint, 0, nodes)
	j.ids, j.starts = make([]uint64, 0, documents), append(make([]uint64, 0, nodes+1), 0)
	for i := range parts {
		s := &parts[i]
		fps = append(fps, s.fps...)
		for _, end := range s.ends {
			j.starts = append(j.starts, uint64(len(j.ids))+end)
		}
		j.ids = append(j.ids, s.ids...)
		*s = joinPart{}
	}
	j.set, err = selfjoin.SortedSet(fps, j.copies)
	return j, err
}

// joinPart has the fingerprints and IDs of a range.
type joinPart struct {
	fps  []fingerprint.Fingerprint
	ids  []uint64
	ends []uint64 // the end of each fingerprint's IDs
}

// read reads the entries of table 0 from first to last, without removed IDs. about is the
// approximate number of fingerprints.
func (s *joinPart) read(ctx context.Context, v *store.View, first, last uint64, about int) error {
	s.fps = make([]fingerprint.Fingerprint, 0, about+about/64)
	s.ids, s.ends = make([]uint64, 0, cap(s.fps)), make([]uint64, 0, cap(s.fps))
	for p, err := range v.Postings(first) {
		if err == nil && len(s.fps)%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if p.Stored > last {
			break
		}
		if p.IDs.Empty() {
			continue
		}
		s.fps = append(s.fps, fingerprint.Fingerprint(p.Stored))
		s.ids = p.IDs.AppendTo(s.ids)
		s.ends = append(s.ends, uint64(len(s.ids)))
	}
	return nil
}

func (j *joiner) workers() int { return len(j.readers) - 1 }

func (j *joiner) options() selfjoin.Options {
	return selfjoin.Options{MaxDistance: j.rule.MaxDistance, Workers: j.workers()}
}

// copies returns the number of documents of a node.
func (j *joiner) copies(node selfjoin.Node) int { return int(j.starts[node+1] - j.starts[node]) }

// groupKey has the fields that are equal for all documents of a Group.
type groupKey struct {
	scope     string
	signature fingerprint.Signature
}

// appendGroups appends the groups of the documents of a node. The rule does not distinguish the
// documents of a group.
func (j *joiner) appendGroups(dst []Group, r *reader, node selfjoin.Node) ([]Group, error) {
	ids, stored := slices.Clip(j.ids[j.starts[node]:j.starts[node+1]]),
		uint64(j.set.Fingerprint(node))
	caller := j.readers[j.workers()]
	if len(ids) == 1 || j.bare {
		d, err := r.member(ids[0], stored)
		return append(dst, Group{d, len(ids), ids, caller}), err
	}
	places := make(map[groupKey]int)
	for i, id := range ids {
		d, err := r.member(id, stored)
		if err != nil {
			return dst, err
		}
		key := groupKey{d.Scope, j.rule.Relevant(d.Signature())}
		place, found := places[key]
		if !found {
			places[key] = len(dst)
			dst = append(dst, Group{d, 1, ids[i : i+1 : i+1], caller})
			continue
		}
		group := &dst[place]
		group.Documents++
		group.ids = append(group.ids, id)
	}
	return dst, nil
}
