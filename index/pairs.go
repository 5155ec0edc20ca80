package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"

	"github.com/neardup/neardup/index/join"
	"github.com/neardup/neardup/index/match"
	"github.com/neardup/neardup/internal/store"
)

// Pairs yields every pair of groups of documents that match, once, in no order, all of
// one moment. Documents with the same fingerprint are one group, so a page with a
// million copies adds one line for each page near it, not a million. A group of several
// documents is a pair with itself, at distance 0.
//
// It reads all fingerprints and IDs into memory and takes about 32 bytes a document; the
// time is that of reading them in order, of selfjoin, and of one read of a record for
// each document of a pair that may have one. It stops at the first error, which it
// yields: ErrDistance, ErrRatio, ErrClosed, ErrCorrupt, ctx's. The index must not be closed
// from within the loop.
func (x *Index) Pairs(ctx context.Context, o join.Options) iter.Seq2[join.Pair, error] {
	return joined(ctx, x, o, join.Pairs)
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
func (x *Index) Clusters(ctx context.Context, o join.Options) iter.Seq2[join.Cluster, error] {
	return joined(ctx, x, o, join.Clusters)
}

func joined[T any](ctx context.Context, x *Index, o join.Options, run func(context.Context, join.Source, join.Options, func(T) bool) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := x.withJoinSource(ctx, o, func(source join.Source) error {
			return run(ctx, source, o, func(v T) bool {
				stopped = !yield(v, nil)
				return !stopped
			})
		})
		if err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// withJoinSource calls do with the index of this moment, within a call of it.
func (x *Index) withJoinSource(ctx context.Context, o join.Options, do func(join.Source) error) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	defer x.end()
	rule, err := x.joinRule(o)
	if err != nil {
		return err
	}
	readers, err := x.sameReaders(runtime.GOMAXPROCS(0) + 1)
	if err != nil {
		return err
	}
	source := join.Source{Rule: rule, Bare: x.firstRecord.Load() == noRecord, Fingerprints: int(x.store.PackedEntries())}
	for _, r := range readers {
		source.Readers = append(source.Readers, joinReader{r})
	}
	return errors.Join(do(source), closeAll(readers))
}

// joinRule is the rule of the index under the options of a join.
func (x *Index) joinRule(o join.Options) (match.Rule, error) {
	r := x.rule().With(o.MaxShingleDistance, o.MaxLengthRatio)
	switch {
	case o.MaxDistance == Exact:
		r.MaxDistance = 0
	case o.MaxDistance < 0 || o.MaxDistance > 64:
		return r, fmt.Errorf("%w: k = %d is not in 0..64", ErrDistance, o.MaxDistance)
	case o.MaxDistance > 0:
		r.MaxDistance = o.MaxDistance
	}
	return r, r.Check()
}

// joinReader is a reader as join needs it.
type joinReader struct{ *reader }

func (s joinReader) Postings(first uint64) iter.Seq2[store.Posting, error] {
	return s.v.Postings(first)
}

// Document returns one of a stored fingerprint.
func (s joinReader) Document(id, stored uint64) (d Document, err error) {
	d = bareDocument(id, stored)
	if id >= s.x.firstRecord.Load() {
		if d, err = s.recorded(id, d); err != nil {
			return Document{}, err
		}
	}
	d.Added, err = s.added(id)
	return d, err
}
