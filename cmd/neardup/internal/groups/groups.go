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

// Member is documents that have one fingerprint. The document to name is the one to be kept; of lists,
// its ID is the number of the line.
type Member struct {
	index.Document
	Documents  int
	list       iter.Seq2[index.Document, error] // each of them; nil: not told apart
	Duplicates uint64                           // how often a page was a duplicate of the document, in a cluster of an index
}

// each calls do with each document on its own.
func (m *Member) each(do func(*Member) error) error {
	if m.list == nil {
		return do(m)
	}
	for d, err := range m.list {
		if err == nil {
			err = do(&Member{Document: d, Documents: 1})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// EachPair calls found with the pairs of documents that a pair of members stands for.
func EachPair(a, b *Member, distance int, found func(a, b *Member, distance int) error) error {
	return a.each(func(first *Member) error {
		return b.each(func(second *Member) error {
			if a.ID == b.ID && second.ID <= first.ID {
				return nil
			}
			return found(first, second, distance)
		})
	})
}

// Cluster is documents near each other.
type Cluster struct {
	Documents int
	members   func(do func(*Member) error) error // calls do with each, the one to be kept first
	count     func(*Member) error                // sets Duplicates; nil: of lists
}

// clusterOf is a cluster of members that are in memory.
func clusterOf(members []Member) *Cluster {
	c := &Cluster{members: func(do func(*Member) error) error {
		for i := range members {
			if err := do(&members[i]); err != nil {
				return err
			}
		}
		return nil
	}}
	for i := range members {
		c.Documents += members[i].Documents
	}
	return c
}

// each calls do with each document, the one to be kept first.
func (c *Cluster) each(do func(*Member) error) error {
	if c.count != nil {
		counted := do
		do = func(m *Member) error {
			if err := c.count(m); err != nil {
				return err
			}
			return counted(m)
		}
	}
	first, kept := true, uint64(0)
	return c.members(func(m *Member) error {
		if first && m.list != nil {
			kept = m.ID
			if err := do(&Member{Document: m.Document, Documents: 1}); err != nil {
				return err
			}
		}
		first = false
		return m.each(func(d *Member) error {
			if kept != 0 && d.ID == kept {
				return nil
			}
			return do(d)
		})
	})
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
			cluster := clusterOf(members)
			cluster.count = func(m *Member) error {
				counts, err := s.index.Duplicates(ctx, m.ID)
				if err == nil {
					m.Duplicates = counts[0]
				}
				return err
			}
			err = found(cluster)
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
