package compaction_test

import (
	"context"
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
		if info.IsDir() {
			t.Errorf("folder %s is left", name)
		}
		bytes += uint64(info.Size())
	}
	return bytes
}

// TestReportsAreTrue compares what a load and compactions, some of them with nothing to
// do, say of the index with what there is.
func TestReportsAreTrue(t *testing.T) {
	ctx, fsys := context.Background(), vfs.NewMem()
	rng := rand.New(rand.NewPCG(testseed.Of(t), 1))
	opts := index.Options{FS: fsys, Durability: index.NoSync}
	var fps []uint64 // all distinct, so entries are documents
	check := func(what string, before uint64, entriesBefore int, do func() (compaction.Report, error)) uint64 {
		t.Helper()
		r, err := do()
		if err != nil {
			t.Fatal(err)
		}
		after := diskBytes(t, fsys)
		if before > 0 && r.BytesBefore != before || r.BytesAfter != after || r.Documents != uint64(len(fps)) {
			t.Errorf("%s: %+v, of %d bytes before, %d after, %d documents", what, r, before, after, len(fps))
		}
		x := openIndex(t, "ix", opts)
		stats := x.Stats()
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if r.Plan != stats.Plan || len(r.Tables) != stats.Tables {
			t.Errorf("%s: %+v, and the index says %+v", what, r, stats)
		}
		tables := uint64(0)
		for i, table := range r.Tables {
			if table.EntriesBefore != uint64(entriesBefore) || table.EntriesAfter != uint64(len(fps)) {
				t.Errorf("%s: table %d: %+v, not %d entries before, %d after", what, i, table, entriesBefore, len(fps))
			}
			// Entropy is the least, and there are no postings in a table from 1 on.
			if least := uint64(len(fps)) * 6; table.BytesAfter < least || i > 0 && table.BytesAfter > least*3/2 {
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
		return diskBytes(t, fsys)
	}
	add := func(n int) {
		t.Helper()
		x := openIndex(t, "ix", opts)
		more := testgen.Uniform(rng, n)
		for d := range manyBare(more).all() {
			if err := x.Add(ctx, d); err != nil {
				t.Fatal(err)
			}
		}
		fps = append(fps, more...)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	run := func() (compaction.Report, error) { return compaction.Run(ctx, "ix", compaction.Options{FS: fsys}) }
	load := func(fps []uint64) func() (compaction.Report, error) {
		return func() (compaction.Report, error) {
			return compaction.Load(ctx, "ix", manyBare(fps).all(), compaction.LoadOptions{Index: opts})
		}
	}

	fps = testgen.Uniform(rng, 5000)
	before := check("first load", 0, 0, load(fps))
	check("nothing to do", before, 5000, run)
	check("nothing to load", 0, 5000, load(nil))
	add(1000)
	before = check("compaction", diskBytes(t, fsys), 6000, run)
	plan, err := plan.Named("2", 5)
	if err != nil {
		t.Fatal(err)
	}
	check("another plan", before, 6000, func() (compaction.Report, error) {
		return compaction.Run(ctx, "ix", compaction.Options{FS: fsys, Plan: plan})
	})
	more := testgen.Uniform(rng, 500)
	fps = append(fps, more...)
	check("second load", 0, 6000, load(more))
}

// TestLoadChoosesThePlan: that of a new index is for what is loaded, within the limits;
// one that was asked for stays.
func TestLoadChoosesThePlan(t *testing.T) {
	ctx := context.Background()
	design4, err := plan.Named("4", 3)
	if err != nil {
		t.Fatal(err)
	}
	design3, err := plan.Named("3", 3)
	if err != nil {
		t.Fatal(err)
	}
	chosen := func(k int, n int64, limits plan.Limits) string {
		c, err := plan.Choose(k, n, limits, plan.Costs{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Plan.String()
	}
	one := plan.Limits{Tables: 1}
	for _, c := range []struct {
		name string
		made *index.Options // before
		load index.Options
		want string
	}{
		{"new", nil, index.Options{}, chosen(3, 1000, plan.Limits{})},
		{"new, another k", nil, index.Options{MaxDistance: 6}, chosen(6, 1000, plan.Limits{})},
		{"new, within limits", nil, index.Options{Limits: one}, chosen(3, 1000, one)},
		{"new, more to come", nil, index.Options{ExpectedDocuments: 1e10}, chosen(3, 1e10, plan.Limits{})},
		{"new, with a plan", nil, index.Options{Plan: design4}, design4.String()},
		{"made, and empty", &index.Options{MaxDistance: 6}, index.Options{}, chosen(6, 1000, plan.Limits{})},
		{"made with design 4", &index.Options{Plan: design4}, index.Options{}, design4.String()},
		{"made with design 3", &index.Options{Plan: design3}, index.Options{}, design3.String()},
		{"made for more to come", &index.Options{MaxDistance: 8, ExpectedDocuments: 1e11}, index.Options{}, chosen(8, 1e11, plan.Limits{})},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			if c.made != nil {
				c.made.FS = fsys
				if err := openIndex(t, "ix", *c.made).Close(); err != nil {
					t.Fatal(err)
				}
			}
			c.load.FS = fsys
			rng := rand.New(rand.NewPCG(1, 1))
			r, err := compaction.Load(ctx, "ix", manyBare(testgen.Uniform(rng, 1000)).all(), compaction.LoadOptions{Index: c.load})
			if err != nil || r.Plan != c.want {
				t.Errorf("%v: plan %s, not %s", err, r.Plan, c.want)
			}
		})
	}
}
