package index

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/neardup/neardup/internal/store"
)

// VerifyOptions of Verify. The zero value is ready to use.
type VerifyOptions struct {
	// MemoryBytes bounds the memory for sorting where two parts of the index differ; the
	// less, the more often they are read again. It is at least that for a 256th of a table,
	// 32 bytes an entry. 0: 256 MiB.
	MemoryBytes int64

	// Progress, if set, is called now and then with what is being read, and with how
	// many entries were read of it.
	Progress func(stage string, done uint64)
}

const defaultVerifyMemory = 256 << 20

// Verify checks all of the index, and yields every problem that it finds, in no
// particular order; nothing if there is none. It compares
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
// It looks at one moment, while reads and writes go on. What is in no file yet but the
// log was checked when the index was opened.
//
// It reads everything once, the files a second time, and keeps 2 bits for every ID in
// use, 8 bytes a packed block, and one saved filter at a time. Sets are compared by
// count and by two 64-bit sums of keyed hashes of each 256th of them, so that nothing needs
// to be sorted. Only where they differ (but for a chance of 2^-64) they are read again,
// and the 256ths that differ are sorted, within MemoryBytes.
//
// If ctx ends, or the store fails, the last Problem is Unchecked with that error. After a
// break nothing more is read.
func (x *Index) Verify(ctx context.Context, opts ...VerifyOptions) iter.Seq[Problem] {
	return func(yield func(Problem) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		v := verifier{x: x, ctx: ctx}
		for _, o := range opts {
			v.opts = o
		}
		v.report = func(p Problem) {
			if !v.stopped && !yield(p) {
				v.stopped = true
				cancel()
			}
		}
		if err := v.run(); err != nil && !v.stopped {
			yield(Problem{Kind: Unchecked, Keyspace: "index", Message: "the rest was not looked at: " + err.Error(), Err: err})
		}
	}
}

// verifier is a Verify under way.
type verifier struct {
	x       *Index
	ctx     context.Context
	opts    VerifyOptions
	report  func(Problem)
	stopped bool

	s        *store.View
	meta     store.Meta
	counters store.Counters // of the same moment
	stage    string
	done     uint64
	seeds    [2]uint64
	again    bool // what is read was read before, so its faults are known

	docs   documentCheck
	tables tableCheck
}

func (v *verifier) run() error {
	if err := v.x.begin(v.ctx); err != nil {
		return err
	}
	defer v.x.end()
	v.seeds = newSeeds()
	view, counters, err := v.x.snapshot()
	if err != nil {
		return err
	}
	defer view.Close()
	v.counters = counters
	fault := func(f store.Corruption) {
		if !v.again {
			v.report(problemOf(f))
		}
	}
	v.s = view.Lenient(v.ctx, fault, func() { v.tell(1) })
	for _, stage := range []struct {
		name string
		run  func() error
	}{
		{"files", func() error { return v.x.store.CheckFiles(v.ctx, fault, v.tell) }},
		{"meta", v.checkMeta},
		{"documents", v.checkDocuments},
		{"keys", v.checkKeys},
		{"postings", v.checkPostings},
		{"tables", v.checkTables},
		{"filters", v.checkFilters},
	} {
		v.stage, v.done = stage.name, 0
		v.tell(0)
		if err := stage.run(); err != nil {
			return err
		}
	}
	return nil
}

// each calls do with what a scan yields, until it returns false.
func each[T any](entries iter.Seq2[T, error], do func(T) bool) error {
	for entry, err := range entries {
		if err != nil {
			return err
		}
		if !do(entry) {
			return nil
		}
	}
	return nil
}

// tellEvery is the number of entries, or bytes, between two calls of Progress.
const tellEvery = 1 << 14

func (v *verifier) tell(n uint64) {
	before := v.done
	v.done += n
	if v.opts.Progress != nil && (n == 0 || before/tellEvery != v.done/tellEvery) {
		v.opts.Progress(v.stage, v.done)
	}
}

func (v *verifier) problem(kind ProblemKind, keyspace, key, format string, args ...any) {
	v.report(Problem{Kind: kind, Keyspace: keyspace, Key: key, Message: fmt.Sprintf(format, args...)})
}

// complete reports whether all of some keyspaces could be read. If not, what a
// comparison would say is of no use: it tells that it was not made.
func (v *verifier) complete(comparison string, keyspaces ...string) bool {
	if v.s.Complete(keyspaces...) {
		return true
	}
	v.problem(Unchecked, keyspaces[0], "", "%s: not compared, as not everything could be read", comparison)
	return false
}

// checkMeta checks meta, the clock, and that there are no entries of other kinds.
func (v *verifier) checkMeta() (err error) {
	if v.meta, err = v.s.Meta(); err != nil {
		return err
	}
	x := v.x
	if h := v.meta.Header; h != nil && h.Plan != x.plan.String() {
		v.problem(Malformed, "meta", "", "plan %q, and the index works with %q", h.Plan, x.plan)
	}
	if c := v.meta.Counters; c != nil && *c != v.counters {
		v.problem(Miscounted, "meta", "", "counters %+v, and the index works with %+v", *c, v.counters)
	}
	if n := len(v.meta.Packed); n != 0 && n != len(x.plan.Tables) {
		v.problem(Malformed, "meta", "", "%d packed tables, and %d in the plan", n, len(x.plan.Tables))
	}
	if v.meta.NextID > v.counters.NextID {
		v.problem(Miscounted, "meta", "", "packed when the next ID was %d, and that is %d", v.meta.NextID, v.counters.NextID)
	}
	if v.meta.Generation != x.store.Generation() {
		v.problem(Malformed, "meta", "", "generation %d, and the index works with %d", v.meta.Generation, x.store.Generation())
	}
	if err := v.s.UnknownKeys(len(x.plan.Tables), v.meta.Generation > 0); err != nil {
		return err
	}
	any := false
	return each(v.s.Clock(), func(c store.ClockEntry) bool {
		first, seconds := c.First, c.Seconds
		if seconds > math.MaxInt64 {
			v.problem(Malformed, "clock", clockKey(first), "second %d", seconds)
		}
		if first == 0 || first > v.counters.NextID { // the next document may overwrite it
			v.problem(Malformed, "clock", clockKey(first), "an entry for ID %d, and the next ID is %d", first, v.counters.NextID)
		}
		if !any {
			v.docs.firstClock = first
		}
		any = true
		return true
	})
}

func clockKey(id uint64) string    { return fmt.Sprintf("%x%016x", 'c', id) }
func documentKey(id uint64) string { return fmt.Sprintf("%x%016x", 'd', id) }
func keyKey(hash uint64) string    { return fmt.Sprintf("%x%016x", 'k', hash) }

func tableKey(keyspace rune, table int, permuted uint64) string {
	return fmt.Sprintf("%x%04x%016x", keyspace, table, permuted)
}

func (v *verifier) memory() int64 {
	if v.opts.MemoryBytes > 0 {
		return v.opts.MemoryBytes
	}
	return defaultVerifyMemory
}
