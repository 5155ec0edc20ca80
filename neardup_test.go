package neardup_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
)

// text is n words of a subject; another subject shares none.
func text(subject string, n int) string {
	rng := rand.New(rand.NewPCG(uint64(len(subject)), uint64(subject[0])))
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "%s%d ", subject, rng.IntN(10*n))
	}
	return b.String()
}

const shell = "<!doctype html><title>App</title><div id=root></div><script src=/app.js></script>"

// step is a page and what is to be said of it.
type step struct {
	page   neardup.Page
	status neardup.Status
	of     string
	near   bool
	reason string
}

// crawl has every status and every reason.
func crawl() []step {
	html := func(s string) []byte { return []byte("<html><body><p>" + s + "</p></body></html>") }
	const utf8 = "text/html; charset=utf-8"
	ferry, museum := text("ferry", 400), text("museum", 300)
	return []step{
		{neardup.Page{URL: "shell 1", ContentType: utf8, Body: []byte(shell)}, neardup.Skipped, "", false, "no text"},
		{neardup.Page{URL: "shell 2", Body: []byte(shell)}, neardup.Skipped, "", false, "no text"},
		{neardup.Page{URL: "empty"}, neardup.Skipped, "", false, "no text"},
		{neardup.Page{URL: "image", ContentType: "image/png", Body: []byte("\x89PNG\r\n\x1a\n")}, neardup.Skipped, "", false, "not text: image/png"},
		{neardup.Page{URL: "image that lies", ContentType: utf8, Body: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00")}, neardup.Skipped, "", false, "not text: image/png"},
		{neardup.Page{URL: "image that says nothing", Body: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00")}, neardup.Skipped, "", false, "not text: image/png"},
		{neardup.Page{URL: "json", ContentType: "application/json", Body: []byte(`{"a":1}`)}, neardup.Skipped, "", false, "not text: application/json"},
		{neardup.Page{URL: "large", Body: make([]byte, 16<<20+1)}, neardup.Skipped, "", false, "too large: 16777217 bytes, limit 16777216"},
		{neardup.Page{URL: strings.Repeat("u", 70000), Body: html(ferry)}, neardup.Skipped, "", false, "too large: URL of 70000 bytes, scope of 0"},

		{neardup.Page{URL: "ferry", ContentType: utf8, Body: html(ferry)}, neardup.New, "", false, ""},
		{neardup.Page{URL: "ferry", ContentType: utf8, Body: html(ferry)}, neardup.Unchanged, "ferry", true, ""},
		{neardup.Page{URL: "ferry.txt", ContentType: "text/plain", Body: []byte(ferry)}, neardup.Duplicate, "ferry", true, ""},
		{neardup.Page{URL: "ferry copy", Body: html(ferry + " and a word")}, neardup.Duplicate, "ferry", true, ""},
		{neardup.Page{URL: "ferry elsewhere", Body: html(ferry), Scope: "elsewhere"}, neardup.New, "", false, ""},
		{neardup.Page{URL: "ferry", Body: html(ferry + " and a word more")}, neardup.Changed, "ferry", true, ""},
		{neardup.Page{URL: "ferry", Body: html(ferry + " and a word more")}, neardup.Unchanged, "ferry", true, ""},
		{neardup.Page{URL: "ferry", Body: html(museum)}, neardup.Changed, "ferry", false, ""},
		{neardup.Page{URL: "museum", Body: html(museum)}, neardup.Duplicate, "ferry", true, ""},
		{neardup.Page{URL: "ferry again", Body: html(ferry)}, neardup.New, "", false, ""}, // its earlier self is gone
		{neardup.Page{URL: "ferry", Body: []byte(shell)}, neardup.Skipped, "", false, "no text"},
		{neardup.Page{URL: "ferry", Body: html(museum)}, neardup.Unchanged, "ferry", true, ""}, // and stays
		{neardup.Page{URL: "ferry", Body: html(ferry)}, neardup.Duplicate, "ferry again", true, ""},
		{neardup.Page{URL: "museum", Body: html(museum)}, neardup.New, "", false, ""}, // the page that had it is gone
		{neardup.Page{Body: html(museum)}, neardup.Duplicate, "museum", true, ""},
	}
}

func (s *step) check(t *testing.T, v neardup.Verdict) {
	t.Helper()
	if v.Status != s.status || v.Of.Key != s.of || v.Near != s.near || v.Reason != s.reason {
		t.Errorf("%.30s: %v of %q, near %v, %q; want %v of %q, near %v, %q",
			s.page.URL, v.Status, v.Of.Key, v.Near, v.Reason, s.status, s.of, s.near, s.reason)
	}
	switch far := v.Of.Distance > neardup.DefaultMaxDistance; {
	case s.status == neardup.Unchanged && v.Of.Distance != 0, far == v.Near && s.of != "", v.Of.Added.IsZero() != (s.of == ""):
		t.Errorf("%s: %+v", s.page.URL, v)
	}
}

func TestCheck(t *testing.T) {
	x := open(t, t.TempDir(), nil)
	for _, s := range crawl() {
		v, err := x.Check(t.Context(), s.page)
		if err != nil {
			t.Fatal(err)
		}
		s.check(t, v)
	}
}

func TestCheckBatch(t *testing.T) {
	x := open(t, t.TempDir(), nil)
	var pages []neardup.Page
	for _, s := range crawl() {
		pages = append(pages, s.page)
	}
	verdicts, err := x.CheckBatch(t.Context(), pages)
	if err != nil || len(verdicts) != len(pages) {
		t.Fatalf("%d of %d verdicts, %v", len(verdicts), len(pages), err)
	}
	for i, s := range crawl() {
		s.check(t, verdicts[i])
	}
}

// Unchanged is what both fingerprints and the length say.
func TestUnchangedIsTheWholeSignature(t *testing.T) {
	x := open(t, t.TempDir(), nil)
	d := index.Document{Key: "page", Fingerprint: 1 << 40, Shingle: 1 << 41, Tokens: 100}
	for i, change := range []struct {
		do   func()
		want neardup.Status
		near bool
	}{
		{func() {}, neardup.New, false},
		{func() {}, neardup.Unchanged, true},
		{func() { d.Tokens = 130 }, neardup.Changed, true},
		{func() { d.Tokens = 100 }, neardup.Changed, true},
		{func() { d.Tokens = 200 }, neardup.Changed, false},
		{func() { d.Shingle = 1 << 42 }, neardup.Changed, true},
		{func() { d.Shingle = ^d.Shingle }, neardup.Changed, false},
		{func() { d.Fingerprint ^= 1 }, neardup.Changed, true},
		{func() {}, neardup.Unchanged, true},
	} {
		change.do()
		verdicts, err := x.CheckDocuments(t.Context(), []index.Document{d})
		if err != nil || verdicts[0].Status != change.want || verdicts[0].Near != change.near {
			t.Errorf("%d: %+v, %v", i, verdicts, err)
		}
	}
}

// A page that a crawler could not save is deleted, and its next copy is New.
func TestDelete(t *testing.T) {
	x, ctx := open(t, t.TempDir(), nil), t.Context()
	for i, want := range []neardup.Status{neardup.New, neardup.Duplicate, neardup.New} {
		if i == 2 {
			if n, err := x.Delete(ctx, "page 0"); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if v, err := x.Check(ctx, neardup.Page{URL: fmt.Sprint("page ", i), Body: []byte("the same words")}); v.Status != want || err != nil {
			t.Errorf("%d: %v, %v", i, v.Status, err)
		}
	}
}

// The README's first snippet is compiled, and saves what is to be saved.
func TestREADME(t *testing.T) {
	lines := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(b), "\t", "")
	}
	_, snippet, _ := strings.Cut(lines("README.md"), "```go\n")
	snippet, _, _ = strings.Cut(snippet, "```")
	if !strings.Contains(snippet, ".Check(") || !strings.Contains(lines("example_test.go"), snippet) {
		t.Errorf("not as in example_test.go:\n%s", snippet)
	}
	t.Chdir(t.TempDir())
	for _, s := range crawl() {
		if s.page.Scope != "" {
			continue // which the snippet does not have
		}
		saved := false
		err := checkAndSave(t.Context(), s.page.URL, s.page.ContentType, s.page.Body, func(string, []byte) error {
			saved = true
			return nil
		})
		if want := s.status == neardup.New || s.status == neardup.Changed; err != nil || saved != want {
			t.Errorf("%.30s: saved %v, want %v, %v", s.page.URL, saved, want, err)
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
	if err != nil {
		t.Fatal(err)
	}
	ferry, museum := neardup.Page{URL: "ferry", Body: []byte(text("ferry", 100))}, neardup.Page{URL: "museum", Body: []byte(text("museum", 100))}
	image := neardup.Page{URL: "image", ContentType: "image/png"}
	if v, err := x.Check(t.Context(), ferry); v.Status != neardup.New || err != nil {
		t.Fatal(v, err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	none := func(what string, ctx context.Context, want error, pages ...neardup.Page) {
		t.Helper()
		for _, p := range pages {
			if v, err := x.Check(ctx, p); v != (neardup.Verdict{}) || v.Status != 0 || !errors.Is(err, want) {
				t.Errorf("%s, %s: %v, %v", what, p.URL, v.Status, err)
			}
		}
		if verdicts, err := x.CheckBatch(ctx, []neardup.Page{image, museum}); len(verdicts) > 0 || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", what, verdicts, err)
		}
	}
	none("canceled", canceled, context.Canceled, ferry, museum, image)
	full.Store(true)
	if verdicts, err := x.CheckBatch(t.Context(), []neardup.Page{museum, image}); len(verdicts) > 0 || err == nil {
		t.Errorf("full disk: %v, %v", verdicts, err)
	}
	none("full disk", t.Context(), index.ErrFailed, museum)
	full.Store(false)
	x.Close() // it says that it has failed
	none("closed", t.Context(), index.ErrClosed, ferry, museum, image)

	x = open(t, "pages", &neardup.Options{Index: index.Options{FS: disk}})
	for _, p := range []neardup.Page{ferry, museum} {
		v, err := x.Check(t.Context(), p)
		if want := map[string]neardup.Status{"ferry": neardup.Unchanged, "museum": neardup.New}[p.URL]; err != nil || v.Status != want {
			t.Errorf("%s, after the disk was full: %v, %v", p.URL, v.Status, err)
		}
	}
}

// Of near-duplicates that are checked at once, exactly one is New.
func TestRacingPages(t *testing.T) {
	x := open(t, t.TempDir(), &neardup.Options{Index: index.Options{Durability: index.NoSync}})
	for round := range 20 {
		var wg sync.WaitGroup
		var news, duplicates atomic.Int64
		body := text(fmt.Sprintf("round%dx", round), 300)
		for i := range 16 {
			wg.Go(func() {
				v, err := x.Check(t.Context(), neardup.Page{URL: fmt.Sprint(round, "/", i), Body: fmt.Appendf(nil, "%s visitor%d", body, i)})
				switch {
				case err != nil:
					t.Error(err)
				case v.Status == neardup.New:
					news.Add(1)
				case v.Status == neardup.Duplicate:
					duplicates.Add(1)
				}
			})
		}
		if wg.Wait(); news.Load() != 1 || duplicates.Load() != 15 {
			t.Errorf("round %d: %d new, %d duplicates", round, news.Load(), duplicates.Load())
		}
	}
}

// An index says by itself how the text of its pages is taken.
func TestOpen(t *testing.T) {
	main, err := page.NewSigner(page.Main, fingerprint.Options{Window: 2})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, c := range []struct {
		what string
		make func(dir string) error
		opts neardup.Options // of the second time
		k    int
		name string
		want error
	}{
		{"nothing", func(string) error { return nil }, neardup.Options{}, 6, neardup.DefaultSigner().Name(), nil},
		{"nothing, another k", func(string) error { return nil }, neardup.Options{Index: index.Options{MaxDistance: 4}}, 4, neardup.DefaultSigner().Name(), nil},
		{"nothing, and none is to be made", func(string) error { return nil }, neardup.Options{Index: index.Options{MustExist: true}}, 0, "", os.ErrNotExist},
		{"one of main texts", opening(neardup.Options{Signer: main, Index: index.Options{MaxDistance: index.Exact}}), neardup.Options{}, 0, main.Name(), nil},
		{"one of main texts, to read", opening(neardup.Options{Signer: main}), neardup.Options{Index: index.Options{ReadOnly: true}}, 6, main.Name(), nil},
		{"one of visible texts, for main ones", opening(neardup.Options{}), neardup.Options{Signer: main}, 6, "", index.ErrMismatch},
		{"package index, without a signer", indexed(&index.Options{}), neardup.Options{}, 3, neardup.DefaultSigner().Name(), nil},
		{"package index, without a signer, for main texts", indexed(&index.Options{}), neardup.Options{Signer: main}, 3, main.Name(), nil},
		{"package index, with fingerprints", indexed(&index.Options{}, index.Document{Fingerprint: 7}), neardup.Options{}, 3, "", index.ErrMismatch},
		{"package index, a signer of another time", indexed(&index.Options{Analyzer: "visible/0 words"}), neardup.Options{}, 3, "", index.ErrMismatch},
		{"nothing, a signer that there is not", func(string) error { return nil }, neardup.Options{Index: index.Options{Analyzer: "mine"}}, 0, "", index.ErrMismatch},
		{"nothing, a signer by its name", func(string) error { return nil }, neardup.Options{Index: index.Options{Analyzer: main.Name()}}, 6, main.Name(), nil},
		{"bare, with fingerprints", indexed(&index.Options{}, index.Document{Fingerprint: 7}), neardup.Options{Bare: true}, 3, "", nil},
		{"bare, a signer of another time", indexed(&index.Options{Analyzer: "visible/0 words"}), neardup.Options{Bare: true}, 3, "visible/0 words", nil},
		{"bare, one of main texts", opening(neardup.Options{Signer: main}), neardup.Options{Bare: true}, 6, main.Name(), nil},
		{"bare, nothing", func(string) error { return nil }, neardup.Options{Bare: true}, 3, "", nil},
		{"another k", opening(neardup.Options{}), neardup.Options{Index: index.Options{MaxDistance: 3}}, 6, "", index.ErrMismatch},
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
				t.Errorf("%s: it was made all the same", c.what)
			}
			continue
		}
		if s := x.Stats(); s.MaxDistance != c.k || s.Analyzer != c.name || x.Signer() != nil && x.Signer().Name() != c.name {
			t.Errorf("%s: k = %d, %s recorded", c.what, s.MaxDistance, s.Analyzer)
		}
		v, err := x.Check(t.Context(), neardup.Page{Body: []byte("a word")})
		switch known := x.Signer() != nil; {
		case known != !c.opts.Bare && c.name != main.Name():
			t.Errorf("%s: a signer: %v", c.what, known)
		case c.opts.Index.ReadOnly && !errors.Is(err, index.ErrReadOnly), !known && !errors.Is(err, index.ErrMismatch), (err != nil) != (v.Status == 0):
			t.Errorf("%s: %v, %v", c.what, v.Status, err)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// Pairs, Clusters and Stars are as comparing all with all finds them.
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
	for what, clusters := range map[string]func(context.Context, []fingerprint.Fingerprint, int) func(func([]int, error) bool){
		"chains": func(ctx context.Context, l []fingerprint.Fingerprint, k int) func(func([]int, error) bool) {
			return neardup.Clusters(ctx, l, k)
		},
		"stars": func(ctx context.Context, l []fingerprint.Fingerprint, k int) func(func([]int, error) bool) {
			return neardup.Stars(ctx, l, k)
		},
	} {
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
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, group)
		}
		slices.SortFunc(got, slices.Compare)
		if fmt.Sprint(got) != fmt.Sprint(want) || len(want) < 20 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		for _, err := range clusters(t.Context(), list, 65) {
			if !errors.Is(err, index.ErrDistance) {
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
