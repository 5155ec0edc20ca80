// Package groups finds pairs and clusters of near-duplicates in an index or in lists of
// fingerprints, and writes them as JSON.
package groups

import (
	"bufio"
	"context"
	"fmt"
	"iter"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
)

// Member is a member of a pair or a cluster in JSON.
type Member struct {
	ID          uint64                  `json:"id,omitempty"` // in lists, the position from 1
	Key         string                  `json:"key,omitempty"`
	KeyBytes    []byte                  `json:"keyBytes,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Documents   int                     `json:"documents,omitempty"`
}

// ClusterMember is a document of a cluster in JSON.
type ClusterMember struct {
	Member
	// number of times that a document was a duplicate of this one
	Duplicates uint64 `json:"duplicates,omitempty"`
}

// Pair is a pair in JSON. Documents with equal fingerprints are one member.
type Pair struct {
	First    Member `json:"first"`
	Second   Member `json:"second"`
	Distance int    `json:"distance"`
}

// ClusterLine is a cluster in JSON.
type ClusterLine struct {
	Documents int             `json:"documents"`
	Kept      ClusterMember   `json:"kept"`
	Others    []ClusterMember `json:"others"`
}

// Cluster is a set of near-duplicates, which need not fit in memory.
type Cluster struct {
	Documents int
	Members   iter.Seq2[ClusterMember, error] // the first one is the document that is kept
}

// Source finds pairs and clusters.
type Source interface {
	// Pairs yields each pair of members, which is valid until the next one. A member with several
	// documents is also a pair with itself.
	Pairs(ctx context.Context) iter.Seq2[*Pair, error]

	// Clusters yields each cluster, which is valid until the next one.
	Clusters(ctx context.Context) iter.Seq2[*Cluster, error]
}

// OfIndex returns the documents of an index as a Source.
func OfIndex(x *index.Index, o index.JoinOptions) Source { return &indexSource{x, o} }

type indexSource struct {
	index   *index.Index
	options index.JoinOptions
}

func memberOf(d *index.Document, documents int) Member {
	return Member{ID: d.ID, Key: d.Key, KeyBytes: corpus.KeyBytes(d.Key),
		Fingerprint: d.Fingerprint, Documents: documents}
}

func (s *indexSource) Pairs(ctx context.Context) iter.Seq2[*Pair, error] {
	return func(yield func(*Pair, error) bool) {
		for p, err := range s.index.Pairs(ctx, s.options) {
			first, second := memberOf(&p.First.Document, p.First.Documents),
				memberOf(&p.Second.Document, p.Second.Documents)
			if !yield(&Pair{first, second, p.Distance}, err) || err != nil {
				return
			}
		}
	}
}

func (s *indexSource) Clusters(ctx context.Context) iter.Seq2[*Cluster, error] {
	return func(yield func(*Cluster, error) bool) {
		for c, err := range s.index.Clusters(ctx, s.options) {
			if !yield(&Cluster{c.Documents(), s.members(ctx, &c)}, err) || err != nil {
				return
			}
		}
	}
}

// members yields the documents of a cluster.
func (s *indexSource) members(
	ctx context.Context, c *index.Cluster,
) iter.Seq2[ClusterMember, error] {
	return func(yield func(ClusterMember, error) bool) {
		for i := range c.Members {
			for d, err := range c.Members[i].All() {
				m := ClusterMember{Member: memberOf(&d, 1)}
				if err == nil {
					var counts []uint64
					if counts, err = s.index.Duplicates(ctx, d.ID); err == nil {
						m.Duplicates = counts[0]
					}
				}
				if !yield(m, err) || err != nil {
					return
				}
			}
		}
	}
}

// Write writes a cluster as a ClusterLine, member by member.
func (c *Cluster) Write(out *bufio.Writer) error {
	n, line := 0, []byte(nil)
	fmt.Fprintf(out, `{"documents":%d,"kept":`, c.Documents)
	for m, err := range c.Members {
		if err == nil {
			line, err = wire.Append(line[:0], &m)
		}
		if err != nil {
			return err
		}
		if n > 1 {
			out.WriteByte(',')
		}
		out.Write(line[:len(line)-1]) // without the line break
		if n++; n == 1 {
			out.WriteString(`,"others":[`)
		}
	}
	_, err := out.WriteString("]}\n")
	return err
}
