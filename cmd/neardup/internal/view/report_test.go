package view

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/internal/match"
	"golang.org/x/net/html"
)

// hostile is a key and a text that would run a script, close an element or reverse the text.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'` + "\x1b[31m\u202e" +
	`javascript:alert(1)</style></svg>{{.}}`

func hostileReport() *Report {
	words := func(s string) []string { return strings.Fields(hostile + " a b c " + s) }
	a, b := compare.Document{Key: hostile, Tokens: 9, Words: words(hostile)},
		compare.Document{Key: hostile, Tokens: 9, Fingerprint: 3, Words: words("d")}
	pair := compare.Documents(&a, &b, match.Default(3), 10)
	counts := []Count{{Name: hostile, N: 3}, {Name: "other", N: 1}}
	return &Report{
		Inputs: []string{hostile}, Index: hostile, Analyzer: hostile, Rule: match.Default(3),
		Records: 4, Compared: 4, Duplicates: 2,
		Verdicts: counts, Skips: counts, Groups: counts, Distances: []int64{1, 0, 1, 0},
		Sample: &compare.Pairs{Match: make([]int64, 10), Miss: make([]int64, 10)},
		Inside: []*compare.Result{pair}, Outside: []*compare.Result{pair}, Notes: []string{hostile},
	}
}

// TestReportIsSafe: hostile keys, texts and names are shown as text.
func TestReportIsSafe(t *testing.T) {
	var out strings.Builder
	must(t, hostileReport().Write(&out))
	checkSafe(t, out.String())
	if n := strings.Count(out.String(), "&lt;script&gt;"); n < 12 {
		t.Errorf("hostile text is there %d times", n)
	}
}

// checkSafe fails if a page has an element that loads or runs anything, an event handler, a style
// without the hash of the policy, or a reference to another site.
func checkSafe(t *testing.T, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	must(t, err)
	styles := 0
	for n := range root.Descendants() {
		// a field shows its input unchanged
		if n.Type == html.TextNode && n.Parent.Data != "textarea" &&
			strings.ContainsAny(n.Data, "\x1b\u202e") {
			t.Errorf("the page has %q", n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "img", "iframe", "object", "embed", "base", "image", "use", "foreignObject",
			"audio", "video":
			t.Errorf("the page has <%s>", n.Data)
		case "style":
			styles++
			sum := sha256.Sum256([]byte(n.FirstChild.Data))
			if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
				"'"; want != styleHash {
				t.Errorf("the style has the hash %s, the policy %s", want, styleHash)
			}
		}
		for _, a := range n.Attr {
			to, isReference := a.Val,
				slices.Contains([]string{"href", "src", "action", "formaction", "data", "srcset"},
					a.Key)
			inside := strings.HasPrefix(to, "#") || strings.HasPrefix(to, "/") &&
				!strings.HasPrefix(to, "//") || n.Data == "link" &&
				strings.HasPrefix(to, "data:image/svg+xml,")
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || isReference && !inside {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
	}
	if styles != 1 || strings.Contains(style, "url(") || strings.Contains(style, "@import") {
		t.Errorf("%d styles, or one that refers to something", styles)
	}
	if strings.Contains(page, "ZgotmplZ") {
		t.Error("the template engine has refused a value")
	}
}

// TestEmptyReport: a report without documents is valid.
func TestEmptyReport(t *testing.T) {
	var out strings.Builder
	if err := new(Report).Write(&out); err != nil ||
		!strings.Contains(out.String(), "There are no duplicates.") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{count(int64(0)), "0"}, {count(int64(999)), "999"}, {count(int64(1000)), "1\u202f000"},
		{count(uint64(12345678)), "12\u202f345\u202f678"}, {count(-1000), "-1\u202f000"},
		{shortCount(999), "999"}, {shortCount(12345), "12.35k"}, {shortCount(2.5e6), "2.5M"},
		{shortCount(3e9), "3G"},
		{percent(1, 3), "33.3 %"}, {percent(0, 0), "-"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if long := shownKey(strings.Repeat("é", 1000)); len(long) > 320 ||
		!strings.Contains(long, " ... ") {
		t.Errorf("%d bytes: %s", len(long), long)
	}
}

// TestChart: bars are stacked, a line follows the limit, and the table has the numbers.
func TestChart(t *testing.T) {
	c := (&Chart{X: "bits", Y: "pairs"}).draw(1, "k = 1",
		Series{"match", "b", []int64{2, 4, 0}}, Series{"differ", "d", []int64{4, 0, 0}})
	if b := c.Bars; len(b) != 3 || !near(b[0].Y+b[0].H, c.Bottom) || !near(b[1].Y+b[1].H, b[0].Y) ||
		!near(b[1].Y, chartTop) || !near(b[1].H, 2*b[0].H) || !near(b[2].Y+b[2].H, c.Bottom) {
		t.Errorf("bars: %+v", b)
	}
	if c.Limit == nil || !near(c.Limit.X, c.Left+(c.Right-c.Left)*2/3) {
		t.Errorf("limit: %+v", c.Limit)
	}
	if len(c.Grid) != 3 || !near(c.Grid[2], chartTop) || len(c.Legend) != 2 {
		t.Errorf("%d lines, %d series", len(c.Grid), len(c.Legend))
	}
	want := [][]string{{"bits", "match", "differ"}, {"0", "2", "4"}, {"1", "4", "0"},
		{"2", "0", "0"}}
	if !reflect.DeepEqual(c.Rows, want) {
		t.Errorf("table: %v", c.Rows)
	}
	if c = (&Chart{}).draw(3, "", Series{Counts: []int64{1, 1, 1}}); c.Limit != nil {
		t.Errorf("a limit after the axis: %+v", c.Limit)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
