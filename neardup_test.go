package neardup_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/testing/checktest"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var must = testenv.Must

func TestSuite(t *testing.T) {
	checktest.Run(t, func(t *testing.T) neardup.Checker { return open(t, t.TempDir(), nil) })
}

// TestREADME runs the first snippet of the README. The snippet must save every stored page, also if
// the process died before saving it earlier, and must delete a page that cannot be saved.
func TestREADME(t *testing.T) {
	lines := func(file string) string {
		b, err := os.ReadFile(file)
		must(t, err)
		return strings.ReplaceAll(string(b), "\t", "")
	}
	_, snippet, _ := strings.Cut(lines("README.md"), "```go\n")
	snippet, _, _ = strings.Cut(snippet, "```")
	if !strings.Contains(snippet, ".Check(") ||
		!strings.Contains(lines("example_test.go"), snippet) {
		t.Errorf("not as in example_test.go:\n%s", snippet)
	}
	t.Chdir(t.TempDir())
	for _, s := range checktest.Crawl() {
		if s.Page.Scope != "" {
			continue // the snippet sets no scope
		}
		saved := false
		err := checkAndSave(t.Context(), s.Page.URL, s.Page.ContentType, s.Page.Body,
			func(string, []byte) error {
				saved = true
				return nil
			})
		if want := s.Status != neardup.Duplicate; err != nil || saved != want {
			t.Errorf("%.30s: saved %v, want %v, %v", s.Page.URL, saved, want, err)
		}
	}

	body, full := []byte(checktest.Text("harbour", 100)), errors.New("disk full")
	for range 2 {
		saved := false
		ctx, cancel := context.WithCancel(t.Context())
		if err := checkAndSave(ctx, "harbour", "text/plain", body,
			func(string, []byte) error { cancel(); return full }); !errors.Is(err, full) {
			t.Errorf("a page that cannot be saved: %v", err)
		}
		// A copy at another URL is New, and so is the page itself once it can be saved.
		if err := checkAndSave(t.Context(), "copy", "text/plain", body,
			func(string, []byte) error { saved = true; return full }); !errors.Is(err, full) ||
			!saved {
			t.Errorf("a copy of a page that could not be saved: saved %v, %v", saved, err)
		}
	}
}

func TestNoVerdictWithAnError(t *testing.T) {
	var full atomic.Bool
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	x, err := neardup.Open("pages", &neardup.Options{Index: index.Options{FS: disk}})
	must(t, err)
	ferry, museum := neardup.Page{URL: "ferry", Body: []byte(checktest.Text("ferry", 100))},
		neardup.Page{URL: "museum", Body: []byte(checktest.Text("museum", 100))}
	image := neardup.Page{URL: "image", ContentType: "image/png"}
	if v, err := x.Check(t.Context(), ferry); v.Status != neardup.New || err != nil {
		t.Fatal(v, err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	none := func(what string, ctx context.Context, want error, pages ...neardup.Page) {
		t.Helper()
		for _, p := range pages {
			if v, err := x.Check(ctx, p); v != (neardup.Verdict{}) || v.Status != 0 ||
				!errors.Is(err, want) {
				t.Errorf("%s, %s: %v, %v", what, p.URL, v.Status, err)
			}
		}
		if verdicts, err := x.CheckBatch(ctx, []neardup.Page{image, museum}); len(verdicts) > 0 ||
			!errors.Is(err, want) {
			t.Errorf("%s: %v, %v", what, verdicts, err)
		}
	}
	none("canceled", canceled, context.Canceled, ferry, museum, image)
	full.Store(true)
	if verdicts, err := x.CheckBatch(t.Context(), []neardup.Page{museum, image}); len(
		verdicts) > 0 || err == nil {
		t.Errorf("full disk: %v, %v", verdicts, err)
	}
	none("full disk", t.Context(), index.ErrFailed, museum)
	full.Store(false)
	x.Close() // the index has failed
	none("closed", t.Context(), index.ErrClosed, ferry, museum, image)

	x = open(t, "pages", &neardup.Options{Index: index.Options{FS: disk}})
	for _, p := range []neardup.Page{ferry, museum} {
		v, err := x.Check(t.Context(), p)
		if want := map[string]neardup.Status{"ferry": neardup.Unchanged,
			"museum": neardup.New}[p.URL]; err != nil || v.Status != want {
			t.Errorf("%s, after the disk was full: %v, %v", p.URL, v.Status, err)
		}
	}
}

// TestOpen tests which k and Signer an index gets and records, for new and existing indexes.
func TestOpen(t *testing.T) {
	main, err := page.NewSigner(page.Main,
		fingerprint.Options{Method: fingerprint.MethodSimhash, Window: 2})
	must(t, err)
	dir := t.TempDir()
	for _, c := range []struct {
		what string
		make func(dir string) error
		opts neardup.Options // of the second Open
		k    int
		name string
		want error
	}{
		{"new index", func(string) error { return nil }, neardup.Options{}, 7,
			check.DefaultSigner().Name(), nil},
		{"new index, k = 4", func(string) error { return nil },
			neardup.Options{Index: index.Options{MaxDistance: 4}}, 4,
			check.DefaultSigner().Name(), nil},
		{"no index, MustExist", func(string) error { return nil },
			neardup.Options{Index: index.Options{MustExist: true}}, 0, "", os.ErrNotExist},
		{"index of main texts",
			opening(neardup.Options{Signer: main, Index: index.Options{MaxDistance: index.Exact}}),
			neardup.Options{}, 0, main.Name(), nil},
		{"index of main texts, ReadOnly", opening(neardup.Options{Signer: main}),
			neardup.Options{Index: index.Options{ReadOnly: true}}, 7, main.Name(), nil},
		{"index of visible texts, Signer of main texts", opening(neardup.Options{}),
			neardup.Options{Signer: main}, 7, "", index.ErrMismatch},
		{"empty index without a signer", indexed(&index.Options{}), neardup.Options{}, 3,
			check.DefaultSigner().Name(), nil},
		{"empty index without a signer, Signer of main texts", indexed(&index.Options{}),
			neardup.Options{Signer: main}, 3, main.Name(), nil},
		{"index of fingerprints", indexed(&index.Options{},
			index.Document{Fingerprint: 7}), neardup.Options{}, 3, "", index.ErrMismatch},
		{"index with an unknown signer",
			indexed(&index.Options{Analyzer: "visible/0 words"}), neardup.Options{}, 3, "",
			index.ErrMismatch},
		{"new index, unknown Analyzer", func(string) error { return nil },
			neardup.Options{Index: index.Options{Analyzer: "mine"}}, 0, "", index.ErrMismatch},
		{"new index, Analyzer of main texts", func(string) error { return nil },
			neardup.Options{Index: index.Options{Analyzer: main.Name()}}, 7, main.Name(), nil},
		{"Bare, index of fingerprints", indexed(&index.Options{}, index.Document{Fingerprint: 7}),
			neardup.Options{Bare: true}, 3, "", nil},
		{"Bare, index with an unknown signer", indexed(&index.Options{Analyzer: "visible/0 words"}),
			neardup.Options{Bare: true}, 3, "visible/0 words", nil},
		{"Bare, index of main texts", opening(neardup.Options{Signer: main}),
			neardup.Options{Bare: true}, 7, main.Name(), nil},
		{"Bare, new index", func(string) error { return nil },
			neardup.Options{Bare: true}, 3, "", nil},
		{"index with k = 7, k = 3", opening(neardup.Options{}),
			neardup.Options{Index: index.Options{MaxDistance: 3}}, 7, "", index.ErrMismatch},
	} {
		dir := filepath.Join(dir, c.what)
		if err := c.make(dir); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		x, err := neardup.Open(dir, &c.opts)
		if !errors.Is(err, c.want) || (err == nil) != (x != nil) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if err != nil {
			if _, made := os.Stat(dir); c.k == 0 && !errors.Is(made, os.ErrNotExist) {
				t.Errorf("%s: the index was created in spite of the error", c.what)
			}
			continue
		}
		if s := x.Stats(); s.MaxDistance != c.k || s.Analyzer != c.name || x.Signer() != nil &&
			x.Signer().Name() != c.name {
			t.Errorf("%s: k = %d, %s recorded", c.what, s.MaxDistance, s.Analyzer)
		}
		v, err := x.Check(t.Context(), neardup.Page{Body: []byte("a word")})
		switch known := x.Signer() != nil; {
		case known != !c.opts.Bare && c.name != main.Name():
			t.Errorf("%s: known signer: %v", c.what, known)
		case c.opts.Index.ReadOnly && !errors.Is(err, index.ErrReadOnly), !known &&
			!errors.Is(err, index.ErrMismatch), (err != nil) != (v.Status == 0):
			t.Errorf("%s: %v, %v", c.what, v.Status, err)
		}
		must(t, x.Close())
	}
}

// TestBareChecks tests that concurrent checks of pages by an index with an unknown Signer return
// ErrMismatch and do not change the Index. The race detector would find a change.
func TestBareChecks(t *testing.T) {
	dir := t.TempDir()
	must(t, indexed(&index.Options{Analyzer: "visible/0 words"})(dir))
	x := open(t, dir, &neardup.Options{Bare: true})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			if _, err := x.Check(t.Context(), neardup.Page{Body: []byte("a word")}); !errors.Is(err,
				index.ErrMismatch) || x.Signer() != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
}

// TestOptionsAreChecked tests that an invalid option is refused and that the index is not left
// open.
func TestOptionsAreChecked(t *testing.T) {
	dir := t.TempDir()
	for want, o := range map[string]neardup.Options{
		"MaxBody is -1":           {MaxBody: -1},
		"ExpectedDocuments is -1": {Index: index.Options{ExpectedDocuments: -1}},
		"Every is -1ns":           {Compaction: compaction.Policy{Every: -1}},
	} {
		if x, err := neardup.Open(dir, &o); x != nil || err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	open(t, dir, nil)
}

func opening(o neardup.Options) func(dir string) error {
	return func(dir string) error {
		x, err := neardup.Open(dir, &o)
		if err != nil {
			return err
		}
		return x.Close()
	}
}

func indexed(o *index.Options, docs ...index.Document) func(dir string) error {
	return func(dir string) error {
		x, err := index.Open(dir, o)
		if err != nil {
			return err
		}
		return errors.Join(x.Add(context.Background(), docs...), x.Close())
	}
}

func open(t *testing.T, dir string, o *neardup.Options) *neardup.Index {
	t.Helper()
	x, err := neardup.Open(dir, o)
	must(t, err)
	t.Cleanup(func() {
		must(t, x.Close())
	})
	return x
}

// TestPairsOfAList tests Pairs, Clusters and Stars against a comparison of all pairs.
func TestPairsOfAList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]fingerprint.Fingerprint, 300)
	for i := range list {
		list[i] = fingerprint.Fingerprint(rng.Uint64())
		if i > 0 && i%2 == 0 {
			list[i] = list[rng.IntN(i)] ^ 1<<rng.IntN(64) ^ fingerprint.Fingerprint(rng.IntN(2))
		}
		if i%10 == 9 {
			list[i] = list[rng.IntN(i)]
		}
	}
	given := slices.Clone(list)
	const k = 2
	near := func(i, j int) bool { return list[i].Distance(list[j]) <= k }

	want := map[neardup.Pair]bool{}
	for i, a := range list {
		for _, b := range list[:i] {
			if d := a.Distance(b); d <= k && d > 0 {
				want[neardup.Pair{First: min(a, b), Second: max(a, b), Distance: d}] = true
			}
		}
	}
	pairs := 0
	for p, err := range neardup.Pairs(t.Context(), list, k) {
		if pairs++; err != nil || !want[p] {
			t.Errorf("%v, %v", p, err)
		}
	}
	if pairs != len(want) || pairs < 50 {
		t.Errorf("%d pairs, want %d", pairs, len(want))
	}

	seen := make([]bool, len(list))
	grow := func(from int, chains bool) (group []int) {
		group, seen[from] = []int{from}, true
		for n := 0; n < len(group) && (chains || n == 0); n++ {
			for j := range list {
				if !seen[j] && near(group[n], j) {
					group, seen[j] = append(group, j), true
				}
			}
		}
		slices.Sort(group)
		return group
	}
	for what, clusters := range map[string]func(context.Context, []fingerprint.Fingerprint,
		int) iter.Seq2[[]int, error]{"chains": neardup.Clusters, "stars": neardup.Stars} {
		clear(seen)
		var want, got [][]int
		for i := range list {
			if !seen[i] {
				if group := grow(i, what == "chains"); len(group) > 1 {
					want = append(want, group)
				}
			}
		}
		for group, err := range clusters(t.Context(), list, k) {
			must(t, err)
			got = append(got, group)
		}
		slices.SortFunc(got, slices.Compare)
		if fmt.Sprint(got) != fmt.Sprint(want) || len(want) < 20 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		for _, err := range clusters(t.Context(), list, 65) {
			// there is no index
			if !errors.Is(err, index.ErrDistance) || strings.Contains(err.Error(), "index") {
				t.Errorf("%s, k = 65: %v", what, err)
			}
		}
	}
	for _, err := range neardup.Pairs(t.Context(), list, -1) {
		if !errors.Is(err, index.ErrDistance) {
			t.Errorf("k = -1: %v", err)
		}
	}
	if !slices.Equal(list, given) {
		t.Error("the list was changed")
	}
}
