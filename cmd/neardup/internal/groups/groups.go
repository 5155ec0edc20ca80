// Package groups finds pairs and clusters of near-duplicates, of an index or of lists of fingerprints,
// and writes them in every form that the command has for them. Each pair comes once, and each
// document of a cluster once, the one to be kept first; no more than one document of an index is in
// memory for it.
package groups

import (
	"context"
	"iter"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/join"
)

// Which document of a cluster is kept.
const (
	KeepFirst       = "first" // added or listed
	KeepShortestKey = "shortest-key"
	KeepLongest     = "longest" // these two by a number behind the key, in lists only
	KeepScore       = "score"
)

// Member is documents that have one fingerprint. The document to name is the one to be kept; of lists,
// its ID is the number of the line.
type Member struct {
	index.Document
	Documents int
	list      iter.Seq2[index.Document, error] // each of them; nil: not told apart
}

// all yields each document on its own.
func (m *Member) all() iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		if m.list == nil {
			yield(*m, nil)
			return
		}
		for d, err := range m.list {
			if !yield(Member{Document: d, Documents: 1}, err) {
				return
			}
		}
	}
}

// EachPair calls found with the pairs of documents that a pair of members stands for.
func EachPair(a, b *Member, distance int, found func(a, b *Member, distance int) error) error {
	for first, err := range a.all() {
		if err != nil {
			return err
		}
		for second, err := range b.all() {
			if err != nil {
				return err
			}
			if a.ID == b.ID && second.ID <= first.ID {
				continue
			}
			if err := found(&first, &second, distance); err != nil {
				return err
			}
		}
	}
	return nil
}

// Cluster is documents near each other.
type Cluster struct {
	Documents int
	members   iter.Seq2[Member, error] // the one to be kept first
}

// clusterOf is a cluster of members that are in memory.
func clusterOf(members []Member) *Cluster {
	c := &Cluster{members: func(yield func(Member, error) bool) {
		for _, m := range members {
			if !yield(m, nil) {
				return
			}
		}
	}}
	for i := range members {
		c.Documents += members[i].Documents
	}
	return c
}

// all yields each document, the one to be kept first.
func (c *Cluster) all() iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		begun, kept := false, uint64(0)
		for m, err := range c.members {
			if err != nil {
				yield(m, err)
				return
			}
			if m.list != nil && !begun {
				if kept = m.ID; !yield(Member{Document: m.Document, Documents: 1}, nil) {
					return
				}
			}
			for d, err := range m.all() {
				if err == nil && kept != 0 && d.ID == kept {
					continue
				}
				if !yield(d, err) || err != nil {
					return
				}
			}
			begun = true
		}
	}
}

// Source is where pairs and clusters come from.
type Source interface {
	// Pairs calls found with each pair of members, and with each member of several
	// documents as a pair with itself, unless there is no telling. It may do so from as many
	// goroutines as there are workers, each with its number.
	Pairs(ctx context.Context, workers int, found func(worker int, a, b *Member, distance int) error) error
	Clusters(ctx context.Context, found func(*Cluster) error) error
}

// OfIndex is all documents of an index.
func OfIndex(x *index.Index, o join.Options) Source { return &indexSource{x, o} }

type indexSource struct {
	index   *index.Index
	options join.Options
}

func (s *indexSource) Pairs(ctx context.Context, _ int, found func(worker int, a, b *Member, distance int) error) error {
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

func (s *indexSource) Clusters(ctx context.Context, found func(*Cluster) error) error {
	for c, err := range s.index.Clusters(ctx, s.options) {
		if err == nil {
			members := make([]Member, len(c.Members))
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

func memberOf(g *join.Group) Member {
	m := Member{Document: g.Document, Documents: g.Documents}
	if g.Documents > 1 {
		m.list = g.All()
	}
	return m
}
