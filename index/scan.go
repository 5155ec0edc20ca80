package index

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/join"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/verify"
	"github.com/neardup/neardup/store"
)

// snapshot opens a view, and returns the counters of the same time.
func (x *Index) snapshot() (v *store.View, counters store.Counters, err error) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	v, err = x.store.View()
	return v, x.counters, err
}

// Documents yields every document as of one moment: first those with a record, by ID, then those without,
// by stored fingerprint. It stops at the first error, which it yields. The index must not be closed within
// the loop.
func (x *Index) Documents(ctx context.Context) iter.Seq2[Document, error] {
	return x.documents(ctx, 1, true)
}

// DocumentsAfter yields the documents that have a record and a larger ID, as Documents does: a list of all
// documents can be read in parts, each of which starts after the last ID of the part before.
func (x *Index) DocumentsAfter(ctx context.Context, id uint64) iter.Seq2[Document, error] {
	return x.documents(ctx, id+1, false)
}

func (x *Index) documents(ctx context.Context, first uint64, bare bool) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		if err := x.begin(ctx); err != nil {
			yield(Document{}, err)
			return
		}
		defer x.end()
		v, counters, err := x.snapshot()
		if err != nil {
			yield(Document{}, err)
			return
		}
		defer v.Close()
		if err := eachDocument(ctx, v, first, bare && counters.Bare > 0, func(d Document) bool { return yield(d, nil) }); err != nil {
			yield(Document{}, err)
		}
	}
}

// eachDocument calls yield with the documents of a view until it returns false: those with a record from
// the first ID on and, if bare is set, those without.
func eachDocument(ctx context.Context, v *store.View, first uint64, bare bool, yield func(Document) bool) error {
	recorded := roaring64.New() // if there are documents without a record
	for r, err := range v.Records(first) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if bare {
			recorded.Add(r.ID)
		}
		if !yield(documentOf(r.ID, r.Record)) {
			return nil
		}
	}
	if !bare {
		return nil
	}
	recorded.RunOptimize()
	for p, err := range v.Postings(0) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		for id := range p.IDs.All() {
			if !recorded.Contains(id) && !yield(bareDocument(id, p.Stored)) {
				return nil
			}
		}
	}
	return nil
}

// JoinOptions are the options of Pairs and Clusters. The zero value is ready to use. Fields:
//
//	MaxDistance        int     // k in bits, 0 to 64; it may exceed the k of the index. 0: the k of the index. Exact: 0 bits
//	MaxShingleDistance int     // as in Options. 0: the value of the index. Below 0: Shingles are not compared
//	ShortAllowance     int     // as in Options. 0: the value of the index. Below 0: none
//	MaxLengthRatio     float64 // as in Options. 0: the value of the index. Below 0: lengths are not compared
//	Stars              bool    // clusters whose members all match the first one. Default: connected components
type JoinOptions = join.Options

// Pair is two groups of documents near each other, or one group of several documents
// twice, which stands for all pairs of these. Its fields:
//
//	First, Second Group // First.ID <= Second.ID
//	Distance      int   // of the fingerprints, in bits
//
// A Group is the documents of one scope that have the same fingerprint (and the same Shingles and length,
// if these count). Its method All yields all of them, by ID, within the loop that yielded the group. Its fields:
//
//	Document      // embedded: the one with the smallest ID; g.Key is its key
//	Documents int // how many there are
type Pair = join.Pair

// Cluster is documents that are near-duplicates of each other; its method Documents counts them. Its field:
//
//	Members []Group // see Pair; in the order of their smallest IDs
type Cluster = join.Cluster

// Pairs yields every pair of groups of documents that match, once, in no order, all of
// one moment. Documents with the same fingerprint are one group, so a page with a
// million copies adds one line for each page near it, not a million. A group of several
// documents is a pair with itself, at distance 0.
//
// It reads all fingerprints and IDs into memory and takes about 32 bytes per document. The
// time is the sum of reading them in order, comparing them, and reading one record for
// each document of a pair that may have one. It stops at the first error, which it
// yields: ErrDistance, ErrClosed, ErrCorrupt, or the error of ctx. The index must not be closed
// from within the loop.
func (x *Index) Pairs(ctx context.Context, o JoinOptions) iter.Seq2[Pair, error] {
	return joined(ctx, x, o, join.Pairs)
}

// Clusters yields the clusters of two documents and more, disjoint, all of one moment.
//
// By default they are the connected components of Pairs: documents belong together if
// a chain of pairs leads from one to the other. The ends of a chain may have little in
// common, and one page that resembles two groups joins them. With Stars, every member
// matches the document that is kept, so the others can be deleted. A chain may then be
// split into several clusters.
//
// Cost and errors are as for Pairs, with 8 bytes of memory more per fingerprint. Stars
// sorts the pairs of a large component, 16 bytes each, with 64 MiB of memory and a file in the
// directory for temporary files. The index must not be closed from within the loop.
func (x *Index) Clusters(ctx context.Context, o JoinOptions) iter.Seq2[Cluster, error] {
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
func (x *Index) withJoinSource(ctx context.Context, o join.Options, do func(join.Source) error) (err error) {
	if err := x.begin(ctx); err != nil {
		return err
	}
	defer x.end()
	readers, err := x.sameReaders(runtime.GOMAXPROCS(0) + 1)
	if err != nil {
		return err
	}
	defer closeAll(readers, &err)
	rule, err := joinRule(x.rule(readers[0].s.plan), o)
	if err != nil {
		return err
	}
	source := join.Source{Rule: rule, Bare: x.firstRecord.Load() == noRecord, Fingerprints: int(x.store.Now().PackedEntries())}
	for _, r := range readers {
		source.Readers = append(source.Readers, joinReader{r})
	}
	return do(source)
}

// joinRule is the rule of an index under the options of a join.
func joinRule(r match.Rule, o join.Options) (match.Rule, error) {
	r = r.With(o.MaxShingleDistance, o.ShortAllowance, o.MaxLengthRatio)
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
func (s joinReader) Document(id, stored uint64) (Document, error) {
	d, found, err := s.document(id, stored)
	if err == nil && !found {
		err = fmt.Errorf("%w: document %d has no record", ErrCorrupt, id)
	}
	return d, err
}

// VerifyOptions configures Verify. The zero value is ready to use. Its fields:
//
//	MemoryBytes int64                           // for sorting parts that differ, at least 32 bytes per 256th of a table's entries. 0: 256 MiB
//	Progress    func(stage string, done uint64) // called from time to time with the stage and its entries read so far. nil: none
type VerifyOptions = verify.Options

// Problem is an inconsistency in an index. Its fields:
//
//	Kind     Kind   // a string: "unreadable", "malformed", "missing", "unexpected", "miscounted", "false negative", "unchecked"
//	Keyspace string // a name of docs/format.md; "tables" for live and packed entries, "file" for a file, "unknown"
//	Key      string // of the entry, in hexadecimal; or the name of a file
//	Message  string // describes the problem
//	Err      error  // the error that Message describes; may be nil
type Problem = verify.Problem

// Verify checks that all files and entries can be read, follow docs/format.md, and agree with each other
// and with the index in memory. It yields every problem, in no particular order; docs/operations.md
// explains the kinds. It checks one snapshot, while reads and writes continue. The first entry or file that
// cannot be read ends the check. Open has checked the log.
//
// Verify reads the files twice, and keeps about 2 bits per ID and one saved filter in memory.
//
// If the context ends or the store fails, the last Problem is Unchecked with that error. After a break
// nothing more is read. The index must not be closed within the loop.
func (x *Index) Verify(ctx context.Context, o VerifyOptions) iter.Seq[Problem] {
	return func(yield func(verify.Problem) bool) {
		stopped := false
		err := x.verify(ctx, o, func(p verify.Problem) bool {
			stopped = !yield(p)
			return !stopped
		})
		if err != nil && !stopped {
			yield(verify.Problem{Kind: verify.Unchecked, Keyspace: "index", Message: "the rest was not looked at: " + err.Error(), Err: err})
		}
	}
}

func (x *Index) verify(ctx context.Context, o verify.Options, report func(verify.Problem) bool) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	defer x.end()
	x.commitMu.Lock()
	s, counters, meta := x.hold(), x.counters, x.store.Meta()
	view, err := s.tables.View()
	x.commitMu.Unlock()
	defer s.tables.Release()
	if err != nil {
		return err
	}
	defer view.Close()
	source := verify.Source{Store: x.store, View: view, Meta: meta, Counters: counters, Plan: s.plan, Packed: s.packed}
	for _, live := range s.live {
		source.Live = append(source.Live, live.Set)
	}
	if !x.opts.ReadOnly {
		source.Keys = s.keys
	}
	return verify.Run(ctx, source, o, report)
}
