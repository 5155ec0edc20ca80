// Package verify checks that everything in an index can be read, and that its parts agree.
//
// It reads one snapshot, while other calls read and write. It compares
//
//   - the checksum of every block of every file;
//   - the entries of table 0 with the records: each ID has one entry, and is removed, or has a record with
//     that fingerprint, or has no record and is counted as such;
//   - the entries of the other tables with the entries of table 0, in each epoch and in the packed tables;
//   - the entries of the keys with the records;
//   - the counts of duplicates with the IDs in table 0;
//   - counters, plan and packed tables in meta with the entries;
//   - all keys with the keyspaces, tables and epochs that the index has;
//   - every filter, saved and in memory, with the stored entries: a filter must not miss a stored entry.
//
// Sets that should be equal are compared by tallies of 256 parts, so nothing is sorted, and if
// everything agrees, all is read once, the files twice. Only parts that differ (or are equal with
// probability 2^-64) are read again and sorted in memory. The first entry or file that cannot be
// read ends the check.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// Options of index.Index.Verify. The zero value is ready to use.
type Options struct {
	// Progress, if set, is called from time to time with the name of the stage, and how many
	// entries, or bytes of files, the stage has read.
	Progress func(stage string, done uint64)
}

// Source is a snapshot of an index.
type Source struct {
	Store    *store.Store
	View     *store.View
	Meta     store.Meta     // of the store in memory
	Counters store.Counters // of the index in memory
	Plan     *plan.Plan
	Packed   *filter.Set   // filters of the packed tables
	Live     []*filter.Set // filters of the live entries, by epoch
	Keys     *filter.Set   // filter of the keys; nil: none
}

// Run reports every problem, in no particular order, until report returns false. It returns an
// error of ctx or of the store. After an error the rest is not checked.
func Run(ctx context.Context, source Source, o Options, report func(Problem) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &verifier{Source: source, ctx: ctx, options: o, recorded: roaring64.New(), entered: roaring64.New()}
	v.report = func(p Problem) {
		if v.failed == nil && !report(p) {
			v.failed = context.Canceled
			cancel()
		}
	}
	seeds := newSeeds()
	v.records.seeds, v.recordKeys.seeds = seeds, seeds
	for _, stage := range []struct {
		name, keyspace string
		run            func()
	}{
		{"files", "file", func() { v.fail(v.Store.CheckFiles(ctx, v.tell)) }},
		{"meta", "meta", v.checkMeta},
		{"removed", "removed", v.checkRemoved},
		{"documents", "document", v.checkDocuments},
		{"keys", "key", v.checkKeys},
		{"directories", "directory", v.checkDirectories},
		{"entries", "tables", v.checkEntries},
		{"tables", "tables", v.checkTables},
		{"duplicates", "duplicates", v.checkDuplicates},
	} {
		v.stage, v.done = stage.name, 0
		v.tell(0)
		stage.run()
		v.fail(ctx.Err())
		if errors.Is(v.failed, fault.ErrCorrupt) {
			report(Problem{Kind: Unreadable, Keyspace: stage.keyspace, Message: v.failed.Error(), Err: v.failed})
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
	failed  error // why nothing more is read
	stage   string
	done    uint64

	meta       store.Meta
	removed    *roaring64.Bitmap
	recorded   *roaring64.Bitmap // IDs with a record
	entered    *roaring64.Bitmap // IDs in table 0
	records    tally             // (ID, stored fingerprint) of the records
	recordKeys tally             // (hash of the key, ID) of the records
}

// values yields the entries of a scan. An error ends the scan and the Run.
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
	v.report(Problem{Kind: kind, Keyspace: keyspace, Key: key, Message: fmt.Sprintf(format, args...)})
}

// checkMeta compares meta with the state in memory, and looks for keys that no reader looks at.
func (v *verifier) checkMeta() {
	var err error
	if v.meta, err = v.View.Meta(); err != nil {
		v.fail(err)
		return
	}
	if p := v.meta.Header.Plan; p != v.Plan.String() {
		v.problem(Malformed, "meta", "", "plan %q, and the index works with %q", p, v.Plan)
	}
	if *v.meta.Counters != v.Counters {
		v.problem(Miscounted, "meta", "", "counters %+v, and the index works with %+v", *v.meta.Counters, v.Counters)
	}
	type packed struct {
		Generation, NextID uint64
		Tables             []store.PackedTableInfo
	}
	stored, working := packed{v.meta.Generation, v.meta.NextID, v.meta.Packed}, packed{v.Meta.Generation, v.Meta.NextID, v.Meta.Packed}
	if !reflect.DeepEqual(stored, working) {
		v.problem(Malformed, "meta", "", "packed %+v, and the index works with %+v", stored, working)
	}
	first, last := v.meta.Epochs()
	if f, l := v.Meta.Epochs(); f != first || l != last {
		v.problem(Malformed, "meta", "", "epochs %d to %d, and the index works with %d to %d", first, last, f, l)
	}
	if a := v.Meta.Header.Analyzer; a != v.meta.Header.Analyzer {
		v.problem(Malformed, "meta", "", "analyzer %q, and the index works with %q", v.meta.Header.Analyzer, a)
	}
	if v.meta.NextID > v.Counters.NextID {
		v.problem(Miscounted, "meta", "", "the tables were packed at next ID %d, and the next ID is %d", v.meta.NextID, v.Counters.NextID)
	}
	for u := range values(v, v.View.Unknown(len(v.Plan.Tables))) {
		keyspace := cmp.Or(u.Keyspace, "unknown")
		v.problem(Unexpected, keyspace, fmt.Sprintf("%x", u.Key), "the key belongs to no keyspace, table, epoch or meta entry of this index")
	}
}

// checkRemoved reads the removed IDs.
func (v *verifier) checkRemoved() {
	v.removed = roaring64.New()
	for epoch := range v.View.Epochs() {
		for id := range values(v, v.View.RemovedIn(epoch)) {
			v.removed.Add(id)
			if id >= v.Counters.NextID {
				v.problem(Unexpected, "removed", fmt.Sprintf("%016x", id), "ID %d was removed, and the next ID is %d", id, v.Counters.NextID)
			}
		}
	}
}

// checkDirectories compares the stored directories with those in memory.
func (v *verifier) checkDirectories() {
	for table := range v.Meta.Packed {
		v.fail(v.View.CheckDirectory(table))
	}
}

// checkDocuments reads the records.
func (v *verifier) checkDocuments() {
	for r := range values(v, v.View.Records(0)) {
		v.recorded.Add(r.ID)
		v.records.add(r.ID, store.Stored(r.Fingerprint, r.Scope))
		if r.Key != "" {
			v.recordKeys.add(store.KeyHash(r.Key), r.ID)
		}
		switch {
		case r.ID >= v.Counters.NextID:
			v.problem(Unexpected, "document", documentKey(r.ID), "document %d has a record, and the next ID is %d", r.ID, v.Counters.NextID)
		case v.removed.Contains(r.ID):
			v.problem(Unexpected, "document", documentKey(r.ID), "document %d was removed, and has a record", r.ID)
		}
	}
}

// checkKeys compares the entries of the keys with the records, and with the filters.
func (v *verifier) checkKeys() {
	saved := v.savedFilter(store.KeyFilterTable, filter.KeyPrefix)
	if v.Keys != nil {
		v.fail(v.Keys.Wait(v.ctx))
	}
	found := tally{seeds: v.recordKeys.seeds}
	var last store.KeyEntry
	var shared []uint64 // IDs of the last hash
	for k := range values(v, v.View.Keys()) {
		found.add(k.Hash, k.ID)
		if v.Keys != nil && !v.Keys.MayContain(k.Hash) {
			v.problem(FalseNegative, "filter", keyKey(k.Hash, k.ID), "the filter of the keys in memory misses this entry")
		}
		if saved != nil && k.ID < v.meta.NextID && !saved.MayContain(k.Hash) {
			v.problem(FalseNegative, "filter", keyKey(k.Hash, k.ID), "the saved filter of the keys misses this entry")
		}
		if k.Hash != last.Hash {
			v.checkShared(shared)
			shared = shared[:0]
		}
		shared, last = append(shared, k.ID), k
	}
	v.checkShared(shared)
	v.compare(&v.recordKeys, &found,
		func(add func(a, b uint64)) {
			for r := range values(v, v.View.Records(0)) {
				if r.Key != "" {
					add(store.KeyHash(r.Key), r.ID)
				}
			}
		},
		func(add func(a, b uint64)) {
			for k := range values(v, v.View.Keys()) {
				add(k.Hash, k.ID)
			}
		},
		func(inRecords bool, hash, id uint64) {
			if inRecords {
				v.problem(Missing, "key", keyKey(hash, id), "document %d has a key with this hash, and there is no entry", id)
			} else {
				v.problem(Unexpected, "key", keyKey(hash, id), "document %d has no key with this hash", id)
			}
		})
}

// checkDuplicates checks that counts are of documents that the index holds.
func (v *verifier) checkDuplicates() {
	for d := range values(v, v.View.AllDuplicates()) {
		if !v.entered.Contains(d.ID) || v.removed.Contains(d.ID) {
			v.problem(Unexpected, "duplicates", fmt.Sprintf("n%016x", d.ID), "there is a count of duplicates of document %d, and no document", d.ID)
		}
	}
}

// checkShared checks that documents whose keys have one hash have different keys.
func (v *verifier) checkShared(ids []uint64) {
	if len(ids) < 2 {
		return
	}
	seen := map[string]uint64{}
	for _, id := range ids {
		r, found, err := v.View.Record(id)
		if v.fail(err); v.failed != nil {
			return
		}
		if other, again := seen[r.Key]; found && again {
			v.problem(Unexpected, "document", documentKey(id), "document %d has the key of document %d", id, other)
		}
		seen[r.Key] = id
	}
}

// checkEntries compares the IDs in table 0 with the records and the counters.
func (v *verifier) checkEntries() {
	found := tally{seeds: v.records.seeds}
	documents, bare := uint64(0), uint64(0)
	for p := range values(v, v.View.Entries(0)) {
		key := tableKey('t', 0, p.Stored)
		for id := range p.IDs.All() {
			if id >= v.Counters.NextID {
				v.problem(Unexpected, "tables", key, "the entry has ID %d, and the next ID is %d", id, v.Counters.NextID)
				continue
			}
			first := v.entered.CheckedAdd(id)
			if !first {
				v.problem(Unexpected, "tables", key, "the entry has ID %d, and another fingerprint has it as well", id)
			}
			switch {
			case v.recorded.Contains(id):
				found.add(id, p.Stored)
				if first {
					documents++
				}
			case first && !v.removed.Contains(id):
				bare++
			}
		}
	}
	if documents += bare; documents != v.Counters.Documents || bare != v.Counters.Bare {
		v.problem(Miscounted, "meta", "", "there are %d documents, %d of them without a record; the counters say %d and %d",
			documents, bare, v.Counters.Documents, v.Counters.Bare)
	}
	for _, ids := range []struct {
		of   *roaring64.Bitmap
		what string
	}{{v.recorded, "has a record"}, {v.removed, "was removed"}} {
		for it := roaring64.AndNot(ids.of, v.entered).Iterator(); it.HasNext() && v.failed == nil; {
			id := it.Next()
			v.problem(Missing, "tables", documentKey(id), "document %d %s, and is not in table 0", id, ids.what)
		}
	}
	v.compare(&v.records, &found,
		func(add func(a, b uint64)) {
			for r := range values(v, v.View.Records(0)) {
				if v.entered.Contains(r.ID) {
					add(r.ID, store.Stored(r.Fingerprint, r.Scope))
				}
			}
		},
		func(add func(a, b uint64)) {
			for p := range values(v, v.View.Entries(0)) {
				for id := range p.IDs.All() {
					if id < v.Counters.NextID && v.recorded.Contains(id) {
						add(id, p.Stored)
					}
				}
			}
		},
		func(inRecords bool, id, stored uint64) {
			if inRecords {
				v.problem(Missing, "tables", tableKey('t', 0, stored), "document %d has this fingerprint, and the entry does not have its ID", id)
			} else {
				v.problem(Unexpected, "tables", tableKey('t', 0, stored), "the entry has ID %d, whose record has another fingerprint", id)
			}
		})
}
