package index

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/process"
	"github.com/neardup/neardup/store"
)

// TestOpenWithOtherOptions tests that an index cannot be opened with another k, plan or analyzer.
// The error must have both values.
func TestOpenWithOtherOptions(t *testing.T) {
	disk := vfs.NewMem()
	made := Options{FS: disk, MaxDistance: 5, Plan: mustPlan(t, "4", 5), Analyzer: "words 1"}
	x := openMem(t, made)
	must(t, x.Add(t.Context(), Document{Fingerprint: 1}), x.Close())
	other := mustPlan(t, "10", 5)
	for _, c := range []struct {
		opts Options
		says []string
	}{
		{Options{MaxDistance: 3}, []string{"k = 5", "not 3"}},
		{Options{MaxDistance: Exact}, []string{"k = 5", "not 0"}},
		{Options{Plan: other}, []string{made.Plan.String(), other.String()}},
		{Options{Analyzer: "words 2"}, []string{`"words 1"`, `"words 2"`}},
	} {
		for _, opts := range []Options{c.opts, {MustExist: true}, {ReadOnly: true}} {
			opts.FS, opts.MaxDistance, opts.Plan, opts.Analyzer = disk, c.opts.MaxDistance,
				c.opts.Plan, c.opts.Analyzer
			_, err := Open("index", &opts)
			if !errors.Is(err, ErrMismatch) || slices.ContainsFunc(append(c.says, "index"),
				func(part string) bool { return !strings.Contains(err.Error(), part) }) {
				t.Errorf("%+v: %v", opts, err)
			}
		}
	}
	for _, opts := range []Options{{}, {MaxDistance: 5}, {Plan: made.Plan}, {Analyzer: "words 1"},
		{ReadOnly: true}, {MustExist: true, ExpectedDocuments: 1 << 40}, made} {
		opts.FS = disk
		x := openMem(t, opts)
		if s := x.Stats(); s.MaxDistance != 5 || s.Plan != made.Plan.String() ||
			s.Analyzer != "words 1" || s.Documents != 1 || s.Tables != 6 || s.Probes != 6 ||
			s.Format != store.Format {
			t.Errorf("%+v", s)
		}
		must(t, x.Close())
	}
}

// TestAnalyzerOfEmptyIndex tests that an index without an analyzer and without documents records
// the first analyzer that it is opened with. An Open that fails must not record an analyzer.
func TestAnalyzerOfEmptyIndex(t *testing.T) {
	disk := vfs.NewMem()
	must(t, openMem(t, Options{FS: disk}).Close())
	refused := func(opts Options) {
		t.Helper()
		opts.FS = disk
		if _, err := Open("index", &opts); !errors.Is(err, ErrMismatch) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	refused(Options{Analyzer: "a", ReadOnly: true})
	refused(Options{Analyzer: "a", MaxDistance: 7})
	must(t, openMem(t, Options{FS: disk, Analyzer: "b"}).Close())
	refused(Options{Analyzer: "a"})

	disk = vfs.NewMem()
	x := openMem(t, Options{FS: disk})
	must(t, x.Add(t.Context(), Document{}), x.Close())
	refused(Options{Analyzer: "a"}) // the analyzer of the document is unknown
}

// TestReopenWithAdjacentRanges tests that an index can be reopened with a plan whose adjacent
// ranges of bits are recorded as one range.
func TestReopenWithAdjacentRanges(t *testing.T) {
	opts := Options{FS: vfs.NewMem(), Plan: &plan.Plan{MaxDistance: 1, Tables: []plan.Table{
		{Permutation: plan.Permutation{{First: 0, Last: 31}, {First: 32, Last: 63}}, Prefix: 32},
		{Permutation: plan.Permutation{{First: 32, Last: 47}, {First: 48, Last: 63},
			{First: 0, Last: 31}}, Prefix: 32},
	}}}
	for range 2 {
		must(t, openMem(t, opts).Close())
	}
}

func TestOpenDefaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "index")
	x := openAt(t, dir, Options{})
	choice, err := plan.Choose(3, 1_000_000)
	must(t, err)
	want := choice.Plan.String()
	if s := x.Stats(); s.MaxDistance != 3 || s.Plan != want || s.NextID != 1 || s.Documents != 0 ||
		x.Plan().String() != want {
		t.Errorf("%+v", s)
	}
	if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), `"neardup serve" shares an index`) {
		t.Errorf("second Open: %v", err)
	}
	must(t, x.Close())
	for _, opts := range []Options{{MustExist: true}, {ReadOnly: true}} {
		if _, err := Open(dir+"2", &opts); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	if _, err := Open(filepath.Dir(dir), nil); !errors.Is(err, ErrNotIndex) {
		t.Errorf("parent directory: %v", err)
	}
	exact := openMem(t, Options{MaxDistance: Exact})
	if s := exact.Stats(); s.MaxDistance != 0 || s.Tables != 1 {
		t.Errorf("exact: %+v", s)
	}
}

// TestOptionsAreChecked tests that Open returns an error for an invalid value, and creates nothing.
// The error must be a sentinel error or name the option.
func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		opts Options
		want error
		says string
	}{
		{Options{ExpectedDocuments: -1}, nil, "ExpectedDocuments is -1"},
		{Options{CacheBytes: -1}, nil, "CacheBytes is -1"},
		{Options{Durability: 77}, nil, "Durability is 77"},
		{Options{Durability: -1}, nil, "Durability is -1"},
		{Options{MaxLengthRatio: .5}, match.ErrRatio, "it is 0.5"},
		{Options{MaxLengthRatio: math.NaN()}, match.ErrRatio, ""},
		{Options{MaxDistance: -2}, ErrPlan, ""},
		{Options{MaxDistance: 17}, ErrPlan, ""},
		{Options{MaxDistance: 3, Plan: mustPlan(t, "4", 4)}, ErrPlan, ""},
		{Options{Plan: &plan.Plan{MaxDistance: 1}}, ErrPlan, ""},
	} {
		c.opts.FS = vfs.NewMem()
		_, err := Open("index", &c.opts)
		if err == nil || c.want != nil && !errors.Is(err, c.want) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.opts, err)
		}
		if _, err := c.opts.FS.Stat("index"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: the directory was created: %v", c.opts, err)
		}
	}
	if _, err := Open("", nil); err == nil ||
		!strings.Contains(err.Error(), "the name of the directory is empty") {
		t.Errorf("empty name: %v", err)
	}
}

// TestLimitsAreChecked tests that Query, QueryBatch, Pairs and Clusters return an error for invalid
// limits.
func TestLimitsAreChecked(t *testing.T) {
	x := openMem(t, Options{MaxDistance: 2})
	for q, want := range map[Query]error{{MaxDistance: -2}: ErrDistance,
		{MaxDistance: 3}: ErrDistance, {MaxDistance: 64}: ErrDistance, {Limit: -1}: nil} {
		_, failed := x.Query(t.Context(), q)
		err := lastError(x.QueryBatch(t.Context(), []Query{{}, q}))
		if err == nil || failed == nil || want != nil && !(errors.Is(err, want) &&
			errors.Is(failed, want)) {
			t.Errorf("%+v: Query: %v, QueryBatch: %v", q, failed, err)
		}
	}
	for o, want := range map[JoinOptions]error{{MaxDistance: 65}: ErrDistance,
		{MaxDistance: -2}: ErrDistance, {MaxLengthRatio: 0.5}: match.ErrRatio} {
		pairs, clusters := lastError(x.Pairs(t.Context(), o)), lastError(x.Clusters(t.Context(), o))
		if !errors.Is(pairs, want) || !errors.Is(clusters, want) {
			t.Errorf("%+v: %v, %v", o, pairs, clusters)
		}
	}
}

// TestLargestCaches tests that an index works with any CacheBytes. Its cache of Shingles must not
// exceed the memory of a machine.
func TestLargestCaches(t *testing.T) {
	for _, bytes := range []int64{1_000_000 << 20, 1 << 62, math.MaxInt64} {
		x := openMem(t, Options{CacheBytes: bytes})
		n := int64(len(x.shingles.slots)) * shingleSlotBytes
		if n > process.Memory()/shingleShare || n > 1<<30 || n == 0 {
			t.Errorf("CacheBytes %d: %d bytes for Shingles", bytes, n)
		}
		must(t, x.Add(t.Context(), Document{Key: "a", Fingerprint: 1,
			Shingles: fingerprint.ShingleSignature{2}, Tokens: 300}))
		if found, err := x.Query(t.Context(), nearTo(3)); err != nil || len(found) != 1 {
			t.Errorf("CacheBytes %d: %v, %v", bytes, found, err)
		}
		must(t, x.Close())
	}
}

// TestParsePlan tests designs by name and plans in the form of Stats.Plan. ParsePlan must return an
// error for a plan with another k.
func TestParsePlan(t *testing.T) {
	four := mustPlan(t, "4", 3).String()
	for _, s := range []string{"4", "blocks-4", four} {
		if p, err := ParsePlan(s, 3); err != nil || p.String() != four {
			t.Errorf("%s: %v, %v", s, p, err)
		}
	}
	for _, s := range []string{"", "5", "blocks-5", mustPlan(t, "4", 4).String(), "k=3 0-63/16"} {
		if p, err := ParsePlan(s, 3); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v, %v", s, p, err)
		}
	}
}
