package index

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/neardup/neardup/internal/selfjoin"
)

// Cluster is documents that are near-duplicates of each other.
type Cluster struct {
	// Members are groups of documents. The first one's Document is the one to be kept;
	// the others are by ID.
	Members []Group
}

// Documents counts those of all members.
func (c *Cluster) Documents() int {
	n := 0
	for i := range c.Members {
		n += c.Members[i].Documents
	}
	return n
}

// Clusters yields the clusters of two documents and more, disjoint, all of one moment.
//
// By default they are the connected components of Pairs: documents belong together if
// a chain of pairs leads from one to the other. The ends of a chain may have little in
// common, and one page that resembles two groups joins them. With Stars, every member
// matches the one that is kept, so it can be deleted for it; what chains would join may
// then be in several clusters.
//
// Cost and errors are those of Pairs, and 8 bytes a fingerprint of memory besides; Stars
// sorts the pairs of a large component, 8 bytes each, with 64 MiB of memory and a file in the
// folder for temporary ones. The index must not be closed from within the loop.
func (x *Index) Clusters(ctx context.Context, o JoinOptions) iter.Seq2[Cluster, error] {
	return func(yield func(Cluster, error) bool) {
		err := x.withJoin(ctx, o, func(j *join) error {
			return selfjoin.Ahead(ctx, j.clusters, func(clusters []Cluster) bool {
				for _, c := range clusters {
					if !yield(c, nil) {
						return false
					}
				}
				return true
			})
		})
		if err != nil {
			yield(Cluster{}, err)
		}
	}
}

func (j *join) clusters(ctx context.Context, send func([]Cluster) error) error {
	set := j.set
	if j.starts != nil {
		set = set.Counted(func(node selfjoin.Node) int { return int(j.starts[node+1] - j.starts[node]) })
	}
	components, err := set.Components(ctx, selfjoin.Options{MaxDistance: j.k, Workers: j.workers()})
	if err != nil {
		return err
	}
	return j.sendClusters(ctx, components, send)
}

// componentsEach are read by a worker at once.
const componentsEach = 1 << 7

// clusterPart is some components, and the clusters made of them once done is closed.
type clusterPart struct {
	components [][]selfjoin.Node
	made       []Cluster
	err        error
	done       chan struct{}
}

// sendClusters makes clusters of components, on all workers, and sends them in order.
func (j *join) sendClusters(parent context.Context, components *selfjoin.Clusters, send func([]Cluster) error) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	work, queue := make(chan *clusterPart), make(chan *clusterPart, 4*j.workers())
	group.Go(func() {
		defer close(queue)
		defer close(work)
		var part [][]selfjoin.Node
		for nodes := range components.All() {
			if part = append(part, nodes); len(part) < componentsEach {
				continue
			}
			if !handOut(ctx, part, queue, work) {
				return
			}
			part = nil
		}
		if len(part) > 0 {
			handOut(ctx, part, queue, work)
		}
	})
	for i := range j.workers() {
		group.Go(func() {
			for p := range work {
				p.make(ctx, j, j.readers[i])
			}
		})
	}
	for p := range queue {
		if <-p.done; p.err != nil {
			return p.err
		}
		if len(p.made) == 0 {
			continue
		}
		if err := send(p.made); err != nil {
			return err
		}
	}
	return parent.Err()
}

// handOut gives components to a worker, and a place in the queue to what it makes of them.
// It is false where the context ended.
func handOut(ctx context.Context, components [][]selfjoin.Node, queue, work chan<- *clusterPart) bool {
	p := &clusterPart{components: components, done: make(chan struct{})}
	select {
	case queue <- p:
	case <-ctx.Done():
		return false
	}
	select {
	case work <- p:
		return true
	case <-ctx.Done():
		p.err = ctx.Err()
		close(p.done)
		return false
	}
}

func (p *clusterPart) make(ctx context.Context, j *join, r *reader) {
	defer close(p.done)
	for _, nodes := range p.components {
		if p.err = ctx.Err(); p.err == nil {
			p.made, p.err = j.appendClusters(ctx, r, p.made, nodes)
		}
		if p.err != nil {
			return
		}
	}
}

// appendClusters makes clusters of a component: of all stored fingerprints, whatever
// scopes, Shingles and lengths their documents have.
func (j *join) appendClusters(ctx context.Context, r *reader, clusters []Cluster, nodes []selfjoin.Node) ([]Cluster, error) {
	var members []Group
	for _, node := range nodes {
		groups, err := j.groups(r, node)
		if err != nil {
			return nil, err
		}
		members = append(members, groups...)
	}
	slices.SortFunc(members, func(a, b Group) int {
		if j.prefers(&a.Document, &b.Document) {
			return -1
		}
		return 1
	})
	var parts [][]Group
	var err error
	switch {
	case j.Stars:
		parts, err = j.stars(ctx, members)
	case j.alike(members):
		parts = [][]Group{members}
	default:
		parts, err = j.components(ctx, members)
	}
	for _, part := range parts {
		if c := (Cluster{part}); c.Documents() > 1 {
			slices.SortFunc(c.Members[1:], func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
			clusters = append(clusters, c)
		}
	}
	return clusters, err
}

// alike reports whether scopes, Shingles and lengths take none of the pairs away.
func (j *join) alike(members []Group) bool {
	for i := range members {
		if m := &members[i]; m.Scope != members[0].Scope || j.relevant(m.details()) != (details{}) {
			return false
		}
	}
	return true
}

// matches reports whether two members match.
func (j *join) matches(a, b *Group) bool {
	return a.Fingerprint.Distance(b.Fingerprint) <= j.k && j.match(a, b)
}

// components finds the connected components of members that do not all match when
// they are near.
func (j *join) components(ctx context.Context, members []Group) ([][]Group, error) {
	roots := make([]int, len(members))
	for i := range roots {
		roots[i] = i
	}
	root := func(i int) int {
		for roots[i] != i {
			roots[i] = roots[roots[i]]
			i = roots[i]
		}
		return i
	}
	err := j.eachNear(ctx, members, func(a, b int) error {
		if j.matches(&members[a], &members[b]) {
			a, b = root(a), root(b)
			roots[max(a, b)] = min(a, b)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return partsOf(members, root), nil
}

// partsOf puts members of one owner together, in the order of the owners' first members.
func partsOf(members []Group, owner func(i int) int) [][]Group {
	var parts [][]Group
	part := make(map[int]int)
	for i := range members {
		o := owner(i)
		p, found := part[o]
		if !found {
			p = len(parts)
			part[o] = p
			parts = append(parts, nil)
		}
		parts[p] = append(parts[p], members[i])
	}
	return parts
}
