// Package checktest tests an implementation of neardup.Checker against the documentation of package
// neardup.
package checktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/neardup/neardup"
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
func Run(t *testing.T, open func(*testing.T) neardup.Checker) {
	for name, test := range map[string]func(*testing.T, neardup.Checker){
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

func raw(url, contentType, body string) api.Page {
	return api.Page{URL: url, ContentType: contentType, Body: []byte(body)}
}

func page(url, text string) api.Page {
	return raw(url, "", "<html><body><p>"+text+"</p></body></html>")
}

func skipped(reason string, p api.Page) Step {
	return Step{Page: p, Status: api.Skipped, Reason: reason}
}

// near returns a step whose page is near a stored one.
func near(status api.Status, of string, p api.Page) Step {
	return Step{Page: p, Status: status, Of: of, Near: true}
}

// replacing returns a step in which the earlier version of a page is removed as a duplicate.
func replacing(of string, p api.Page) Step {
	return Step{Page: p, Status: api.Duplicate, Of: of, Near: true, Removed: true}
}

// Crawl returns steps with every status and every reason.
func Crawl() []Step {
	const utf8, png, binary = "text/html; charset=utf-8", "\x89PNG\r\n\x1a\n", "\x00\x00\x00"
	ferry, museum := Text("ferry", 400), Text("museum", 300)
	elsewhere, changed := page("ferry elsewhere", ferry), page("ferry", ferry+" and a word more")
	elsewhere.Scope, changed.ContentType = "elsewhere", utf8
	return []Step{
		skipped("no text", raw("shell 1", utf8, shell)),
		skipped("no text", raw("shell 2", "", shell)),
		skipped("no text", raw("empty", "", "")),
		skipped("not text: image/png", raw("image", "image/png", png)),
		skipped("not text: image/png", raw("image that lies", utf8, png+binary)),
		skipped("not text: image/png", raw("image that says nothing", "", png+binary)),
		skipped("not text: application/json", raw("json", "application/json", `{"a":1}`)),
		skipped("too large: 16777217 bytes, limit 16777216",
			api.Page{URL: "large", Body: make([]byte, 16<<20+1)}),
		skipped("too large: URL of 70000 bytes, scope of 0",
			page(strings.Repeat("u", 70000), ferry)),

		{Page: page("ferry", ferry), Status: api.New},
		near(api.Unchanged, "ferry", page("ferry", ferry)),
		near(api.Duplicate, "ferry", raw("ferry.txt", "text/plain", ferry)),
		near(api.Duplicate, "ferry", page("ferry copy", ferry+" and a word")),
		{Page: elsewhere, Status: api.New},
		near(api.Changed, "ferry", changed),
		near(api.Unchanged, "ferry", changed),
		{Page: page("ferry", museum), Status: api.Changed, Of: "ferry"},
		near(api.Duplicate, "ferry", page("museum", museum)),
		// The earlier version of ferry was removed.
		{Page: page("ferry again", ferry), Status: api.New},
		skipped("no text", raw("ferry", "", shell)),
		// A Skipped page does not remove the earlier version.
		near(api.Unchanged, "ferry", page("ferry", museum)),
		replacing("ferry again", page("ferry", ferry)),
		// The page with this text was removed.
		{Page: page("museum", museum), Status: api.New},
		near(api.Duplicate, "museum", page("", museum)),
	}
}

func (s *Step) check(t *testing.T, v api.Verdict) {
	t.Helper()
	far, of := v.Of.Distance > defaultMaxDistance, v.Of.Key != ""
	if v.Status != s.Status || v.Of.Key != s.Of || v.Near != s.Near || v.Reason != s.Reason ||
		v.Removed != s.Removed || s.Status == api.Unchanged && v.Of.Distance != 0 ||
		of && far == v.Near || v.Of.Added.IsZero() == of {
		t.Errorf("%.30s: %+v; want %v of %q, near %v, %q, removed %v", s.Page.URL, v, s.Status,
			s.Of, s.Near, s.Reason, s.Removed)
	}
}

func check(t *testing.T, x neardup.Checker) { take(t, x, Crawl()...) }

func take(t *testing.T, x neardup.Checker, steps ...Step) {
	t.Helper()
	for _, s := range steps {
		v, err := x.Check(t.Context(), s.Page)
		if err != nil {
			t.Fatal(err)
		}
		s.check(t, v)
	}
}

func checkBatch(t *testing.T, x neardup.Checker) {
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
func unchanged(t *testing.T, x neardup.Checker) {
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
		{func() { d.Digest = 1 << 43 }, api.Changed, true}, // no stored Digest
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
func texts(t *testing.T, x neardup.Checker) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 20, 100, 300, 1000, 5000} {
		words := make([]string, n)
		for i := range words { // some words are repeated
			words[i] = fmt.Sprintf("%s%d", []string{"caf\u00e9", "\ud55c\uad6d\uc5b4",
				"Stra\u00dfe", "word"}[rng.IntN(4)], rng.IntN(1+3*n))
		}
		set := func(i int, word string) []string {
			w := slices.Clone(words)
			w[i] = word
			return w
		}
		swap := func(i, k int) []string {
			w := set(i, words[k])
			w[k] = words[i]
			return w
		}
		last, middle := n-1, n/2
		end := len(words[middle]) - 1
		changed := map[string][]string{
			"first word":   set(0, "replaced"),
			"last word":    set(last, "replaced"),
			"middle word":  set(middle, "replaced"),
			"word removed": words[:last],
			"word added":   append(slices.Clone(words), "added"),
			"word doubled": append(words[:1:1], words...),
			"word cut":     set(middle, words[middle][:end]+" "+words[middle][end:]),
		}
		if n > 1 {
			changed["words swapped"] = swap(0, last)
			changed["neighbors swapped"] = swap(middle-1, middle)
			changed["words joined"] = append(words[:last-1:last-1], words[last-1]+words[last])
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
			if len(w) == 0 || slices.Equal(w, words) {
				continue
			}
			text := strings.Join(w, " ")
			check(what, text, api.Changed)
			check(what+", again", text, api.Unchanged)
			check(what+", undone", plain, api.Changed)
		}
	}
}

// A verdict reports whether the earlier version of the URL was removed.
func removed(t *testing.T, x neardup.Checker) {
	ferry, museum := Text("ferry", 100), Text("museum", 100)
	take(t, x,
		Step{Page: page("a", ferry), Status: api.New},
		near(api.Duplicate, "a", page("b", ferry)), // b was never stored
		Step{Page: page("b", museum), Status: api.New},
		replacing("a", page("b", ferry)),
		near(api.Duplicate, "a", page("b", ferry)), // b was removed before
		Step{Page: page("b", museum), Status: api.New},
		near(api.Unchanged, "b", page("b", museum)),
		near(api.Duplicate, "b", page("", museum)),
		replacing("b", page("a", museum)))
}

// A page that a crawler could not save is deleted, and its next copy is New.
func deleted(t *testing.T, x neardup.Checker) {
	text := Text("ferry", 100)
	take(t, x, Step{Page: page("page 0", text), Status: api.New},
		near(api.Duplicate, "page 0", page("page 1", text)))
	if n, err := x.Delete(t.Context(), "page 0"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	take(t, x, Step{Page: page("page 2", text), Status: api.New})
}

// If near-duplicates are checked concurrently, exactly one is New.
func racing(t *testing.T, x neardup.Checker) {
	for round := range 20 {
		var wg sync.WaitGroup
		var got [16]api.Status
		body := Text(fmt.Sprintf("round%dx", round), 300)
		for i := range got {
			wg.Go(func() {
				v, err := x.Check(t.Context(), api.Page{URL: fmt.Sprint(round, "/", i),
					Body: fmt.Appendf(nil, "%s visitor%d", body, i)})
				if err != nil {
					t.Error(err)
				}
				got[i] = v.Status
			})
		}
		wg.Wait()
		counts := make(map[api.Status]int)
		for _, status := range got {
			counts[status]++
		}
		if counts[api.New] != 1 || counts[api.Duplicate] != 15 {
			t.Errorf("round %d: %v", round, counts)
		}
	}
}

// A stored document is found by its key and by its signature. No other document is found.
func documents(t *testing.T, x neardup.Checker) {
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
	for key, want := range map[string]error{
		"without text":                           fault.ErrNoText,
		strings.Repeat("k", match.MaxKeyBytes+1): fault.ErrTooLarge,
	} {
		verdicts, err := x.CheckDocuments(ctx, []match.Document{{Key: key}})
		if !errors.Is(err, want) || len(verdicts) > 0 {
			t.Errorf("%.20q: %v, %v", key, verdicts, err)
		}
	}
	if n, err := x.Delete(ctx, key, "b", "c"); n != 2 || err != nil {
		t.Error(n, err)
	}
}
