package index

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/neardup/neardup/internal/ordered"
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
			for clusters, err := range ordered.All(ctx, j.workers(), 4*j.workers(), j.clusters) {
				if err != nil {
					return err
				}
				for _, c := range clusters {
					if !yield(c, nil) {
						return nil
					}
				}
			}
			return nil
		})
		if err != nil {
			yield(Cluster{}, err)
		}
	}
}

// componentsEach are read by a worker at once.
const componentsEach = 1 << 7

// clusters has the workers make clusters of the components, in order.
func (j *join) clusters(p *ordered.Pipe[[]Cluster]) error {
	set := j.set
	if j.starts != nil {
		set = set.Counted(func(node selfjoin.Node) int { return int(j.starts[node+1] - j.starts[node]) })
	}
	all, err := set.Components(p.Context(), selfjoin.Options{MaxDistance: j.k, Workers: j.workers()})
	if err != nil {
		return err
	}
	var some [][]selfjoin.Node
	begin := func() error {
		components := some
		some = nil
		return p.Go(func(worker int) ([]Cluster, error) { return j.makeClusters(p.Context(), j.readers[worker], components) })
	}
	for nodes := range all.All() {
		if some = append(some, nodes); len(some) == componentsEach {
			if err := begin(); err != nil {
				return err
			}
		}
	}
	return begin()
}

func (j *join) makeClusters(ctx context.Context, r *reader, components [][]selfjoin.Node) (clusters []Cluster, err error) {
	for _, nodes := range components {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if clusters, err = j.appendClusters(ctx, r, clusters, nodes); err != nil {
			return nil, err
		}
	}
	return clusters, nil
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
	roots := selfjoin.NewForest(len(members))
	err := j.eachNear(ctx, members, func(a, b int) error {
		if j.matches(&members[a], &members[b]) {
			roots.Join(uint32(a), uint32(b))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	roots.Flatten()
	return partsOf(members, roots), nil
}

// partsOf puts members of one owner together, in the order of the owners' first members.
func partsOf(members []Group, owners selfjoin.Forest) [][]Group {
	var parts [][]Group
	part := make(map[uint32]int)
	for i, owner := range owners {
		p, found := part[owner]
		if !found {
			p = len(parts)
			part[owner] = p
			parts = append(parts, nil)
		}
		parts[p] = append(parts[p], members[i])
	}
	return parts
}
