package selfjoin

import (
	"context"
	"errors"
	"iter"

	"github.com/neardup/neardup/internal/extsort"
)

// ExternalClusterOptions of ExternalClusters.
type ExternalClusterOptions struct {
	ExternalOptions

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

	members memberList
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
func (c *ExternalCluster) Members() iter.Seq2[Member, error] { return c.members.all() }

// ExternalClusters calls found with the clusters of more fingerprints than memory holds,
// by their smallest fingerprint, or that of their center. A fingerprint that is near to
// no other is in none, unless it has copies.
//
// It takes the time and memory of External and, where many fingerprints are near others,
// some more sorts of those. Pairs take 16 bytes each in temporary files, besides what
// External takes; for components, most of those that connect what others connect as
// well do not. When External's sorts are done, stars take 56 a pair for a while, and the
// members of all clusters 80 or so. Errors are those of External, and what found returns,
// which ends it.
func ExternalClusters(ctx context.Context, source iter.Seq2[[]fp, error], o ExternalClusterOptions, found func(*ExternalCluster) error) (err error) {
	scratch, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.close()) }()
	c := &externalClusters{ctx: ctx, scratch: scratch, memory: o.MemoryBytes, ExternalClusterOptions: o}
	return c.run(source, found)
}

type externalClusters struct {
	ExternalClusterOptions
	ctx     context.Context
	scratch *scratch
	memory  int64
}

func (c *externalClusters) run(source iter.Seq2[[]fp, error], found func(*ExternalCluster) error) (err error) {
	edges, err := newEdges(c.scratch, c.memory/4, !c.Stars)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, edges.nodes.Close()) }()
	nodes, err := c.nodes(source, edges)
	if err != nil {
		return err
	}
	var labels *recordFile[[1]uint64]
	if c.Stars {
		labels, err = labelStars(c.ctx, c.scratch, c.memory, nodes.nodes, edges.file)
	} else {
		labels, err = labelComponents(c.ctx, c.scratch, c.memory, nodes.nodes, edges.file)
	}
	if err != nil {
		return err
	}
	return c.gather(nodes, labels, found)
}

// nodes finds all pairs, and the nodes that clusters are made of.
func (c *externalClusters) nodes(source iter.Seq2[[]fp, error], edges *edges) (*nodeFile, error) {
	e := newExternal(c.scratch, c.memory/2, newJoin(c.MaxDistance, c.Workers, func(_ int, pairs []Pair) error {
		return edges.add(c.ctx, pairs)
	}))
	e.repeated = func(f fp) error { return edges.repeated(c.ctx, f) }
	all, err := e.read(c.ctx, source)
	if err == nil {
		err = e.pairs(c.ctx, all)
	}
	if err == nil {
		err = edges.finish(c.ctx)
	}
	if err != nil {
		return nil, err
	}
	nodes, err := newNodeFile(c.ctx, c.scratch, c.memory/2, all, edges.nodes.Sorted(c.ctx))
	return nodes, errors.Join(err, all.remove())
}

// gather sorts the members of the clusters by their places, then by their labels, in which
// order the places stay as they are.
func (c *externalClusters) gather(nodes *nodeFile, labels *recordFile[[1]uint64], found func(*ExternalCluster) error) (err error) {
	options := extsort.Options{MemoryBytes: c.memory * 3 / 8, Dir: c.scratch.dir}
	byPlace, byLabel := extsort.New[[4]uint64](options), extsort.New[[4]uint64](options)
	defer func() { err = errors.Join(err, byPlace.Close(), byLabel.Close()) }()
	if err := c.members(nodes, labels, byPlace); err != nil {
		return err
	}
	if err := errors.Join(nodes.remove(), labels.remove()); err != nil {
		return err
	}
	for part, err := range byPlace.Sorted(c.ctx) {
		if err == nil {
			for i, r := range part {
				part[i] = [4]uint64{r[1], r[0], r[2], r[3]}
			}
			err = byLabel.Add(c.ctx, part)
		}
		if err != nil {
			return err
		}
	}
	return c.emit(byLabel.Sorted(c.ctx), found)
}

// members adds a record for each member: the place of the first copy, the label, the
// fingerprint, and the number of copies, or the place.
func (c *externalClusters) members(nodes *nodeFile, labels *recordFile[[1]uint64], to *extsort.Sorter[[4]uint64]) error {
	label, places := newCursor(labels.all()), newCursor(nodes.places.all())
	defer label.stop()
	defer places.stop()
	for node, err := range nodes.nodes.each() {
		if err != nil {
			return err
		}
		of, _, err := label.read()
		if err != nil {
			return err
		}
		record := [4]uint64{node[1], of[0], node[0], node[2]}
		if !c.Copies {
			if err := to.Add(c.ctx, [][4]uint64{record}); err != nil {
				return err
			}
			continue
		}
		for range node[2] {
			place, _, err := places.read()
			if err != nil {
				return err
			}
			record[3] = place[0]
			if err := to.Add(c.ctx, [][4]uint64{record}); err != nil {
				return err
			}
		}
	}
	return nil
}

// emit calls found with the clusters of records that are in order.
func (c *externalClusters) emit(sorted iter.Seq2[[][4]uint64, error], found func(*ExternalCluster) error) error {
	cluster := &ExternalCluster{members: memberList{scratch: c.scratch, room: int(max(c.memory/8/memberBytes, 1))}}
	end := func() error {
		if cluster.Copies < 2 {
			return cluster.clear()
		}
		return errors.Join(found(cluster), cluster.clear())
	}
	var label, last uint64
	for part, err := range sorted {
		if err != nil {
			return err
		}
		for _, r := range part {
			if cluster.Copies > 0 && r[0] != label {
				if err := end(); err != nil {
					return err
				}
			}
			label = r[0]
			m := Member{Fingerprint: fp(r[2]), Place: int64(r[1]), Copies: int64(r[3])}
			if c.Copies {
				m.Place, m.Copies = int64(r[3]), 1
			}
			if cluster.Copies == 0 || last != r[2] {
				cluster.Distinct++
			}
			last = r[2]
			cluster.Copies += m.Copies
			if err := cluster.members.add(m); err != nil {
				return err
			}
		}
	}
	return end()
}

func (c *ExternalCluster) clear() error {
	c.Copies, c.Distinct = 0, 0
	return c.members.clear()
}
