// Package checktest holds what answers Check, an index or a client of one that is served, to what package
// neardup says of it.
package checktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

// defaultMaxDistance is k of an index that package neardup makes.
const defaultMaxDistance = 6

// Run runs all tests, each with an empty index that open makes, and closes when its test ends.
func Run(t *testing.T, open func(*testing.T) wire.Checker) {
	for name, test := range map[string]func(*testing.T, wire.Checker){
		"Check": check, "CheckBatch": checkBatch, "Unchanged": unchanged, "Delete": deleted, "Racing": racing, "Documents": documents,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// Text is n words of a subject; another subject shares none.
func Text(subject string, n int) string {
	rng := rand.New(rand.NewPCG(uint64(len(subject)), uint64(subject[0])))
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "%s%d ", subject, rng.IntN(10*n))
	}
	return b.String()
}

const shell = "<!doctype html><title>App</title><div id=root></div><script src=/app.js></script>"

// Step is a page and what is to be said of it.
type Step struct {
	Page   wire.Page
	Status wire.Status
	Of     string
	Near   bool
	Reason string
}

// Crawl has every status and every reason.
func Crawl() []Step {
	html := func(s string) []byte { return []byte("<html><body><p>" + s + "</p></body></html>") }
	const utf8 = "text/html; charset=utf-8"
	ferry, museum := Text("ferry", 400), Text("museum", 300)
	return []Step{
		{wire.Page{URL: "shell 1", ContentType: utf8, Body: []byte(shell)}, wire.Skipped, "", false, "no text"},
		{wire.Page{URL: "shell 2", Body: []byte(shell)}, wire.Skipped, "", false, "no text"},
		{wire.Page{URL: "empty"}, wire.Skipped, "", false, "no text"},
		{wire.Page{URL: "image", ContentType: "image/png", Body: []byte("\x89PNG\r\n\x1a\n")}, wire.Skipped, "", false, "not text: image/png"},
		{wire.Page{URL: "image that lies", ContentType: utf8, Body: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00")}, wire.Skipped, "", false, "not text: image/png"},
		{wire.Page{URL: "image that says nothing", Body: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00")}, wire.Skipped, "", false, "not text: image/png"},
		{wire.Page{URL: "json", ContentType: "application/json", Body: []byte(`{"a":1}`)}, wire.Skipped, "", false, "not text: application/json"},
		{wire.Page{URL: "large", Body: make([]byte, 16<<20+1)}, wire.Skipped, "", false, "too large: 16777217 bytes, limit 16777216"},
		{wire.Page{URL: strings.Repeat("u", 70000), Body: html(ferry)}, wire.Skipped, "", false, "too large: URL of 70000 bytes, scope of 0"},

		{wire.Page{URL: "ferry", ContentType: utf8, Body: html(ferry)}, wire.New, "", false, ""},
		{wire.Page{URL: "ferry", ContentType: utf8, Body: html(ferry)}, wire.Unchanged, "ferry", true, ""},
		{wire.Page{URL: "ferry.txt", ContentType: "text/plain", Body: []byte(ferry)}, wire.Duplicate, "ferry", true, ""},
		{wire.Page{URL: "ferry copy", Body: html(ferry + " and a word")}, wire.Duplicate, "ferry", true, ""},
		{wire.Page{URL: "ferry elsewhere", Body: html(ferry), Scope: "elsewhere"}, wire.New, "", false, ""},
		{wire.Page{URL: "ferry", Body: html(ferry + " and a word more")}, wire.Changed, "ferry", true, ""},
		{wire.Page{URL: "ferry", Body: html(ferry + " and a word more")}, wire.Unchanged, "ferry", true, ""},
		{wire.Page{URL: "ferry", Body: html(museum)}, wire.Changed, "ferry", false, ""},
		{wire.Page{URL: "museum", Body: html(museum)}, wire.Duplicate, "ferry", true, ""},
		{wire.Page{URL: "ferry again", Body: html(ferry)}, wire.New, "", false, ""}, // its earlier self is gone
		{wire.Page{URL: "ferry", Body: []byte(shell)}, wire.Skipped, "", false, "no text"},
		{wire.Page{URL: "ferry", Body: html(museum)}, wire.Unchanged, "ferry", true, ""}, // and stays
		{wire.Page{URL: "ferry", Body: html(ferry)}, wire.Duplicate, "ferry again", true, ""},
		{wire.Page{URL: "museum", Body: html(museum)}, wire.New, "", false, ""}, // the page that had it is gone
		{wire.Page{Body: html(museum)}, wire.Duplicate, "museum", true, ""},
	}
}

func (s *Step) check(t *testing.T, v wire.Verdict) {
	t.Helper()
	if v.Status != s.Status || v.Of.Key != s.Of || v.Near != s.Near || v.Reason != s.Reason {
		t.Errorf("%.30s: %v of %q, near %v, %q; want %v of %q, near %v, %q",
			s.Page.URL, v.Status, v.Of.Key, v.Near, v.Reason, s.Status, s.Of, s.Near, s.Reason)
	}
	switch far := v.Of.Distance > defaultMaxDistance; {
	case s.Status == wire.Unchanged && v.Of.Distance != 0, far == v.Near && s.Of != "", v.Of.Added.IsZero() != (s.Of == ""):
		t.Errorf("%s: %+v", s.Page.URL, v)
	}
}

func check(t *testing.T, x wire.Checker) {
	for _, s := range Crawl() {
		v, err := x.Check(t.Context(), s.Page)
		if err != nil {
			t.Fatal(err)
		}
		s.check(t, v)
	}
}

func checkBatch(t *testing.T, x wire.Checker) {
	var pages []wire.Page
	for _, s := range Crawl() {
		pages = append(pages, s.Page)
	}
	verdicts, err := x.CheckBatch(t.Context(), pages)
	if err != nil || len(verdicts) != len(pages) {
		t.Fatalf("%d of %d verdicts, %v", len(verdicts), len(pages), err)
	}
	for i, s := range Crawl() {
		s.check(t, verdicts[i])
	}
}

// Unchanged is what both fingerprints and the length say.
func unchanged(t *testing.T, x wire.Checker) {
	d := match.Document{Key: "page", Fingerprint: 1 << 40, Shingle: 1 << 41, Tokens: 100}
	for i, change := range []struct {
		do   func()
		want wire.Status
		near bool
	}{
		{func() {}, wire.New, false},
		{func() {}, wire.Unchanged, true},
		{func() { d.Tokens = 130 }, wire.Changed, true},
		{func() { d.Tokens = 100 }, wire.Changed, true},
		{func() { d.Tokens = 200 }, wire.Changed, false},
		{func() { d.Shingle = 1 << 42 }, wire.Changed, true},
		{func() { d.Shingle = ^d.Shingle }, wire.Changed, false},
		{func() { d.Fingerprint ^= 1 }, wire.Changed, true},
		{func() {}, wire.Unchanged, true},
	} {
		change.do()
		verdicts, err := x.CheckDocuments(t.Context(), []match.Document{d})
		if err != nil || verdicts[0].Status != change.want || verdicts[0].Near != change.near {
			t.Errorf("%d: %+v, %v", i, verdicts, err)
		}
	}
}

// A page that a crawler could not save is deleted, and its next copy is New.
func deleted(t *testing.T, x wire.Checker) {
	ctx := t.Context()
	for i, want := range []wire.Status{wire.New, wire.Duplicate, wire.New} {
		if i == 2 {
			if n, err := x.Delete(ctx, "page 0"); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if v, err := x.Check(ctx, wire.Page{URL: fmt.Sprint("page ", i), Body: []byte("the same words")}); v.Status != want || err != nil {
			t.Errorf("%d: %v, %v", i, v.Status, err)
		}
	}
}

// Of near-duplicates that are checked at once, exactly one is New.
func racing(t *testing.T, x wire.Checker) {
	for round := range 20 {
		var wg sync.WaitGroup
		var news, duplicates atomic.Int64
		body := Text(fmt.Sprintf("round%dx", round), 300)
		for i := range 16 {
			wg.Go(func() {
				v, err := x.Check(t.Context(), wire.Page{URL: fmt.Sprint(round, "/", i), Body: fmt.Appendf(nil, "%s visitor%d", body, i)})
				switch {
				case err != nil:
					t.Error(err)
				case v.Status == wire.New:
					news.Add(1)
				case v.Status == wire.Duplicate:
					duplicates.Add(1)
				}
			})
		}
		if wg.Wait(); news.Load() != 1 || duplicates.Load() != 15 {
			t.Errorf("round %d: %d new, %d duplicates", round, news.Load(), duplicates.Load())
		}
	}
}

// What is stored is found by its key and by its signature, and nothing else.
func documents(t *testing.T, x wire.Checker) {
	ctx := t.Context()
	key := "a key that is no \xff text"
	docs := []match.Document{{Key: key, Fingerprint: 1 << 40, Shingle: 1 << 41, Tokens: 100, Scope: "\xfe"}, {Key: "b", Fingerprint: 1 << 50, Tokens: 7}}
	if verdicts, err := x.CheckDocuments(ctx, docs); err != nil || len(verdicts) != 2 || verdicts[0].Status != wire.New || verdicts[1].Status != wire.New {
		t.Fatal(verdicts, err)
	}
	d, found, err := x.Get(ctx, key)
	if err != nil || !found || d.Signature() != docs[0].Signature() || d.Scope != docs[0].Scope || d.Key != key || d.ID == 0 || d.Added.IsZero() {
		t.Errorf("%+v, %v, %v", d, found, err)
	}
	if _, found, err := x.Get(ctx, "c"); found || err != nil {
		t.Error(found, err)
	}
	for _, q := range []struct {
		query match.Query
		want  int
	}{
		{match.Query{Signature: docs[0].Signature(), Scope: docs[0].Scope}, 1},
		{match.Query{Signature: docs[0].Signature()}, 0},
		{match.Query{Signature: docs[1].Signature(), MaxDistance: -1, Limit: 3}, 1},
		{match.Query{Signature: fingerprint.Signature{Fingerprint: 1<<50 | 3}}, 1},
		{match.Query{Signature: fingerprint.Signature{Fingerprint: 1<<50 | 3}, MaxDistance: 1}, 0},
	} {
		matches, err := x.Query(ctx, q.query)
		if err != nil || len(matches) != q.want || q.want == 1 && matches[0].ID == 0 {
			t.Errorf("%+v: %+v, %v", q.query, matches, err)
		}
	}
	for _, k := range []int{60, -7} {
		if _, err := x.Query(ctx, match.Query{MaxDistance: k}); !errors.Is(err, fault.ErrDistance) {
			t.Errorf("k = %d: %v", k, err)
		}
	}
	if verdicts, err := x.CheckDocuments(ctx, []match.Document{{Key: strings.Repeat("k", match.MaxKeyBytes+1)}}); !errors.Is(err, fault.ErrTooLarge) || len(verdicts) > 0 {
		t.Error(verdicts, err)
	}
	if verdicts, err := x.CheckDocuments(ctx, []match.Document{{Key: "without text"}}); !errors.Is(err, fault.ErrNoText) || len(verdicts) > 0 {
		t.Error(verdicts, err)
	}
	if n, err := x.Delete(ctx, key, "b", "c"); n != 2 || err != nil {
		t.Error(n, err)
	}
}
