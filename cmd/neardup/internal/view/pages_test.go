package view

import (
	"context"
	"fmt"
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
	"github.com/rogpeppe/go-internal/testscript"
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
	long := strings.Repeat(ferry, 10)
	texts := testTexts{"http://a.example/1": long, "http://a.example/lost": long, "": long,
		"http://b.example/2":     strings.Repeat(ferry, 9) + "and nothing more",
		"http://c.example/twice": strings.Repeat(ferry, 20), "http://d.example/ ": long,
		"http://e.example/dropped": long, "http://e.example/dropped-empty": " ",
		hostile: long + hostile, "http://evil.example/" + hostile: long + " <b>",
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
		must(t, x.Add(t.Context(), d))
	}
	verdicts := func(status neardup.Status) int64 {
		return map[neardup.Status]int64{neardup.New: 20, neardup.Duplicate: 40}[status]
	}
	return New(x, Options{Rule: match.Default(6), Verdicts: verdicts, Texts: texts})
}

func get(p *Pages, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	if len(form) > 0 {
		r = httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// TestPages runs the scripts in testdata. "page PATH [FIELD=VALUE]..." sends a form, if there are
// fields, and prints the status and the page, which must be safe. "close" closes the index.
func TestPages(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"page": pageInScript,
			"close": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(ts.Value("pages").(*Pages).index.Close())
			},
		},
		Setup: func(env *testscript.Env) error {
			env.Values["pages"] = testPages(t)
			env.Setenv("FERRY", strings.Repeat(ferry, 10))
			env.Setenv("HOSTILE", hostile)
			env.Setenv("QUERY", url.QueryEscape(hostile))
			return nil
		},
	})
}

func pageInScript(ts *testscript.TestScript, _ bool, args []string) {
	form := make(url.Values)
	for _, field := range args[1:] {
		name, value, _ := strings.Cut(field, "=")
		form.Set(name, value)
	}
	w := get(ts.Value("pages").(*Pages), args[0], form)
	ts.Check(checkSafe(w.Body.String()))
	csp := w.Header().Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") ||
		!strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
		ts.Fatalf("the policy is %s", csp)
	}
	fmt.Fprintf(ts.Stdout(), "%d\n%s", w.Code, w.Body)
}

// TestLimits: requests, scans, texts in memory and the size of a pasted text are bounded.
func TestLimits(t *testing.T) {
	p, texts := testPages(t), int64(runtime.GOMAXPROCS(0))
	want := func(path string, form url.Values, status int) {
		t.Helper()
		w := get(p, path, form)
		if w.Code != status || (status == 503) != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%s: %d, want %d; %v", path, w.Code, status, w.Header())
		}
	}
	for _, size := range []int{maxPasted + 1, 3*maxPasted + 1<<20} {
		want("/search", url.Values{"text": {strings.Repeat("x", size)}}, 413)
	}
	want("/compare?a=http://a.example/1&b=http://b.example/2", nil, 200)
	if !p.texts.TryAcquire(texts) {
		t.Fatal("texts are in memory after the comparison")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.words(ended, new(index.Document)); err == nil {
		t.Error("more texts in memory than the limit")
	}
	p.scans.TryAcquire(1)
	want("/groups?host=a.example", nil, 503)
	p.requests.TryAcquire(maxRequests)
	want("/", nil, 503)
	p.requests.Release(1)
	want("/", nil, 200)
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

// TestGroups: equal documents are one group, even if they are more than the limit. The page of a
// host lists the documents with duplicates, the most first.
func TestGroups(t *testing.T) {
	p := testPages(t)
	document := func(key string, bits fingerprint.Fingerprint) index.Document {
		return index.Document{Key: "http://" + key, Fingerprint: bits, Tokens: 9}
	}
	for n := range maxOfGroup + 3 {
		must(t, p.index.Add(t.Context(), document(fmt.Sprint("same.example/", n), 1)))
	}
	text := get(p, "/groups?host=same.example", nil).Body.String()
	if !strings.Contains(text, "200 documents or more, on any host") ||
		strings.Count(text, "on any host") != 1 || strings.Contains(text, "smaller groups") {
		t.Error(text[strings.Index(text, "<main"):])
	}
	_, err := p.index.CheckDocuments(t.Context(), []index.Document{
		document("many.example/one", 1<<40-1), document("many.example/two", 1<<20-1),
		document("many.example/a", 1<<40-1), document("many.example/b", 1<<20-1),
		document("many.example/c", 1<<20-1)})
	must(t, err)
	text = get(p, "/groups?host=many.example", nil).Body.String()
	_, most, _ := strings.Cut(text, "Documents with the most duplicates")
	one, two := strings.Index(most, "many.example/one"), strings.Index(most, "many.example/two")
	if two < 0 || one < two {
		t.Error(text[strings.Index(text, "<main"):])
	}
}
