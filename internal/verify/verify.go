// Package verify checks that every entry and file of an index can be read, and that the entries are
// consistent.
//
// It reads one snapshot, while other calls read and write. It compares
//
//   - the checksum of every block of every file;
//   - the entries of table 0 with the records: each ID has one entry, and is removed, or has a
//     record with that fingerprint, or has no record and is counted as such;
//   - the entries of the other tables with the entries of table 0, in each epoch and in the packed
//     tables;
//   - the entries of the keys with the records.
//
// Sets that should be equal are compared by tallies, so no set is sorted or kept in memory. Entries
// are read once, and files twice. The first entry or file that cannot be read ends the check.
package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// Options of index.Index.Verify. The zero value is ready to use.
type Options struct {
	// Progress, if not nil, is called from time to time with the name of the stage, and the number
	// of entries, or bytes of files, that the stage has read.
	Progress func(stage string, done uint64)
}

// Source is a snapshot of an index.
type Source struct {
	Store    *store.Store
	View     *store.View
	Counters store.Counters
	Plan     *plan.Plan
}

// Run reports every problem, in no particular order. If report returns false, Run returns
// context.Canceled. Otherwise it returns the error of ctx, or an error of the store that does not
// indicate damage.
func Run(ctx context.Context, source Source, o Options, report func(Problem) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &verifier{
		Source: source, ctx: ctx, options: o, seed: maphash.MakeSeed(),
		removed: roaring64.New(), recorded: roaring64.New(), entered: roaring64.New(),
	}
	v.report = func(p Problem) {
		if v.failed == nil && !report(p) {
			v.failed = context.Canceled
			cancel()
		}
	}
	for _, stage := range []struct {
		name, keyspace string
		run            func()
	}{
		{"files", "file", func() { v.fail(v.Store.CheckFiles(ctx, v.tell)) }},
		{"meta", "meta", v.checkMeta},
		{"removed", "removed", v.checkRemoved},
		{"documents", "document", v.checkDocuments},
		{"keys", "key", v.checkKeys},
		{"entries", "tables", v.checkEntries},
		{"tables", "tables", v.checkTables},
	} {
		v.stage, v.done = stage.name, 0
		v.tell(0)
		stage.run()
		v.fail(ctx.Err())
		if errors.Is(v.failed, fault.ErrCorrupt) {
			report(Problem{Kind: Unreadable, Keyspace: stage.keyspace, Message: v.failed.Error(),
				Err: v.failed})
			return nil
		}
		if v.failed != nil {
			return v.failed
		}
	}
	return nil
}

// verifier is a Run in progress.
type verifier struct {
	Source
	ctx     context.Context
	options Options
	report  func(Problem)
	failed  error // the error that ends the check
	stage   string
	done    uint64

	seed       maphash.Seed
	removed    *roaring64.Bitmap
	recorded   *roaring64.Bitmap // IDs with a record
	entered    *roaring64.Bitmap // IDs in table 0
	records    tally             // (ID, stored fingerprint) of the records
	recordKeys tally             // (hash of the key, ID) of the records
}

// tally is a summary of a set of pairs that does not depend on their order. Two sets with equal
// tallies are equal, except with probability 2^-64.
type tally struct{ n, sum uint64 }

func (v *verifier) add(t *tally, a, b uint64) {
	t.n++
	t.sum += maphash.Comparable(v.seed, [2]uint64{a, b})
}

// compare reports a problem if two sets differ. The message begins with the formatted text.
func (v *verifier) compare(keyspace string, found, want tally, format string, args ...any) {
	if found == want {
		return
	}
	kind := Unexpected
	if found.n < want.n {
		kind = Missing
	}
	v.problem(kind, keyspace, "", "%s: %d entries, want %d", fmt.Sprintf(format, args...),
		found.n, want.n)
}

// values yields the entries of a scan. An error ends the scan and the check.
func values[T any](v *verifier, entries iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for entry, err := range entries {
			if err == nil && v.done%tellEvery == 0 {
				err = v.ctx.Err()
			}
			if v.fail(err); v.failed != nil {
				return
			}
			if v.tell(1); !yield(entry) {
				return
			}
		}
	}
}

func (v *verifier) fail(err error) {
	if v.failed == nil {
		v.failed = err
	}
}

// tellEvery is the number of entries, or bytes, between two calls of Progress.
const tellEvery = 1 << 14

func (v *verifier) tell(n uint64) {
	before := v.done
	v.done += n
	if v.options.Progress != nil && (n == 0 || before/tellEvery != v.done/tellEvery) {
		v.options.Progress(v.stage, v.done)
	}
}

func (v *verifier) problem(kind Kind, keyspace, key, format string, args ...any) {
	v.fail(v.ctx.Err())
	v.report(Problem{Kind: kind, Keyspace: keyspace, Key: key,
		Message: fmt.Sprintf(format, args...)})
}

// checkMeta reads the entries of the keyspace meta.
func (v *verifier) checkMeta() {
	_, err := v.View.Meta()
	v.fail(err)
}

// checkRemoved reads the removed IDs.
func (v *verifier) checkRemoved() {
	for epoch := range v.View.Epochs() {
		for id := range values(v, v.View.RemovedIn(epoch)) {
			v.removed.Add(id)
			if id >= v.Counters.NextID {
				v.problem(Unexpected, "removed", fmt.Sprintf("%016x", id),
					"ID %d was removed, and the next ID is %d", id, v.Counters.NextID)
			}
		}
	}
}

// checkDocuments reads the records.
func (v *verifier) checkDocuments() {
	for r := range values(v, v.View.Records(0)) {
		v.recorded.Add(r.ID)
		v.add(&v.records, r.ID, store.Stored(r.Fingerprint, r.Scope))
		if r.Key != "" {
			v.add(&v.recordKeys, store.KeyHash(r.Key), r.ID)
		}
		switch {
		case r.ID >= v.Counters.NextID:
			v.problem(Unexpected, "document", documentKey(r.ID),
				"document %d has a record, and the next ID is %d", r.ID, v.Counters.NextID)
		case v.removed.Contains(r.ID):
			v.problem(Unexpected, "document", documentKey(r.ID),
				"document %d was removed, and has a record", r.ID)
		}
	}
}

// checkKeys compares the entries of the keys with the records.
func (v *verifier) checkKeys() {
	var found tally
	for k := range values(v, v.View.Keys()) {
		v.add(&found, k.Hash, k.ID)
	}
	v.compare("key", found, v.recordKeys, "the keys and the records differ")
}

// checkEntries compares the IDs in table 0 with the records and the counters.
func (v *verifier) checkEntries() {
	var found tally
	documents, bare := uint64(0), uint64(0)
	for p := range values(v, v.View.Entries(0)) {
		key := fmt.Sprintf("%x%04x%016x", 't', 0, p.Stored)
		for id := range p.IDs.All() {
			if id >= v.Counters.NextID {
				v.problem(Unexpected, "tables", key, "the entry has ID %d, and the next ID is %d",
					id, v.Counters.NextID)
				continue
			}
			first := v.entered.CheckedAdd(id)
			if !first {
				v.problem(Unexpected, "tables", key,
					"the entry has ID %d, and another fingerprint has it as well", id)
			}
			switch {
			case v.recorded.Contains(id):
				v.add(&found, id, p.Stored)
				if first {
					documents++
				}
			case first && !v.removed.Contains(id):
				bare++
			}
		}
	}
	if documents += bare; documents != v.Counters.Documents || bare != v.Counters.Bare {
		v.problem(Miscounted, "meta", "",
			"there are %d documents, %d of them without a record; the counters say %d and %d",
			documents, bare, v.Counters.Documents, v.Counters.Bare)
	}
	for _, ids := range []struct {
		of   *roaring64.Bitmap
		what string
	}{{v.recorded, "has a record"}, {v.removed, "was removed"}} {
		for it := roaring64.AndNot(ids.of, v.entered).Iterator(); it.HasNext() && v.failed == nil; {
			id := it.Next()
			v.problem(Missing, "tables", documentKey(id),
				"document %d %s, and is not in table 0", id, ids.what)
		}
	}
	v.compare("tables", found, v.records, "the fingerprints of table 0 and of the records differ")
}

// checkTables compares the entries of each table with the entries of table 0, in the packed tables
// and in each epoch.
func (v *verifier) checkTables() {
	if v.View.Generation() > 0 {
		v.compareTables("packed", v.View.Packed)
	}
	for epoch := range v.View.Epochs() {
		v.compareTables(
			"live", func(table int) iter.Seq2[uint64, error] { return v.View.Live(epoch, table) })
	}
}

func (v *verifier) compareTables(
	keyspace string, entries func(table int) iter.Seq2[uint64, error],
) {
	var first tally
	for i := range v.Plan.Tables {
		table, found, previous := &v.Plan.Tables[i], tally{}, uint64(0)
		for permuted := range values(v, entries(i)) {
			if found.n == 0 || permuted != previous { // table 0 has an entry per document
				v.add(&found, table.Invert(permuted), 0)
			}
			previous = permuted
		}
		if i == 0 {
			first = found
		}
		v.compare(keyspace, found, first, "table %d and table 0 differ", i)
	}
}

// documentKey returns the key of a record, as docs/format.md describes it.
func documentKey(id uint64) string { return fmt.Sprintf("%x%016x", 'd', id) }
