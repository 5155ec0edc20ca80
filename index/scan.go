package index

import (
	"cmp"
	"context"
	"iter"
	"math"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/verify"
	"github.com/neardup/neardup/store"
)

// snapshot returns a new view, and the counters of the same moment.
func (x *Index) snapshot() (v *store.View, counters store.Counters, err error) {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	v, err = x.store.View()
	return v, x.counters, err
}

// Documents yields every document as of one moment. The documents with a record come first, ordered
// by ID. The documents without a record follow, ordered by stored fingerprint. Documents yields the
// first error and stops. The index must not be closed within the loop.
func (x *Index) Documents(ctx context.Context) iter.Seq2[Document, error] {
	return x.documents(ctx, 1, true)
}

// DocumentsAfter yields the documents that have a record and an ID larger than id, ordered by ID.
// With it, a caller can read all documents in parts, where each part starts after the last ID of
// the previous part.
func (x *Index) DocumentsAfter(ctx context.Context, id uint64) iter.Seq2[Document, error] {
	return x.documents(ctx, min(id, math.MaxUint64-1)+1, false)
}

func (x *Index) documents(ctx context.Context, first uint64, bare bool) iter.Seq2[Document, error] {
	return loop(ctx, x, func(yield func(Document) bool) error {
		return x.eachDocument(ctx, first, bare, yield)
	})
}

// eachDocument calls yield until it returns false: with the documents that have a record and an ID
// of at least first and, if bare is set, with the documents that have no record.
func (x *Index) eachDocument(
	ctx context.Context, first uint64, bare bool, yield func(Document) bool,
) error {
	v, counters, err := x.snapshot()
	if err != nil {
		return err
	}
	defer v.Close()
	bare = bare && counters.Bare > 0
	recorded := roaring64.New() // IDs with a record; used only if bare is set
	for r, err := range v.Records(first) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if bare {
			recorded.Add(r.ID)
		}
		if !yield(documentOf(r)) {
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

// VerifyOptions configures Verify. The zero value is ready to use. Its fields:
//
//	Progress    func(stage string, done uint64) // the entries read in a stage. nil: none
type VerifyOptions = verify.Options

// Problem is an inconsistency in an index. Its fields:
//
//	Kind     Kind   // a string: "unreadable", "missing", "unexpected", "miscounted", "unchecked"
//	Keyspace string // a name of docs/format.md, "tables" (live and packed), "file" or "index"
//	Key      string // of the entry, in hexadecimal; "" if the problem is of no single entry
//	Message  string // describes the problem
//	Err      error  // the error that Message describes; may be nil
type Problem = verify.Problem

// Verify checks that all files can be read, and that the records, the keys and the entries of all
// tables agree with each other. It yields every problem, in no particular order; docs/operations.md
// explains the kinds. Verify checks one snapshot, while reads and writes continue. It stops at the
// first entry or file that cannot be read. It does not check the log, which Open has checked.
//
// Verify reads the files twice, and keeps about 2 bits per ID in memory.
//
// If the context ends or the store fails, the last Problem is Unchecked and has that error. The
// index must not be closed within the loop.
func (x *Index) Verify(ctx context.Context, o VerifyOptions) iter.Seq[Problem] {
	return func(yield func(verify.Problem) bool) {
		for p, err := range loop(ctx, x, func(report func(verify.Problem) bool) error {
			return x.verify(ctx, o, report)
		}) {
			if err != nil {
				p = verify.Problem{Kind: verify.Unchecked, Keyspace: "index",
					Message: "the rest was not checked: " + err.Error(), Err: err}
			}
			if !yield(p) {
				return
			}
		}
	}
}

func (x *Index) verify(
	ctx context.Context, o verify.Options, report func(verify.Problem) bool,
) error {
	view, counters, err := x.snapshot()
	if err != nil {
		return err
	}
	defer view.Close()
	return verify.Run(ctx, verify.Source{Store: x.store, View: view, Counters: counters,
		Plan: x.plan}, o, report)
}
