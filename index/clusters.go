package index

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/selfjoin"
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
// compares the members of a component with all that are kept of it. The index must not
// be closed from within the loop.
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
	var ready []Cluster
	for nodes := range components.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ready, err = j.appendClusters(ctx, ready, nodes); err != nil {
			return err
		}
		if len(ready) >= pairsAtOnce {
			if err := send(ready); err != nil {
				return err
			}
			ready = nil
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return send(ready)
}

// appendClusters makes clusters of a component: of all stored fingerprints, whatever
// scopes, Shingles and lengths their documents have.
func (j *join) appendClusters(ctx context.Context, clusters []Cluster, nodes []selfjoin.Node) ([]Cluster, error) {
	var members []Group
	for _, node := range nodes {
		groups, err := j.groups(j.readers[0], node)
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
		parts = j.stars(members)
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

// stars gives each member, in their order, to the first one kept that it matches, or
// keeps it.
func (j *join) stars(members []Group) [][]Group {
	var parts [][]Group
next:
	for i := range members {
		g := &members[i]
		for p := range parts {
			if j.matches(&parts[p][0], g) {
				parts[p] = append(parts[p], *g)
				continue next
			}
		}
		parts = append(parts, []Group{*g})
	}
	return parts
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
	err := j.eachNear(ctx, members, func(a, b int) {
		if j.matches(&members[a], &members[b]) {
			a, b = root(a), root(b)
			roots[max(a, b)] = min(a, b)
		}
	})
	if err != nil {
		return nil, err
	}
	var parts [][]Group
	part := make(map[int]int)
	for i := range members {
		r := root(i)
		p, found := part[r]
		if !found {
			p = len(parts)
			part[r] = p
			parts = append(parts, nil)
		}
		parts[p] = append(parts[p], members[i])
	}
	return parts, nil
}

// fewMembers: up to here all are compared with all.
const fewMembers = 64

// eachNear calls f with the places of members that may match, at least all that do.
func (j *join) eachNear(ctx context.Context, members []Group, f func(a, b int)) error {
	if len(members) <= fewMembers {
		for b := range members {
			for a := range b {
				f(a, b)
			}
		}
		return nil
	}
	at := make(map[uint64][]int, len(members))
	fps := make([]fingerprint.Fingerprint, len(members))
	for i := range members {
		stored := members[i].stored()
		fps[i] = fingerprint.Fingerprint(stored)
		for _, k := range at[stored] {
			f(k, i)
		}
		at[stored] = append(at[stored], i)
	}
	return selfjoin.NewSet(fps).Each(ctx, selfjoin.Options{MaxDistance: j.k, Workers: 1}, func(_ int, pairs []selfjoin.Pair) error {
		for _, p := range pairs {
			for _, a := range at[uint64(p.First)] {
				for _, b := range at[uint64(p.Second)] {
					f(a, b)
				}
			}
		}
		return nil
	})
}
