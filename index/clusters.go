package index

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/selfjoin"
)

// componentsEach is the number of components that a worker reads at a time.
const componentsEach = 1 << 7

// sendClusters yields the clusters of at least two documents.
func (j *joiner) sendClusters(ctx context.Context) iter.Seq2[[]Cluster, error] {
	return ordered.All(ctx, j.workers(), 4*j.workers(), j.clusters)
}

// clusters splits the connected components of all stored fingerprints into clusters, in order, with
// all workers.
func (j *joiner) clusters(p *ordered.Pipe[[]Cluster]) error {
	all, err := j.set.Components(p.Context(), j.options())
	if err != nil {
		return err
	}
	var some [][]selfjoin.Node
	begin := func() error {
		components := some
		some = nil
		return p.Go(func(worker int) (clusters []Cluster, err error) {
			for _, nodes := range components {
				if clusters, err = j.appendClusters(p.Context(), clusters, j.readers[worker],
					nodes); err != nil {
					return nil, err
				}
			}
			return clusters, nil
		})
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

// appendClusters appends the clusters of a component of stored fingerprints. Its documents may have
// different scopes, Shingles and lengths.
func (j *joiner) appendClusters(
	ctx context.Context, clusters []Cluster, r *reader, nodes []selfjoin.Node,
) (_ []Cluster, err error) {
	var members []Group
	for _, node := range nodes {
		if members, err = j.appendGroups(members, r, node); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(members, func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
	var parts [][]Group
	switch {
	case j.centered:
		parts, err = j.stars(ctx, members)
	case j.fingerprintsDecide(members):
		parts = [][]Group{members}
	default:
		var roots []selfjoin.Node
		roots, err = selfjoin.Components(len(members), j.edges(ctx, members))
		parts = partsOf(members, roots)
	}
	for _, part := range parts {
		if c := (Cluster{part}); c.Documents() > 1 {
			clusters = append(clusters, c)
		}
	}
	return clusters, cmp.Or(err, ctx.Err())
}

// fingerprintsDecide reports whether all members with near fingerprints match: scopes, Shingles and
// lengths exclude no pair.
func (j *joiner) fingerprintsDecide(members []Group) bool {
	for i := range members {
		m := &members[i]
		s := j.rule.Relevant(m.Signature())
		if m.Scope != members[0].Scope || !s.Shingles.IsZero() || s.Tokens != 0 {
			return false
		}
	}
	return true
}

// compareStars is the number of comparisons per member after which the pairs of a component are
// sorted instead: such a component has many stars, and so few pairs.
const compareStars = 256

// stars assigns each member, in order, to the first star whose first member it matches. If it
// matches none, it begins a star.
func (j *joiner) stars(ctx context.Context, members []Group) ([][]Group, error) {
	var parts [][]Group
	left := compareStars * len(members)
next:
	for _, g := range members {
		if left < 0 {
			return j.starsOfPairs(ctx, members)
		}
		for p := range parts {
			if left--; j.rule.Matches(&parts[p][0].Document, &g.Document) {
				parts[p] = append(parts[p], g)
				continue next
			}
		}
		parts = append(parts, []Group{g})
	}
	return parts, nil
}

// starsOfPairs returns the same clusters as stars. It sorts all pairs of members first.
func (j *joiner) starsOfPairs(ctx context.Context, members []Group) ([][]Group, error) {
	owners, err := selfjoin.Stars(ctx, len(members), nil, j.edges(ctx, members))
	return partsOf(members, owners), err
}

// partsOf groups members by owner, in the order of the first member of each owner.
func partsOf(members []Group, owners []selfjoin.Node) [][]Group {
	var parts [][]Group
	places := make(map[uint32]int)
	for i, owner := range owners {
		place, found := places[owner]
		if !found {
			place = len(parts)
			places[owner] = place
			parts = append(parts, nil)
		}
		parts[place] = append(parts[place], members[i])
	}
	return parts
}

// fewMembers is the largest number of members for which all pairs are compared.
const fewMembers = 64

// edges returns the edges of the graph of members: the positions of every two that match.
func (j *joiner) edges(ctx context.Context, members []Group) selfjoin.Edges {
	return func(found func([][2]selfjoin.Node) error) error {
		test := func(a, b int) error {
			if !j.rule.Matches(&members[a].Document, &members[b].Document) {
				return nil
			}
			return found([][2]selfjoin.Node{{selfjoin.Node(a), selfjoin.Node(b)}})
		}
		if len(members) > fewMembers {
			return j.eachNear(ctx, members, test)
		}
		for b := range members {
			for a := range b {
				if err := test(a, b); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// eachNear calls test with the positions of every two members whose stored fingerprints are within
// k bits. These may be of different scopes.
func (j *joiner) eachNear(ctx context.Context, members []Group, test func(a, b int) error) error {
	places := make(map[fingerprint.Fingerprint][]int, len(members))
	fps := make([]fingerprint.Fingerprint, len(members))
	for i := range members {
		fps[i] = fingerprint.Fingerprint(storedOf(&members[i].Document))
		for _, k := range places[fps[i]] {
			if err := cmp.Or(ctx.Err(), test(k, i)); err != nil {
				return err
			}
		}
		places[fps[i]] = append(places[fps[i]], i)
	}
	set, err := selfjoin.NewSet(fps)
	if err != nil {
		return err
	}
	return set.Each(ctx, selfjoin.Options{MaxDistance: j.rule.MaxDistance, Workers: 1},
		func(_ int, pairs []selfjoin.Pair) error {
			for _, p := range pairs {
				for _, a := range places[p.First] {
					for _, b := range places[p.Second] {
						if err := test(a, b); err != nil {
							return err
						}
					}
				}
			}
			return nil
		})
}
