// Package checktest tests an implementation of Check, an index or a client of a server, against
// the documentation of package neardup.
package checktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/match"
	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// defaultMaxDistance is the default k of package neardup.
const defaultMaxDistance = 7

// Run runs all tests. open opens an empty index for each test and closes it when the test ends.
func Run(t *testing.T, open func(*testing.T) api.Checker) {
	for name, test := range map[string]func(*testing.T, api.Checker){
		"Check": check, "CheckBatch": checkBatch, "Unchanged": unchanged, "Texts": texts,
		"Removed": removed, "Delete": deleted, "Racing": racing, "Documents": documents,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// Text returns n words about a subject. Texts about different subjects share no words.
func Text(subject string, n int) string {
	rng := rand.New(rand.NewPCG(uint64(len(subject)), uint64(subject[0])))
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "%s%d ", subject, rng.IntN(10*n))
	}
	return b.String()
}

const shell = "<!doctype html><title>App</title><div id=root></div><script src=/app.js></script>"

// Step is a page and its expected verdict.
type Step struct {
	Page   api.Page
	Status api.Status
	Of     string
	Near   bool
	Reason string

	Removed bool
}

// Crawl returns steps with every status and every reason.
func Crawl() []Step {
	html := func(s string) []byte { return []byte("<html><body><p>" + s + "</p></body></html>") }
	const utf8 = "text/html; charset=utf-8"
	ferry, museum := Text("ferry", 400), Text("museum", 300)
	return []Step{
		{api.Page{URL: "shell 1", ContentType: utf8, Body: []byte(shell)}, api.Skipped, "", false,
			"no text", false},
		{api.Page{URL: "shell 2", Body: []byte(shell)}, api.Skipped, "", false, "no text", false},
		{api.Page{URL: "empty"}, api.Skipped, "", false, "no text", false},
		{api.Page{URL: "image", ContentType: "image/png", Body: []byte("\x89PNG\r\n\x1a\n")},
			api.Skipped, "", false, "not text: image/png", false},
		{api.Page{URL: "image that lies", ContentType: utf8,
			Body: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00")}, api.Skipped, "", false,
			"not text: image/png", false},
		{api.Page{URL: "image that says nothing", Body: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00")},
			api.Skipped, "", false, "not text: image/png", false},
		{api.Page{URL: "json", ContentType: "application/json", Body: []byte(`{"a":1}`)},
			api.Skipped, "", false, "not text: application/json", false},
		{api.Page{URL: "large", Body: make([]byte, 16<<20+1)}, api.Skipped, "", false,
			"too large: 16777217 bytes, limit 16777216", false},
		{api.Page{URL: strings.Repeat("u", 70000), Body: html(ferry)}, api.Skipped, "", false,
			"too large: URL of 70000 bytes, scope of 0", false},

		{api.Page{URL: "ferry", ContentType: utf8, Body: html(ferry)}, api.New, "",
			false, "", false},
		{api.Page{URL: "ferry", ContentType: utf8, Body: html(ferry)}, api.Unchanged, "ferry",
			true, "", false},
		{api.Page{URL: "ferry.txt", ContentType: "text/plain", Body: []byte(ferry)}, api.Duplicate,
			"ferry", true, "", false},
		{api.Page{URL: "ferry copy", Body: html(ferry + " and a word")}, api.Duplicate, "ferry",
			true, "", false},
		{api.Page{URL: "ferry elsewhere", Body: html(ferry), Scope: "elsewhere"}, api.New, "",
			false, "", false},
		{api.Page{URL: "ferry", Body: html(ferry + " and a word more")}, api.Changed, "ferry",
			true, "", false},
		{api.Page{URL: "ferry", Body: html(ferry + " and a word more")}, api.Unchanged, "ferry",
			true, "", false},
		{api.Page{URL: "ferry", Body: html(museum)}, api.Changed, "ferry", false, "", false},
		{api.Page{URL: "museum", Body: html(museum)}, api.Duplicate, "ferry", true, "", false},
		// its earlier version was removed
		{api.Page{URL: "ferry again", Body: html(ferry)}, api.New, "", false, "", false},
		{api.Page{URL: "ferry", Body: []byte(shell)}, api.Skipped, "", false, "no text", false},
		// it stays stored
		{api.Page{URL: "ferry", Body: html(museum)}, api.Unchanged, "ferry", true, "", false},
		{api.Page{URL: "ferry", Body: html(ferry)}, api.Duplicate, "ferry again", true, "", true},
		// the page with this text was removed
		{api.Page{URL: "museum", Body: html(museum)}, api.New, "", false, "", false},
		{api.Page{Body: html(museum)}, api.Duplicate, "museum", true, "", false},
	}
}

func (s *Step) check(t *testing.T, v api.Verdict) {
	t.Helper()
	if v.Status != s.Status || v.Of.Key != s.Of || v.Near != s.Near || v.Reason != s.Reason ||
		v.Removed != s.Removed {
		t.Errorf("%.30s: %v of %q, near %v, %q, removed %v; want %v of %q, near %v, %q, removed %v",
			s.Page.URL, v.Status, v.Of.Key, v.Near, v.Reason, v.Removed, s.Status, s.Of, s.Near,
			s.Reason, s.Removed)
	}
	switch far := v.Of.Distance > defaultMaxDistance; {
	case s.Status == api.Unchanged && v.Of.Distance != 0, far == v.Near &&
		s.Of != "", v.Of.Added.IsZero() != (s.Of == ""):
		t.Errorf("%s: %+v", s.Page.URL, v)
	}
}

func check(t *testing.T, x api.Checker) {
	for _, s := range Crawl() {
		v, err := x.Check(t.Context(), s.Page)
		if err != nil {
			t.Fatal(err)
		}
		s.check(t, v)
	}
}

func checkBatch(t *testing.T, x api.Checker) {
	var pages []api.Page
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

// A document is Unchanged if its Signature equals the stored one. The Digests must be equal, or
// both missing.
func unchanged(t *testing.T, x api.Checker) {
	d := match.Document{Key: "page", Fingerprint: 1 << 40,
		Shingles: fingerprint.ShingleSignature{1 << 41}, Tokens: 100}
	for i, change := range []struct {
		do   func()
		want api.Status
		near bool
	}{
		{func() {}, api.New, false},
		{func() {}, api.Unchanged, true},
		{func() { d.Tokens = 130 }, api.Changed, true},
		{func() { d.Tokens = 100 }, api.Changed, true},
		{func() { d.Tokens = 200 }, api.Changed, false},
		{func() { d.Shingles[3] = 1 << 42 }, api.Changed, true},
		{func() { d.Shingles[2] = ^d.Shingles[2] }, api.Changed, false},
		{func() { d.Fingerprint ^= 1 }, api.Changed, true},
		{func() {}, api.Unchanged, true},
		{func() { d.Digest = 1 << 43 }, api.Changed, true}, // the stored text is unknown
		{func() {}, api.Unchanged, true},
		{func() { d.Digest ^= 1 }, api.Changed, true}, // although the fingerprints are equal
		{func() {}, api.Unchanged, true},              // the record has the new Digest
		{func() { d.Digest = 0 }, api.Changed, true},
		{func() {}, api.Unchanged, true},
	} {
		change.do()
		verdicts, err := x.CheckDocuments(t.Context(), []match.Document{d})
		if err != nil || verdicts[0].Status != change.want || verdicts[0].Near != change.near {
			t.Errorf("%d: %+v, %v", i, verdicts, err)
		}
	}
}

// A page with one word changed is never Unchanged, however long it is. A page that differs only in
// white space, markup, case or Unicode form always is.
func texts(t *testing.T, x api.Checker) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 20, 100, 300, 1000, 5000} {
		words := make([]string, n)
		for i := range words { // some words are repeated
			words[i] = fmt.Sprintf("%s%d", []string{"caf\u00e9", "\ud55c\uad6d\uc5b4",
				"Stra\u00dfe", "word"}[rng.IntN(4)], rng.IntN(1+3*n))
		}
		edit := func(change func(w []string)) []string {
			w := slices.Clone(words)
			change(w)
			return w
		}
		first, last, middle := 0, n-1, n/2
		changed := map[string][]string{
			"first word":   edit(func(w []string) { w[first] = "replaced" }),
			"last word":    edit(func(w []string) { w[last] = "replaced" }),
			"middle word":  edit(func(w []string) { w[middle] = "replaced" }),
			"word removed": words[:last],
			"word added":   append(slices.Clone(words), "added"),
			"word doubled": append([]string{words[first]}, words...),
			"word cut": edit(func(w []string) {
				w[middle] = w[middle][:len(w[middle])-1] + " " +
					w[middle][len(w[middle])-1:]
			}),
		}
		if n > 1 {
			changed["words swapped"] = edit(func(w []string) {
				w[first], w[last] = w[last], w[first]
			})
			changed["neighbours swapped"] = edit(func(w []string) {
				w[middle-1], w[middle] = w[middle], w[middle-1]
			})
			changed["words joined"] = edit(func(w []string) { w[last-1] += w[last]; w[last] = "" })
		}
		plain := strings.Join(words, " ")
		equal := map[string]string{
			"white space": "\n\n" + strings.Join(words, " \t\r\n\u00a0\u3000") + "  ",
			"markup": "<main><p class='a'>" + strings.Join(words,
				"</p>\n<p><b><!-- comment --></b>") + "</p></main>",
			"upper case":  strings.ToUpper(plain),
			"NFD":         norm.NFD.String(plain),
			"full width":  width.Widen.String(plain),
			"entities":    strings.ReplaceAll(plain, "\u00e9", "&eacute;"),
			"punctuation": strings.Join(words, ", ") + "!",
		}
		url := fmt.Sprint("page ", n)
		check := func(what, text string, want ...api.Status) {
			t.Helper()
			v, err := x.Check(t.Context(), api.Page{URL: url, Scope: url,
				ContentType: "text/html; charset=utf-8", Body: []byte("<body>" + text)})
			if err != nil || !slices.Contains(want, v.Status) {
				t.Errorf("%d words, %s: %v, %v; want %v", n, what, v.Status, err, want)
			}
		}
		check("first visit", plain, api.New)
		for what, text := range equal {
			check(what, text, api.Unchanged)
		}
		for what, w := range changed {
			text := strings.Join(w, " ")
			if strings.TrimSpace(text) == "" || slices.Equal(w, words) {
				continue
			}
			check(what, text, api.Changed)
			check(what+", again", text, api.Unchanged)
			check(what+", undone", plain, api.Changed)
		}
	}
}

// A verdict reports whether the earlier version of the URL was removed.
func removed(t *testing.T, x api.Checker) {
	ferry, museum := []byte(Text("ferry", 100)), []byte(Text("museum", 100))
	for i, step := range []struct {
		url    string
		body   []byte
		status api.Status
		want   bool
	}{
		{"a", ferry, api.New, false},
		{"b", ferry, api.Duplicate, false}, // it was never stored
		{"b", museum, api.New, false},
		{"b", ferry, api.Duplicate, true},
		{"b", ferry, api.Duplicate, false}, // it was removed before
		{"b", museum, api.New, false},
		{"b", museum, api.Unchanged, false},
		{"", museum, api.Duplicate, false},
		{"a", museum, api.Duplicate, true},
	} {
		v, err := x.Check(t.Context(), api.Page{URL: step.url, Body: step.body})
		if err != nil || v.Status != step.status || v.Removed != step.want {
			t.Errorf("%d, %s: %v, removed %v, %v; want %v, removed %v", i, step.url, v.Status,
				v.Removed, err, step.status, step.want)
		}
	}
}

// A page that a crawler could not save is deleted, and its next copy is New.
func deleted(t *testing.T, x api.Checker) {
	ctx := t.Context()
	for i, want := range []api.Status{api.New, api.Duplicate, api.New} {
		if i == 2 {
			if n, err := x.Delete(ctx, "page 0"); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if v, err := x.Check(ctx, api.Page{URL: fmt.Sprint("page ", i),
			Body: []byte("the same words")}); v.Status != want || err != nil {
			t.Errorf("%d: %v, %v", i, v.Status, err)
		}
	}
}

// If near-duplicates are checked concurrently, exactly one is New.
func racing(t *testing.T, x api.Checker) {
	for round := range 20 {
		var wg sync.WaitGroup
		var news, duplicates atomic.Int64
		body := Text(fmt.Sprintf("round%dx", round), 300)
		for i := range 16 {
			wg.Go(func() {
				v, err := x.Check(t.Context(), api.Page{URL: fmt.Sprint(round, "/", i),
					Body: fmt.Appendf(nil, "%s visitor%d", body, i)})
				switch {
				case err != nil:
					t.Error(err)
				case v.Status == api.New:
					news.Add(1)
				case v.Status == api.Duplicate:
					duplicates.Add(1)
				}
			})
		}
		if wg.Wait(); news.Load() != 1 || duplicates.Load() != 15 {
			t.Errorf("round %d: %d new, %d duplicates", round, news.Load(), duplicates.Load())
		}
	}
}

// A stored document is found by its key and by its signature. No other document is found.
func documents(t *testing.T, x api.Checker) {
	ctx := t.Context()
	key := "a key that is no \xff text"
	docs := []match.Document{{Key: key, Fingerprint: 1 << 40,
		Shingles: fingerprint.ShingleSignature{1 << 41}, Digest: 1 << 42, Tokens: 100,
		Scope: "\xfe"}, {Key: "b", Fingerprint: 1 << 50, Tokens: 7}}
	if verdicts, err := x.CheckDocuments(ctx, docs); err != nil || len(verdicts) != 2 ||
		verdicts[0].Status != api.New || verdicts[1].Status != api.New {
		t.Fatal(verdicts, err)
	}
	d, found, err := x.Get(ctx, key)
	if err != nil || !found || d.Signature() != docs[0].Signature() || d.Digest == 0 ||
		d.Scope != docs[0].Scope || d.Key != key || d.ID == 0 || d.Added.IsZero() {
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
	if verdicts, err := x.CheckDocuments(ctx,
		[]match.Document{{Key: strings.Repeat("k", match.MaxKeyBytes+1)}}); !errors.Is(err,
		fault.ErrTooLarge) || len(verdicts) > 0 {
		t.Error(verdicts, err)
	}
	if verdicts, err := x.CheckDocuments(ctx, []match.Document{{Key: "without text"}}); !errors.Is(
		err, fault.ErrNoText) || len(verdicts) > 0 {
		t.Error(verdicts, err)
	}
	if n, err := x.Delete(ctx, key, "b", "c"); n != 2 || err != nil {
		t.Error(n, err)
	}
}
