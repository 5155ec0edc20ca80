package selfjoin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"sync"

	"github.com/neardup/neardup/internal/extsort"
)

// ExternalClusterOptions of ExternalClusters.
type ExternalClusterOptions struct {
	Options

	// Stars makes clusters as Set.Stars does, taking the fingerprints as they come in
	// the source. Default: connected components, see Set.Components.
	Stars bool

	// Copies makes every copy of a fingerprint a member of its own.
	Copies bool
}

// ExternalCluster is fingerprints near each other, at least two of them, be they equal.
type ExternalCluster struct {
	Copies int64 // of all its fingerprints

	members *recordFile[[3]uint64]
}

// Member is a fingerprint of a cluster.
type Member struct {
	Fingerprint fp
	Place       int64 // in the source, from 0; of the first copy, if it stands for all
	Copies      int64 // 1 if all are members
}

// Members yields the members: by the place of the first copy of their fingerprint, the
// copies of one after each other. So the first one of a star is its center. It may be
// called as often as needed, until the function that got the cluster returns.
func (c *ExternalCluster) Members() iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		for records, err := range c.members.all() {
			if err != nil {
				yield(Member{}, err)
				return
			}
			for _, r := range records {
				if !yield(Member{fp(r[0]), int64(r[1]), int64(r[2])}, nil) {
					return
				}
			}
		}
	}
}

// ExternalClusters calls found with the clusters of more fingerprints than memory holds,
// by their smallest fingerprint, or that of their center. A fingerprint that is near to
// no other is in none, unless it has copies.
//
// It finds the pairs as ExternalPairs does, then holds the fingerprints that are in one, 16
// bytes each, and joins them. It fails as ExternalPairs does, also where
// those fingerprints do not fit, and with what found returns, which ends it.
func ExternalClusters(ctx context.Context, source iter.Seq2[[]fp, error], o ExternalClusterOptions, found func(*ExternalCluster) error) (err error) {
	files, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.close()) }()
	c := &externalClusters{ExternalClusterOptions: o, ctx: ctx, files: files}
	return c.run(source, found)
}

// externalClusters takes four steps: the pairs; the nodes, which are the fingerprints that
// are in a pair; where in the source these are, and what else has copies; and the clusters.
type externalClusters struct {
	ExternalClusterOptions
	ctx   context.Context
	files *scratch

	source    *recordFile[[1]uint64]
	clustered filter // what is in a pair or has copies, and some more
	pairs     *recordFile[[2]uint64]
	nodes     *Set
	ranks     []uint32               // of nodes, by the places of their first copies
	places    *recordFile[[2]uint64] // in their order, with the node there
}

func (c *externalClusters) run(source iter.Seq2[[]fp, error], found func(*ExternalCluster) error) (err error) {
	ends := extsort.New[[1]uint64](c.sorting(8))
	copies, members := extsort.New[copyRecord](c.sorting(16)), extsort.New[copyRecord](c.sorting(8))
	defer func() { err = errors.Join(err, ends.Close(), copies.Close(), members.Close()) }()
	if err := c.findPairs(source, ends); err != nil {
		return err
	}
	if err := c.readNodes(ends); err != nil {
		return err
	}
	if err := c.findPlaces(copies); err != nil {
		return err
	}
	owners, err := c.owners()
	if err != nil {
		return err
	}
	if err := c.sortMembers(owners, members); err != nil {
		return err
	}
	return c.emit(members, copies, found)
}

// sorting is the options of a sort that takes a part of the memory.
func (c *externalClusters) sorting(part int64) extsort.Options {
	return extsort.Options{MemoryBytes: c.MemoryBytes / part, Dir: c.files.dir}
}

// findPairs writes the source and all pairs, and gives ends the fingerprints of these.
func (c *externalClusters) findPairs(source iter.Seq2[[]fp, error], ends *extsort.Sorter[[1]uint64]) error {
	c.source, c.pairs = newRecordFile[[1]uint64](c.files, bufferBytes), newRecordFile[[2]uint64](c.files, bufferBytes)
	c.clustered = make(filter, max(c.MemoryBytes/8/8, 1))
	var mu sync.Mutex
	e := &external{files: c.files, memory: c.MemoryBytes / 2, join: newJoin(c.MaxDistance, c.Workers, func(_ int, pairs []Pair) error {
		fps := make([][1]uint64, 0, 2*len(pairs))
		for _, p := range pairs {
			fps = append(fps, [1]uint64{uint64(p.First)}, [1]uint64{uint64(p.Second)})
		}
		mu.Lock()
		defer mu.Unlock()
		for _, p := range pairs {
			c.clustered.add(p.First)
			c.clustered.add(p.Second)
			if err := c.pairs.add([2]uint64{uint64(p.First), uint64(p.Second)}); err != nil {
				return err
			}
		}
		return ends.Add(c.ctx, fps)
	})}
	return e.pairs(c.ctx, c.spool(source), c.clustered.add)
}

// spool yields a source, and keeps it.
func (c *externalClusters) spool(source iter.Seq2[[]fp, error]) iter.Seq2[[]fp, error] {
	return func(yield func([]fp, error) bool) {
		for fps, err := range source {
			for i := 0; i < len(fps) && err == nil; i++ {
				err = c.source.add([1]uint64{uint64(fps[i])})
			}
			if !yield(fps, err) {
				return
			}
		}
	}
}

// nodeBytes is what a node takes: itself, its rank and its owner.
const nodeBytes = 8 + 4 + 4

// readNodes reads the fingerprints that are in a pair into memory.
func (c *externalClusters) readNodes(ends *extsort.Sorter[[1]uint64]) (err error) {
	fit := min(c.MemoryBytes/5*4/nodeBytes, maxLen)
	fps := make([]fp, 0, min(ends.Len(), fit))
	n, last := int64(0), fp(0)
	for run, err := range ends.Sorted(c.ctx) {
		if err != nil {
			return err
		}
		for _, end := range run {
			if n > 0 && fp(end[0]) == last {
				continue
			}
			n, last = n+1, fp(end[0])
			if n <= fit {
				fps = append(fps, last)
			}
		}
	}
	if n > fit {
		return fmt.Errorf("%w: %d fingerprints are near others, which takes %d MiB", errMemory, n, n*nodeBytes/4*5>>20+1)
	}
	c.nodes, err = SortedSet(fps, nil)
	return err
}

// filter tells most fingerprints that are not in a set, by one bit each: a filter.Prefix tells more of them, and
// takes clusters an eighth longer.
type filter []uint64

func (f filter) bit(p fp) (word *uint64, mask uint64) {
	h, _ := bits.Mul64(uint64(p)*0x9e3779b97f4a7c15, 64*uint64(len(f)))
	return &f[h/64], 1 << (h % 64)
}

func (f filter) add(p fp) {
	word, mask := f.bit(p)
	*word |= mask
}

func (f filter) mayHave(p fp) bool {
	word, mask := f.bit(p)
	return *word&mask != 0
}

// copyRecord is a copy of a fingerprint: a key, the fingerprint, its place.
type copyRecord = [3]uint64

const unranked = ^uint32(0)

// findPlaces reads the source again. It ranks the nodes and writes where they are. What
// else may have copies is added to copies.
func (c *externalClusters) findPlaces(copies *extsort.Sorter[copyRecord]) error {
	c.places = newRecordFile[[2]uint64](c.files, bufferBytes)
	c.ranks = make([]uint32, c.nodes.Len())
	for i := range c.ranks {
		c.ranks[i] = unranked
	}
	place, rank := uint64(0), uint32(0)
	for fps, err := range c.source.all() {
		if err = errors.Join(err, c.ctx.Err()); err != nil {
			return err
		}
		for _, f := range fps {
			place++
			if !c.clustered.mayHave(fp(f[0])) {
				continue
			}
			node, found := c.nodes.Node(fp(f[0]))
			if !found {
				err = copies.Add(c.ctx, []copyRecord{{f[0], f[0], place - 1}})
			} else {
				if c.ranks[node] == unranked {
					c.ranks[node] = rank
					rank++
				}
				err = c.places.add([2]uint64{place - 1, uint64(node)})
			}
			if err != nil {
				return err
			}
		}
	}
	c.clustered = nil
	return c.source.remove()
}

// owners returns the node by which a node's cluster is known: the smallest, or the center.
func (c *externalClusters) owners() (owners Forest, err error) {
	edges := func(found func([][2]Node) error) error {
		var ends []fp
		for pairs, err := range c.pairs.all() {
			if err = errors.Join(err, c.ctx.Err()); err != nil {
				return err
			}
			ends = ends[:0]
			for _, p := range pairs {
				ends = append(ends, fp(p[0]), fp(p[1]))
			}
			if err := found(c.nodes.edges(ends)); err != nil {
				return err
			}
		}
		return c.pairs.remove()
	}
	if c.Stars {
		return Stars(c.ctx, c.nodes.Len(), c.ranks, c.sorting(8), edges)
	}
	return Components(c.nodes.Len(), edges)
}

// sortMembers adds the places of nodes by their owners, and for each by rank.
func (c *externalClusters) sortMembers(owners Forest, members *extsort.Sorter[copyRecord]) error {
	var some []copyRecord
	for places, err := range c.places.all() {
		some = some[:0]
		for _, p := range places {
			node := Node(p[1])
			key := uint64(owners[node])<<32 | uint64(c.ranks[node])
			some = append(some, copyRecord{key, uint64(c.nodes.Fingerprint(node)), p[0]})
		}
		if err = errors.Join(err, members.Add(c.ctx, some)); err != nil {
			return err
		}
	}
	c.ranks = nil
	return c.places.remove()
}

// emit calls found with the clusters of nodes, and of what has copies only.
func (c *externalClusters) emit(members, copies *extsort.Sorter[copyRecord], found func(*ExternalCluster) error) error {
	near := newClusterReader(members.Sorted(c.ctx), func(r copyRecord) fp { return c.nodes.Fingerprint(Node(r[0] >> 32)) })
	defer near.stop()
	equal := newClusterReader(copies.Sorted(c.ctx), func(r copyRecord) fp { return fp(r[0]) })
	defer equal.stop()
	cluster := &ExternalCluster{members: newRecordFile[[3]uint64](c.files, bufferBytes)}
	for near.more || equal.more {
		next := near
		if !near.more || equal.more && equal.label < near.label {
			next = equal
		}
		if err := next.read(cluster, c.Copies); err != nil {
			return err
		}
		// A single one is a center whose members others have, or was mistaken by the filter.
		if cluster.Copies > 1 {
			if err := errors.Join(c.ctx.Err(), found(cluster)); err != nil {
				return err
			}
		}
	}
	return errors.Join(near.err, equal.err, cluster.members.remove())
}

// clusterReader reads the copies of one cluster after the other.
type clusterReader struct {
	next    func() ([]copyRecord, error, bool)
	stop    func()
	labelOf func(copyRecord) fp // equal for those of a cluster

	run   []copyRecord
	label fp // of the next one
	more  bool
	err   error
}

func newClusterReader(sorted iter.Seq2[[]copyRecord, error], labelOf func(copyRecord) fp) *clusterReader {
	r := &clusterReader{labelOf: labelOf, run: make([]copyRecord, 1)}
	r.next, r.stop = iter.Pull2(sorted)
	r.advance()
	return r
}

// advance goes to the next copy.
func (r *clusterReader) advance() {
	if r.run = r.run[1:]; len(r.run) == 0 {
		if r.run, r.err, r.more = r.next(); !r.more || r.err != nil {
			r.more = false
			return
		}
	}
	r.label = r.labelOf(r.run[0])
}

// read reads a cluster, whose members are all of its copies, or its fingerprints.
func (r *clusterReader) read(c *ExternalCluster, copies bool) error {
	c.Copies = 0
	c.members.empty()
	var member [3]uint64
	for label := r.label; r.more && r.label == label; r.advance() {
		f, place := r.run[0][1], r.run[0][2]
		again := c.Copies > 0 && f == member[0]
		c.Copies++
		if again && !copies {
			member[2]++
			continue
		}
		if c.Copies > 1 {
			if err := c.members.add(member); err != nil {
				return err
			}
		}
		member = [3]uint64{f, place, 1}
	}
	return errors.Join(r.err, c.members.add(member))
}
