package selfjoin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
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
	Copies   int64 // of all its fingerprints
	Distinct int64 // fingerprints

	members    *recordFile[[3]uint64]
	begin, end int64
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
		for part, err := range c.members.between(c.begin, c.end) {
			if err != nil {
				yield(Member{}, err)
				return
			}
			for _, r := range part {
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
// It finds the pairs as External does, then holds the fingerprints that are in one, 12
// bytes each, and joins them. Temporary files take 32 bytes a pair, besides what External
// takes, and 110 or so a member of a cluster. Errors are those of External, ErrMemory also
// where those fingerprints do not fit; and what found returns, which ends it.
func ExternalClusters(ctx context.Context, source iter.Seq2[[]fp, error], o ExternalClusterOptions, found func(*ExternalCluster) error) (err error) {
	scratch, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.close()) }()
	c := &externalClusters{ExternalClusterOptions: o, ctx: ctx, scratch: scratch}
	return c.run(source, found)
}

type externalClusters struct {
	ExternalClusterOptions
	ctx     context.Context
	scratch *scratch

	mu       sync.Mutex
	pairs    *recordFile[[2]uint64]
	ends     *extsort.Sorter[[1]uint64] // of pairs, with repetitions
	clusters filter                     // what is in a cluster, and some more
	nodes    []fp                       // the ends, ascending
}

func (c *externalClusters) run(source iter.Seq2[[]fp, error], found func(*ExternalCluster) error) (err error) {
	c.ends = extsort.New[[1]uint64](c.sorting(8))
	defer func() { err = errors.Join(err, c.ends.Close()) }()
	c.clusters = make(filter, max(c.MemoryBytes/8/8, 1))
	all, err := c.findPairs(source)
	if err == nil {
		err = c.readNodes()
	}
	if err != nil {
		return err
	}
	members, err := c.membersByPlace(all)
	if err != nil {
		return err
	}
	label, err := c.labels(members)
	if err != nil {
		return err
	}
	return c.emit(members, label, found)
}

// sorting is the options of a sort that takes a part of the memory.
func (c *externalClusters) sorting(part int64) extsort.Options {
	return extsort.Options{MemoryBytes: c.MemoryBytes / part, Dir: c.scratch.dir}
}

// findPairs writes all pairs, and notes what is in one or repeated.
func (c *externalClusters) findPairs(source iter.Seq2[[]fp, error]) (all *tempFile, err error) {
	if c.pairs, err = newRecordFile[[2]uint64](c.scratch); err != nil {
		return nil, err
	}
	e := newExternal(c.scratch, c.MemoryBytes/2, newJoin(c.MaxDistance, c.Workers, func(_ int, pairs []Pair) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		var ends [][1]uint64
		for _, p := range pairs {
			a, b := uint64(p.First), uint64(p.Second)
			c.clusters.add(a)
			c.clusters.add(b)
			ends = append(ends, [1]uint64{a}, [1]uint64{b})
			if err := c.pairs.add([2]uint64{a, b}); err != nil {
				return err
			}
		}
		return c.ends.Add(c.ctx, ends)
	}))
	e.repeated = func(f fp) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clusters.add(uint64(f))
		return nil
	}
	if all, err = e.read(c.ctx, source); err != nil {
		return nil, err
	}
	return all, errors.Join(e.pairs(c.ctx, all), c.pairs.finish())
}

// nodeBytes is what a node takes: itself and its owner, or its rank.
const nodeBytes = 8 + 4

// readNodes reads the fingerprints that are in a pair into memory.
func (c *externalClusters) readNodes() error {
	distinct, err := newRecordFile[[1]uint64](c.scratch)
	if err != nil {
		return err
	}
	var last uint64
	for run, err := range c.ends.Sorted(c.ctx) {
		if err != nil {
			return err
		}
		for _, r := range run {
			if distinct.len > 0 && r[0] == last {
				continue
			}
			last = r[0]
			if err := distinct.add(r); err != nil {
				return err
			}
		}
	}
	if err := distinct.finish(); err != nil {
		return err
	}
	if need := distinct.len * nodeBytes; need > c.MemoryBytes/8*5 || distinct.len > MaxLen {
		return fmt.Errorf("%w: %d fingerprints are near others, which takes %d MiB", ErrMemory, distinct.len, need/5*8>>20+1)
	}
	c.nodes = make([]fp, 0, distinct.len)
	for r, err := range distinct.each() {
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, fp(r[0]))
	}
	return distinct.remove()
}

// node returns the number of a fingerprint that is in a pair.
func (c *externalClusters) node(f uint64) Node {
	n, _ := slices.BinarySearch(c.nodes, fp(f))
	return Node(n)
}

// filter tells most fingerprints that are not in a set.
type filter []uint64

func (f filter) bit(p uint64) (word *uint64, mask uint64) {
	h, _ := bits.Mul64(p*0x9e3779b97f4a7c15, 64*uint64(len(f)))
	return &f[h/64], 1 << (h % 64)
}

func (f filter) add(p uint64) {
	word, mask := f.bit(p)
	*word |= mask
}

func (f filter) mayHave(p uint64) bool {
	word, mask := f.bit(p)
	return *word&mask != 0
}

// placed is a fingerprint of a cluster: where its first copy is, itself, its node, and
// the number of its copies, or where this one is.
type placed = [4]uint64

// noNode is that of a fingerprint that has copies, and none near it.
const noNode = ^uint64(0)

// membersByPlace finds where all members of clusters are. It uses up all.
func (c *externalClusters) membersByPlace(all *tempFile) (_ *recordFile[placed], err error) {
	copies, byPlace := extsort.New[[2]uint64](c.sorting(4)), extsort.New[placed](c.sorting(4))
	defer func() { err = errors.Join(err, copies.Close(), byPlace.Close()) }()
	place := uint64(0)
	var found [][2]uint64
	for part, err := range all.all() {
		found = found[:0]
		for _, r := range part {
			if c.clusters.mayHave(r[0]) {
				found = append(found, [2]uint64{r[0], place})
			}
			place++
		}
		if err = errors.Join(err, copies.Add(c.ctx, found)); err != nil {
			return nil, err
		}
	}
	c.clusters = nil
	if err := errors.Join(all.remove(), c.eachFingerprint(copies, byPlace)); err != nil {
		return nil, err
	}
	members, err := newRecordFile[placed](c.scratch)
	if err != nil {
		return nil, err
	}
	for run, err := range byPlace.Sorted(c.ctx) {
		if err != nil {
			return nil, err
		}
		for _, r := range run {
			if err := members.add(r); err != nil {
				return nil, err
			}
		}
	}
	return members, members.finish()
}

// eachFingerprint takes copies by their fingerprint, and adds those of clusters to others.
func (c *externalClusters) eachFingerprint(copies *extsort.Sorter[[2]uint64], to *extsort.Sorter[placed]) error {
	var r placed
	n, node := uint64(0), 0
	add := func(last uint64) error {
		r[3] = last
		return to.Add(c.ctx, []placed{r})
	}
	end := func() error {
		if c.Copies || n == 0 || n == 1 && r[2] == noNode {
			return nil
		}
		return add(n)
	}
	for run, err := range copies.Sorted(c.ctx) {
		if err != nil {
			return err
		}
		for _, one := range run {
			if n == 0 || one[0] != r[1] {
				if err := end(); err != nil {
					return err
				}
				for node < len(c.nodes) && uint64(c.nodes[node]) < one[0] {
					node++
				}
				n, r = 0, placed{one[1], one[0], noNode}
				if node < len(c.nodes) && uint64(c.nodes[node]) == one[0] {
					r[2] = uint64(node)
				}
			}
			n++
			if !c.Copies {
				continue
			}
			var err error
			if r[2] == noNode && n == 2 {
				err = add(r[0]) // the first one, which is in a cluster now
			}
			if r[2] != noNode || n >= 2 {
				err = errors.Join(err, add(one[1]))
			}
			if err != nil {
				return err
			}
		}
	}
	return end()
}

// labels returns a function that gives the label of a node's cluster, by which clusters
// are ordered. It is to be called with all members, in their order.
func (c *externalClusters) labels(members *recordFile[placed]) (label func(placed) fp, err error) {
	if c.Stars {
		return c.starLabels(members)
	}
	roots := NewForest(len(c.nodes))
	for p, err := range c.pairs.each() {
		if err != nil {
			return nil, err
		}
		roots.Join(c.node(p[0]), c.node(p[1]))
	}
	return func(r placed) fp { return c.nodes[roots.Root(Node(r[2]))] }, c.pairs.remove()
}

// starLabels ranks the nodes by their places.
func (c *externalClusters) starLabels(members *recordFile[placed]) (label func(placed) fp, err error) {
	ranks := make([]uint32, len(c.nodes))
	next, last := uint32(0), noNode
	for r, err := range members.each() {
		if err != nil {
			return nil, err
		}
		if r[2] != noNode && r[2] != last {
			ranks[r[2]] = next
			next, last = next+1, r[2]
		}
	}
	stars := NewStarBuilder(c.sorting(8))
	defer func() { err = errors.Join(err, stars.Close()) }()
	var edges [][2]uint32
	for part, err := range c.pairs.all() {
		edges = edges[:0]
		for _, p := range part {
			edges = append(edges, [2]uint32{ranks[c.node(p[0])], ranks[c.node(p[1])]})
		}
		if err = errors.Join(err, stars.Add(c.ctx, edges)); err != nil {
			return nil, err
		}
	}
	// From here on all is by rank, in whose order members come: a center first.
	owners, byRank := Forest(ranks), c.nodes
	if err := errors.Join(c.pairs.remove(), stars.Owners(c.ctx, owners)); err != nil {
		return nil, err
	}
	next, last = 0, noNode
	return func(r placed) fp {
		if r[2] != last {
			byRank[next] = fp(r[1])
			next, last = next+1, r[2]
		}
		return byRank[owners[next-1]]
	}, nil
}

// emit calls found with the members of each label.
func (c *externalClusters) emit(byPlace *recordFile[placed], label func(placed) fp, found func(*ExternalCluster) error) (err error) {
	byLabel := extsort.New[[4]uint64](c.sorting(8))
	defer func() { err = errors.Join(err, byLabel.Close()) }()
	for r, err := range byPlace.each() {
		if err != nil {
			return err
		}
		member := [4]uint64{r[1], r[1], r[0], r[3]} // its label, itself, its place, its copies
		if r[2] != noNode {
			member[0] = uint64(label(r))
		}
		if c.Copies {
			member[2], member[3] = r[3], 1
		}
		if err := byLabel.Add(c.ctx, [][4]uint64{member}); err != nil {
			return err
		}
	}
	c.nodes = nil
	if err := byPlace.remove(); err != nil {
		return err
	}
	members, err := newRecordFile[[3]uint64](c.scratch)
	if err != nil {
		return err
	}
	clusters, err := newRecordFile[[3]uint64](c.scratch)
	if err != nil {
		return err
	}
	if err := writeClusters(byLabel.Sorted(c.ctx), members, clusters); err != nil {
		return err
	}
	cluster := ExternalCluster{members: members}
	for r, err := range clusters.each() {
		if err = errors.Join(err, c.ctx.Err()); err != nil {
			return err
		}
		cluster.begin, cluster.end = cluster.end, int64(r[0])
		if cluster.Copies, cluster.Distinct = int64(r[1]), int64(r[2]); cluster.Copies < 2 {
			continue // a center whose members others have
		}
		if err := found(&cluster); err != nil {
			return err
		}
	}
	return errors.Join(members.remove(), clusters.remove())
}

// writeClusters writes members that come by label, and of each label where they end, with
// how many copies of how many fingerprints.
func writeClusters(sorted iter.Seq2[[][4]uint64, error], members, clusters *recordFile[[3]uint64]) error {
	var label, last uint64
	var cluster [3]uint64
	for run, err := range sorted {
		if err != nil {
			return err
		}
		for _, r := range run {
			if r[0] != label && cluster[1] > 0 {
				if err := clusters.add(cluster); err != nil {
					return err
				}
				cluster = [3]uint64{cluster[0], 0, 0}
			}
			if cluster[2] == 0 || r[1] != last {
				cluster[2]++
			}
			label, last = r[0], r[1]
			cluster[0]++
			cluster[1] += r[3]
			if err := members.add([3]uint64{r[1], r[2], r[3]}); err != nil {
				return err
			}
		}
	}
	if cluster[1] > 0 {
		if err := clusters.add(cluster); err != nil {
			return err
		}
	}
	return errors.Join(members.finish(), clusters.finish())
}
