package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/process"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/store"
)

// TestOpenWithOtherOptions tests that an index cannot be opened with another k, plan or analyzer.
// The error must name both.
func TestOpenWithOtherOptions(t *testing.T) {
	fs := vfs.NewMem()
	made := Options{FS: fs, MaxDistance: 5, Plan: mustPlan(t, "4", 5), Analyzer: "words 1"}
	x := openMem(t, made)
	must(t, x.Add(context.Background(), Document{Fingerprint: 1}))
	must(t, x.Close())
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
		for _, mode := range []string{"", "existing", "read only"} {
			opts := c.opts
			opts.FS, opts.MustExist, opts.ReadOnly = fs, mode == "existing", mode == "read only"
			x, err := Open("index", &opts)
			if !errors.Is(err, ErrMismatch) {
				t.Errorf("%+v: %v", opts, err)
				if err == nil {
					x.Close()
				}
				continue
			}
			for _, part := range append(c.says, "index") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		}
	}
	for _, opts := range []Options{{}, {MaxDistance: 5}, {Plan: made.Plan}, {Analyzer: "words 1"},
		{ReadOnly: true}, {MustExist: true, ExpectedDocuments: 1 << 40}, made} {
		opts.FS = fs
		x, err := Open("index", &opts)
		if err != nil {
			t.Errorf("%+v: %v", opts, err)
			continue
		}
		if s := x.Stats(); s.MaxDistance != 5 || s.Plan != made.Plan.String() ||
			s.Analyzer != "words 1" || s.Documents != 1 || s.Tables != 6 || s.Probes != 6 ||
			s.Format != store.Format {
			t.Errorf("%+v", s)
		}
		must(t, x.Close())
	}
}

func TestOpenDefaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "index")
	x, err := Open(dir, nil)
	must(t, err)
	choice, err := plan.Choose(3, 1_000_000)
	must(t, err)
	want := choice.Plan.String()
	if s := x.Stats(); s.MaxDistance != 3 || s.Plan != want || s.NextID != 1 || s.Documents != 0 {
		t.Errorf("%+v", s)
	}
	if x.Plan().String() != want {
		t.Errorf("plan %v", x.Plan())
	}
	if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), `"neardup serve" shares an index`) {
		t.Errorf("second Open: %v", err)
	}
	must(t, x.Close())
	if _, err := Open(dir+"2", &Options{MustExist: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("MustExist: %v", err)
	}
	if _, err := Open(dir+"2", &Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadOnly: %v", err)
	}
	if _, err := Open(filepath.Dir(dir), nil); !errors.Is(err, ErrNotIndex) {
		t.Errorf("parent folder: %v", err)
	}
	exact := openMem(t, Options{MaxDistance: Exact})
	if s := exact.Stats(); s.MaxDistance != 0 || s.Tables != 1 {
		t.Errorf("exact: %+v", s)
	}
	for _, opts := range []Options{{MaxDistance: -2}, {MaxDistance: 17},
		{MaxDistance: 3, Plan: mustPlan(t, "4", 4)}, {Plan: &plan.Plan{MaxDistance: 1}}} {
		opts.FS = vfs.NewMem()
		if _, err := Open("index", &opts); !errors.Is(err, ErrPlan) {
			t.Errorf("%+v: %v", opts, err)
		}
		if _, err := opts.FS.Stat("index"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v made something: %v", opts, err)
		}
	}
}

// TestOptionsAreChecked tests that an invalid value is refused by its name, before anything is
// created.
func TestOptionsAreChecked(t *testing.T) {
	for name, opts := range map[string]Options{
		"ExpectedDocuments is -1": {ExpectedDocuments: -1},
		"CacheBytes is -1":        {CacheBytes: -1},
		"Durability is 77":        {Durability: 77},
		"Durability is -1":        {Durability: -1},
		"it is 0.5":               {MaxLengthRatio: .5},
	} {
		opts.FS = vfs.NewMem()
		if _, err := Open("index", &opts); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := opts.FS.Stat("index"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it made something: %v", name, err)
		}
	}
	if _, err := Open("", nil); err == nil ||
		!strings.Contains(err.Error(), "the name of its directory is empty") {
		t.Errorf("no name: %v", err)
	}
}

// TestLargestCaches tests that an index works with any CacheBytes. Its cache of Shingles must not
// exceed the memory of a machine.
func TestLargestCaches(t *testing.T) {
	ctx := context.Background()
	for _, bytes := range []int64{1_000_000 << 20, 1 << 62, math.MaxInt64} {
		x := openMem(t, Options{CacheBytes: bytes})
		if n := int64(
			len(x.shingles.slots)) * shingleSlotBytes; n > process.Memory()/shingleShare ||
			n > 1<<30 || n == 0 {
			t.Errorf("CacheBytes %d: %d bytes for Shingles", bytes, n)
		}
		must(t, x.Add(ctx, Document{Key: "a", Fingerprint: 1,
			Shingles: fingerprint.ShingleSignature{2}, Tokens: 300}))
		if found, err := x.Query(ctx,
			Query{Signature: fingerprint.Signature{Fingerprint: 3}}); err != nil ||
			len(found) != 1 {
			t.Errorf("CacheBytes %d: %v, %v", bytes, found, err)
		}
		must(t, x.Close())
	}
}

// TestPlanInPiecesOpensAgain tests that adjacent ranges of bits are recorded as one.
func TestPlanInPiecesOpensAgain(t *testing.T) {
	opts := Options{FS: vfs.NewMem(), Plan: &plan.Plan{MaxDistance: 1, Tables: []plan.Table{
		{Permutation: plan.Permutation{{First: 0, Last: 31}, {First: 32, Last: 63}}, Prefix: 32},
		{Permutation: plan.Permutation{{First: 32, Last: 47}, {First: 48, Last: 63},
			{First: 0, Last: 31}}, Prefix: 32},
	}}}
	for range 2 {
		x, err := Open("index", &opts)
		must(t, err)
		must(t, x.Close())
	}
}

// TestAnalyzerOfEmptyIndex tests that an index without an analyzer and without documents takes
// the first analyzer it is opened with. An Open that fails must not set it.
func TestAnalyzerOfEmptyIndex(t *testing.T) {
	fs := vfs.NewMem()
	open := func(opts Options) error {
		opts.FS = fs
		x, err := Open("index", &opts)
		if err != nil {
			return err
		}
		return x.Close()
	}
	must(t, open(Options{}))
	if err := open(Options{Analyzer: "a", ReadOnly: true}); !errors.Is(err, ErrMismatch) {
		t.Errorf("to read: %v", err)
	}
	if err := open(Options{Analyzer: "a", MaxDistance: 7}); !errors.Is(err, ErrMismatch) {
		t.Errorf("another k: %v", err)
	}
	if err := open(Options{Analyzer: "b"}); err != nil {
		t.Errorf("after an Open that failed: %v", err)
	}
	if err := open(Options{Analyzer: "a"}); !errors.Is(err, ErrMismatch) {
		t.Errorf("another analyzer: %v", err)
	}
	fs = vfs.NewMem()
	x := openMem(t, Options{FS: fs})
	must(t, x.Add(context.Background(), Document{}))
	must(t, x.Close())
	if err := open(Options{Analyzer: "a"}); !errors.Is(err, ErrMismatch) {
		t.Errorf("an index with documents of unknown analyzer: %v", err)
	}
}

// TestTooLarge tests that a batch of a gigabyte is refused and that no part of it is stored.
func TestTooLarge(t *testing.T) {
	x := openMem(t, Options{Durability: NoSync})
	d := Document{Key: strings.Repeat("k", match.MaxKeyBytes),
		Scope: strings.Repeat("s", match.MaxScopeBytes)}
	if err := x.Add(t.Context(), slices.Repeat([]Document{d}, 9000)...); !errors.Is(err,
		ErrTooLarge) || len(err.Error()) > 300 {
		t.Errorf("%.300v", err)
	}
	if n := x.Stats().NextID; n != 1 {
		t.Errorf("the next ID is %d", n)
	}
}

func TestQueryOptionsAreChecked(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{MaxDistance: 2})
	for _, k := range []int{-2, 3, 64} {
		if _, err := x.Query(ctx, Query{MaxDistance: k}); !errors.Is(err, ErrDistance) {
			t.Errorf("k = %d: %v", k, err)
		}
		for _, err := range x.QueryBatch(ctx, []Query{{}, {MaxDistance: k}}) {
			if !errors.Is(err, ErrDistance) {
				t.Errorf("batch, k = %d: %v", k, err)
			}
		}
	}
	if _, err := x.Query(ctx, Query{Limit: -1}); err == nil {
		t.Error("a limit of -1 passes")
	}
}

// TestMemoryOfEmptyIndex opens an empty index with default options in a separate process, and
// measures the growth of its resident memory.
func TestMemoryOfEmptyIndex(t *testing.T) {
	const variable, most = "NEARDUP_TEST_MEMORY_OF", 32 << 20
	if runtime.GOOS != "linux" {
		t.Skip("resident memory is read from /proc")
	}
	if testenv.Race {
		t.Skip("the race detector takes memory of its own")
	}
	if dir := os.Getenv(variable); dir != "" {
		before := residentBytes(t)
		x, err := Open(dir, nil)
		must(t, err)
		defer x.Close()
		fmt.Println(residentBytes(t), before)
		return
	}
	dir := t.TempDir()
	for _, what := range []string{"new", "existing"} {
		child := exec.Command(os.Args[0], "-test.run=^TestMemoryOfEmptyIndex$")
		child.Env = append(os.Environ(), variable+"="+dir)
		out, err := child.CombinedOutput()
		var after, before int
		if _, scanErr := fmt.Fscan(bytes.NewReader(out), &after, &before); err != nil ||
			scanErr != nil {
			t.Fatalf("%v, %v: %s", err, scanErr, out)
		}
		t.Logf("%s: %.1f MiB in all, of which the open index %.1f", what, float64(after)/(1<<20),
			float64(after-before)/(1<<20))
		if after > most {
			t.Errorf("a process with an open empty index (%s) takes %d bytes", what, after)
		}
	}
}

func residentBytes(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	var size, resident int
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * os.Getpagesize()
}

// TestParsePlan parses designs by name, and plans in the form of Stats.Plan. Another k must be
// refused.
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
