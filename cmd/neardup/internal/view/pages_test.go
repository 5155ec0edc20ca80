package view

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var must = testenv.Must

// testTexts has the words of each document whose key does not end in "lost".
type testTexts map[string]string

func (t testTexts) Words(_ context.Context, d *index.Document) ([]string, error) {
	if strings.HasSuffix(d.Key, "lost") {
		return nil, nil
	}
	return strings.Fields(t[d.Key]), nil
}

func (t testTexts) Page(_ context.Context, url string) (*neardup.Page, error) {
	text, found := t[url]
	if !found {
		return nil, nil
	}
	return &neardup.Page{URL: url, Body: []byte(text)}, nil
}

func (t testTexts) Documents() int { return len(t) }

const ferry = "the ferry leaves the harbour at nine in the morning and comes back late on each " +
	"day of the week but one "

// testPages returns the pages of an index of similar documents, some with hostile keys and texts.
func testPages(t *testing.T) *Pages {
	t.Helper()
	x, err := neardup.Open(filepath.Join(t.TempDir(), "ix"), nil)
	must(t, err)
	t.Cleanup(func() { x.Close() })
	texts := testTexts{
		"http://a.example/1":             strings.Repeat(ferry, 10),
		"http://b.example/2":             strings.Repeat(ferry, 9) + "and nothing more",
		"http://a.example/lost":          strings.Repeat(ferry, 10),
		"http://c.example/twice":         strings.Repeat(ferry, 20),
		"http://e.example/dropped":       strings.Repeat(ferry, 10),
		"http://e.example/dropped-empty": " ",
		"http://d.example/ ":             strings.Repeat(ferry, 10), "": strings.Repeat(ferry, 10),
		hostile:                          strings.Repeat(ferry, 10) + hostile,
		"http://evil.example/" + hostile: strings.Repeat(ferry, 10) + " <b>",
	}
	for key, text := range texts {
		if strings.Contains(key, "dropped") {
			continue
		}
		d, reason := check.Analyze(x.Signer(), neardup.Page{URL: key, Body: []byte(text),
			ContentType: "text/plain"})
		if reason != "" {
			t.Fatal(reason)
		}
		must(t, x.Add(context.Background(), d))
	}
	verdicts := func(status neardup.Status) int64 {
		return map[neardup.Status]int64{neardup.New: 20, neardup.Duplicate: 40}[status]
	}
	rule := match.Default(6)
	return New(x, Options{Rule: func() match.Rule { return rule },
		Verdicts: verdicts, Texts: texts})
}

func get(p *Pages, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	if form != nil {
		r = httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// TestPages: each page has its content, and hostile keys and texts are shown as text.
func TestPages(t *testing.T) {
	p := testPages(t)
	q := url.QueryEscape
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		has    []string
	}{
		{"/", nil, 200, []string{"documents stored</dt><dd>8<", "duplicate", "66.7 %",
			"compaction</th><td>none in the background"}},
		{"/search", nil, 200, []string{`name="q"`}},
		{"/search?q=http://a.example/1", nil, 200, []string{"number ", "http://b.example/2",
			"/compare?a=http%3A%2F%2Fa.example%2F1", "match", ">length<"}},
		{"/search?q=0123456789abcdef", nil, 200, []string{"<h2>New", "No stored document matches",
			"No other stored document"}},
		{"/search?q=nothing", nil, 200, []string{"No document has this key", "paste its text"}},
		{"/search?q=" + q(hostile), nil, 200, []string{"The document is stored", "&lt;script&gt;"}},
		{"/search", url.Values{"text": {strings.Repeat(ferry, 10)}}, 200,
			[]string{"<h2>Duplicate", "is dropped, because it matches", "http://a.example/1",
				"Distance in bits"}},
		{"/search", url.Values{"text": {"<html><body></body></html>"}}, 200,
			[]string{"<h2>Skipped", "The page is not stored: no text"}},
		{"/search", url.Values{"url": {"http://a.example/1"}, "text": {"another page, which is " +
			"about a museum"}}, 200, []string{"<h2>Changed", "stored with another text"}},
		{"/search?q=http://e.example/dropped", nil, 200,
			[]string{"<h2>Duplicate", "The page is dropped, because it matches",
				"/compare?a=http%3A%2F%2Fe.example%2Fdropped&amp;b="}},
		{"/search?q=http://e.example/dropped-empty", nil, 200,
			[]string{"<h2>Skipped", "not stored: no text"}},
		{"/compare?a=http://e.example/dropped&b=http://b.example/2", nil, 200,
			[]string{"They match", "<ins>"}},
		{"/compare?a=http://e.example/dropped-empty&b=http://b.example/2", nil, 200,
			[]string{"is skipped: no text"}},
		{"/search", url.Values{"text": {hostile}}, 200, []string{"&lt;script&gt;"}},
		{"/search", url.Values{"text": {strings.Repeat("x", maxPasted+1)}}, 413,
			[]string{"too large"}},
		{"/search", url.Values{"text": {strings.Repeat("x", 3*maxPasted+1<<20)}}, 413,
			[]string{"too large"}},
		{"/compare", nil, 200, []string{`name="a"`}},
		{"/compare?a=http://a.example/1&b=http://b.example/2", nil, 200,
			[]string{"They match", "<ins>", "Distance in bits"}},
		{"/compare?a=http://a.example/1&b=http://c.example/twice", nil, 200,
			[]string{"They do not match", "exceeded", "length"}},
		{"/compare?a=+http://a.example/1+&b=http://d.example/+", nil, 200,
			[]string{"They match", "http://d.example/ "}},
		{"/search?q=http://d.example/+", nil, 200, []string{"number "}},
		{"/search?q=+http://a.example/1%0A", nil, 200, []string{"number "}},
		{"/search?q=+0123456789abcdef+", nil, 200, []string{"<h2>New"}},
		{"/compare?a=http://a.example/1&b=http://a.example/lost", nil, 200,
			[]string{"They match", "do not have the text"}},
		{"/compare?a=http://a.example/1&b=" + q(hostile), nil, 200, []string{"&lt;script&gt;"}},
		{"/compare?a=http://a.example/1&b=%3Cscript%3E", nil, 200,
			[]string{"No document has the key &lt;script&gt;"}},
		{"/groups", nil, 200, []string{`name="host"`}},
		{"/groups?host=A.example", nil, 200, []string{"2 documents of this host",
			"http://b.example/2", ">without a key<"}},
		{"/groups?host=http://evil.example/x", nil, 200,
			[]string{"1 documents of this host", "&lt;script&gt;"}},
		{"/groups?host=" + q(hostile), nil, 200, []string{"0 documents"}},
		{"/nothing", nil, 404, []string{"no such page"}},
		{"/compare?a=%zz", nil, 400, []string{"cannot be read"}},
	} {
		w := get(p, c.path, c.form)
		if w.Code != c.status {
			t.Errorf("%.80s: %d, want %d", c.path, w.Code, c.status)
		}
		for _, part := range c.has {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("%.80s does not have %q:\n%s", c.path, part,
					w.Body.String()[strings.Index(w.Body.String(), "<main"):])
			}
		}
		checkSafe(t, w.Body.String())
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp,
			"default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") ||
			strings.Contains(csp, "unsafe") {
			t.Errorf("%.80s: the policy is %s", c.path, csp)
		}
	}
}

// TestRoom: requests over the limit get 503.
func TestRoom(t *testing.T) {
	p := testPages(t)
	p.scans.TryAcquire(1)
	if w := get(p, "/groups?host=a.example", nil); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	p.requests.TryAcquire(maxRequests)
	if w := get(p, "/", nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d", w.Code)
	}
	p.requests.Release(1)
	if w := get(p, "/", nil); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "documents stored") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// watched records whether a text is read that the limit does not count.
type watched struct {
	Texts
	pages     *Pages
	uncounted bool
}

func (w *watched) Words(ctx context.Context, d *index.Document) ([]string, error) {
	w.uncounted = w.uncounted || w.pages.noTexts()
	return w.Texts.Words(ctx, d)
}

// noTexts reports whether no text is in memory.
func (p *Pages) noTexts() bool {
	all := int64(runtime.GOMAXPROCS(0))
	none := p.texts.TryAcquire(all)
	if none {
		p.texts.Release(all)
	}
	return none
}

// TestTextsWait: the number of texts in memory is bounded.
func TestTextsWait(t *testing.T) {
	p := testPages(t)
	texts := &watched{Texts: p.opts.Texts, pages: p}
	p.opts.Texts = texts
	if w := get(p, "/compare?a=http://a.example/1&b=http://b.example/2",
		nil); w.Code != http.StatusOK || texts.uncounted || !p.noTexts() {
		t.Errorf("%d: uncounted: %v; some are left: %v", w.Code, texts.uncounted, !p.noTexts())
	}
	p.texts.TryAcquire(int64(runtime.GOMAXPROCS(0)))
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.words(ended, new(index.Document)); err == nil {
		t.Error("more texts in memory than the limit")
	}
}

// TestClosedIndex: the pages of a closed index are errors.
func TestClosedIndex(t *testing.T) {
	p := testPages(t)
	p.index.Close()
	for path, status := range map[string]int{"/": 503, "/search?q=a": 500, "/compare?a=a&b=b": 500,
		"/groups?host=a": 500} {
		if w := get(p, path, nil); w.Code != status {
			t.Errorf("%s: %d, want %d", path, w.Code, status)
		}
	}
}

// TestCompactionIsShown: the overview shows a running, a finished and a failed compaction.
func TestCompactionIsShown(t *testing.T) {
	for want, c := range map[string]compaction.BackgroundStats{
		"none in the background since the start": {},
		"running":                                {Running: true},
		"running: tables, 25.0 %": {Running: true,
			Progress: compaction.Progress{Stage: "tables", Done: 1, Total: 4}},
		"the last one in the background ended on 2 May 03:04": {Runs: 2,
			LastEnd: time.Date(2026, 5, 2, 3, 4, 0, 0, time.UTC)},
	} {
		o := new(overviewPage)
		if o.describe(c); o.Compaction != want {
			t.Errorf("%+v: %q, want %q", c, o.Compaction, want)
		}
	}
	o, text := &overviewPage{Verdicts: new(countTable)}, new(strings.Builder)
	o.describe(compaction.BackgroundStats{Failure: "no room on <disk>"})
	must(t, overviewTemplate().Execute(text, &frame{Page: o}))
	if !strings.Contains(text.String(), "failed and will be retried: no room on &lt;disk&gt;") {
		t.Error(text)
	}
}

// TestLargestGroups: the largest groups are kept, and of equal groups the first ones.
func TestLargestGroups(t *testing.T) {
	g := new(groupsPage)
	for n := range 1000 {
		g.Groups = append(g.Groups, group{First: fmt.Sprint(n), N: 2 + n%3})
		if len(g.Groups) == 2*maxGroups {
			g.keepLargest()
		}
	}
	g.keepLargest()
	if len(g.Groups) != maxGroups || g.Left != 1000-maxGroups || g.Groups[0].First != "2" ||
		g.Groups[maxGroups-1].First != fmt.Sprint(2+3*(maxGroups-1)) {
		t.Errorf("%d groups, %d left: %+v", len(g.Groups), g.Left, g.Groups)
	}
}

// TestLargeGroup: equal documents are one group, even if they are more than the limit.
func TestLargeGroup(t *testing.T) {
	p := testPages(t)
	for n := range maxOfGroup + 3 {
		d := index.Document{Key: fmt.Sprintf("http://same.example/%d", n),
			Fingerprint: 1, Tokens: 9}
		must(t, p.index.Add(t.Context(), d))
	}
	text := get(p, "/groups?host=same.example", nil).Body.String()
	if !strings.Contains(text, "200 documents or more, on any host") ||
		strings.Count(text, "on any host") != 1 || strings.Contains(text, "smaller groups") {
		t.Error(text[strings.Index(text, "<main"):])
	}
}

// TestMostDuplicates: the page of a host lists the documents with duplicates, the most first.
func TestMostDuplicates(t *testing.T) {
	p := testPages(t)
	document := func(key string, bits fingerprint.Fingerprint) index.Document {
		return index.Document{Key: "http://many.example/" + key, Fingerprint: bits, Tokens: 9}
	}
	_, err := p.index.CheckDocuments(t.Context(), []index.Document{document("one", 1<<40-1),
		document("two", 1<<20-1), document("a", 1<<40-1), document("b", 1<<20-1),
		document("c", 1<<20-1)})
	must(t, err)
	text := get(p, "/groups?host=many.example", nil).Body.String()
	_, most, _ := strings.Cut(text, "Documents with the most duplicates")
	one, two := strings.Index(most, "many.example/one"), strings.Index(most, "many.example/two")
	if two < 0 || one < two {
		t.Error(text[strings.Index(text, "<main"):])
	}
}
