package compaction_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
)

// diskBytes adds up the files of an index.
func diskBytes(t *testing.T, fsys vfs.FS) (bytes uint64) {
	t.Helper()
	names, err := fsys.List("ix")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := fsys.Stat(fsys.PathJoin("ix", name))
		if err != nil {
			t.Fatal(err)
		}
		bytes += uint64(info.Size())
	}
	return bytes
}

// TestReportsAreTrue compares what a load and compactions, some of them with nothing to
// do, say of the index with what there is. All fingerprints are distinct, so entries are
// documents.
func TestReportsAreTrue(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 1))
	h := newHistory(vfs.NewMem())
	entries := 0
	check := func(what string, do func() (compaction.Report, error)) {
		t.Helper()
		before := uint64(0)
		if !h.newest().none {
			before = diskBytes(t, h.fs)
		}
		r, err := do()
		if err != nil {
			t.Fatal(err)
		}
		after := diskBytes(t, h.fs)
		x, err := index.Open("ix", &index.Options{FS: h.fs, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		stats := x.Stats()
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if before > 0 && r.Loaded == 0 && r.BytesBefore != before || r.BytesAfter != after || r.Documents != stats.Documents || r.Plan != stats.Plan || len(r.Tables) != stats.Tables {
			t.Errorf("%s: %+v, of %d bytes before, %d after; and the index says %+v", what, r, before, after, stats)
		}
		tables := uint64(0)
		for i, table := range r.Tables {
			if table.EntriesBefore != uint64(entries) || table.EntriesAfter != stats.Documents {
				t.Errorf("%s: table %d: %+v, not %d entries before, %d after", what, i, table, entries, stats.Documents)
			}
			// Entropy is the least, and there are no postings in a table from 1 on.
			if least := stats.Documents * 6; table.BytesAfter < least || i > 0 && table.BytesAfter > least*3/2 {
				t.Errorf("%s: table %d: %+v", what, i, table)
			}
			if table.FilterBytes == 0 {
				t.Errorf("%s: table %d has no filter: %+v", what, i, table)
			}
			tables += table.BytesAfter + table.FilterBytes
		}
		if tables > r.BytesAfter {
			t.Errorf("%s: tables of %d bytes in %d", what, tables, r.BytesAfter)
		}
		entries = int(stats.Documents)
		h.states[0].none = false
	}
	run := func(p *plan.Plan) func() (compaction.Report, error) {
		return func() (compaction.Report, error) {
			return compaction.Run(t.Context(), "ix", compaction.Options{FS: h.fs, Plan: p})
		}
	}
	load := func(n int) func() (compaction.Report, error) {
		return func() (compaction.Report, error) {
			return compaction.Load(t.Context(), "ix", seqOf(bare(testgen.Uniform(rng, n)), nil), compaction.LoadOptions{Index: index.Options{FS: h.fs}})
		}
	}
	check("first load", load(5000))
	check("nothing to do", run(nil))
	check("nothing to load", load(0))
	x, err := index.Open("ix", &index.Options{FS: h.fs, Durability: index.NoSync})
	if err == nil {
		err = x.Add(t.Context(), bare(testgen.Uniform(rng, 1000))...)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	entries += 1000
	check("compaction", run(nil))
	another, err := plan.Named("2", 5)
	if err != nil {
		t.Fatal(err)
	}
	check("another plan", run(another))
	check("second load", load(500))
}

// TestRunGivesSpaceBack: of what was deleted, as far as it has reached tables on disk.
func TestRunGivesSpaceBack(t *testing.T) {
	n := number(3000, 20_000, 20_000, 20_000)
	docs := bare(testgen.Uniform(rand.New(rand.NewPCG(1, 2)), n))
	var gone []string
	for i := range docs {
		docs[i].Key = fmt.Sprint("http://a.example/", i)
		if i%10 != 0 {
			gone = append(gone, docs[i].Key)
		}
	}
	h := newHistory(vfs.NewMem())
	opts := index.Options{Durability: index.NoSync}
	h.session(t, opts, step{what: "add", docs: docs})
	h.session(t, opts, step{what: "delete", keys: gone})
	before := diskBytes(t, h.fs)
	h.must(t, step{what: "compact"})
	if after := diskBytes(t, h.fs); after > before/3 {
		t.Errorf("%d bytes of %d: nine in ten of the documents were deleted", after, before)
	}
	h.session(t, opts, step{what: "query", method: oneByOne, k: 3, docs: docs[:2000]})
}
