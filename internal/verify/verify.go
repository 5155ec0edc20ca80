// Package verify checks an index: whether all that belongs together is there, and nothing
// else, and whether every byte of it can be read.
//
// It reports every difference between entries that it can read, and stops at the first file or entry
// that it cannot read. It looks at one moment, while reads and writes go on. It compares
//
//   - the checksums of every block of every file;
//   - every entry with docs/format.md, every packed block with what it decodes to, with its
//     neighbours and with the directory;
//   - the entries of every table, live and packed, with those of table 0, both ways;
//   - the posting of every fingerprint with the records of its documents, both ways;
//   - the entry of every key with the records, both ways;
//   - counters, clock, plan and packed in meta with what is there;
//   - every filter, saved and in memory, with what is stored: it must not say no to that.
//
// Sets that should be equal are compared by a tally of each 256th of them, so nothing needs
// to be sorted, and where all is well everything is read once, the files a second time. Only
// the 256ths that differ (but for a chance of 2^-64) are read again, and sorted in memory.
package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// Options of index.Index.Verify. The zero value is ready to use.
type Options struct {
	// MemoryBytes bounds the memory for sorting where two parts of the index differ; the
	// less, the more often they are read again. It is at least that for a 256th of a table,
	// 32 bytes an entry. 0: 256 MiB.
	MemoryBytes int64

	// Progress, if set, is called now and then with what is being read, and with how
	// many entries were read of it.
	Progress func(stage string, done uint64)
}

const defaultMemory = 256 << 20

// Source is an index at one moment.
type Source struct {
	Store    *store.Store
	View     *store.View
	Counters store.Counters // that the index works with
	Plan     *plan.Plan
	Packed   *filter.Set   // that queries use
	Live     []*filter.Set // that they use, by epoch
	Keys     *filter.Set   // that writes use; nil: there are none
}

// Run reports every problem, in no particular order, until report returns false, and up to the first
// file or entry that cannot be read. An error is that of ctx or of the store: the rest was not
// looked at.
func Run(ctx context.Context, source Source, o Options, report func(Problem) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &verifier{
		Source: source, ctx: ctx, options: o,
		recorded: roaring64.New(), posted: roaring64.New(),
	}
	seeds := newSeeds()
	for _, t := range []*tally{&v.records, &v.recordKeys, &v.live, &v.packed} {
		t.seeds = seeds
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
		{"documents", "document", v.checkDocuments},
		{"keys", "key", v.checkKeys},
		{"postings", "table", v.checkPostings},
		{"tables", "table", v.checkTables},
		{"filters", "filter", v.checkKeyFilters},
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

// verifier is a Run under way.
type verifier struct {
	Source
	ctx     context.Context
	options Options
	report  func(Problem)

	failed error // why nothing more is read
	stage  string
	done   uint64

	meta       store.Meta
	firstClock uint64            // the first ID that the clock knows; 0: none
	recorded   *roaring64.Bitmap // documents with a record
	posted     *roaring64.Bitmap // documents in a posting
	bare       uint64            // documents in a posting without a record
	records    tally             // (ID, stored fingerprint) of the records
	recordKeys tally             // (hash of the key, ID) of the records
	live       tally             // fingerprints of table 0 that have live entries in all tables
	packed     tally             // and those that have packed ones
}

// values yields what a scan does. An error ends it and the Run.
func values[T any](v *verifier, entries iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for entry, err := range entries {
			if err == nil && v.done%1024 == 0 {
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
	v.report(Problem{Kind: kind, Keyspace: keyspace, Key: key, Message: fmt.Sprintf(format, args...)})
}

// checkMeta checks meta and the clock.
func (v *verifier) checkMeta() {
	var err error
	if v.meta, err = v.View.Meta(); err != nil {
		v.fail(err)
		return
	}
	if h := v.meta.Header; h != nil && h.Plan != v.Plan.String() {
		v.problem(Malformed, "meta", "", "plan %q, and the index works with %q", h.Plan, v.Plan)
	}
	if c := v.meta.Counters; c != nil && *c != v.Counters {
		v.problem(Miscounted, "meta", "", "counters %+v, and the index works with %+v", *c, v.Counters)
	}
	if n := len(v.meta.Packed); n != 0 && n != len(v.Plan.Tables) {
		v.problem(Malformed, "meta", "", "%d packed tables, and %d in the plan", n, len(v.Plan.Tables))
	}
	if v.meta.NextID > v.Counters.NextID {
		v.problem(Miscounted, "meta", "", "packed when the next ID was %d, and that is %d", v.meta.NextID, v.Counters.NextID)
	}
	if works := v.View.Generation(); v.meta.Generation != works {
		v.problem(Malformed, "meta", "", "generation %d, and the index works with %d", v.meta.Generation, works)
	}
	any := false
	for c := range values(v, v.View.Clock(0)) {
		if c.Seconds > math.MaxInt64 {
			v.problem(Malformed, "clock", clockKey(c.First), "second %d", c.Seconds)
		}
		if c.First == 0 || c.First > v.Counters.NextID { // the next document may overwrite it
			v.problem(Malformed, "clock", clockKey(c.First), "an entry for ID %d, and the next ID is %d", c.First, v.Counters.NextID)
		}
		if !any {
			any, v.firstClock = true, c.First
		}
	}
}
