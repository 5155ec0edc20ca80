package view

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
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

// TestReportIsSafe: hostile keys, texts and names are shown as text, and an empty report is valid.
func TestReportIsSafe(t *testing.T) {
	var out strings.Builder
	must(t, hostileReport().Write(&out), checkSafe(out.String()))
	if n := strings.Count(out.String(), "&lt;script&gt;"); n < 12 {
		t.Errorf("hostile text is there %d times", n)
	}
	out.Reset()
	must(t, new(Report).Write(&out), checkSafe(out.String()))
	if !strings.Contains(out.String(), "There are no duplicates.") {
		t.Error("empty report:", out.String())
	}
}

// checkSafe returns an error if a page has an element that loads or runs anything, an event
// handler, a style without the hash of the policy, or a reference to another site.
func checkSafe(page string) error {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil || strings.Contains(page, "ZgotmplZ") {
		return fmt.Errorf("%v, or the template engine has refused a value", err)
	}
	styles := 0
	for n := range root.Descendants() {
		// a field shows its input unchanged
		if n.Type == html.TextNode && n.Parent.Data != "textarea" &&
			strings.ContainsAny(n.Data, "\x1b\u202e") {
			return fmt.Errorf("the page has %q", n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		if slices.Contains(activeElements, n.Data) {
			return fmt.Errorf("the page has <%s>", n.Data)
		}
		if n.Data == "style" {
			styles++
			sum := sha256.Sum256([]byte(n.FirstChild.Data))
			if hash := base64.StdEncoding.EncodeToString(sum[:]); "'sha256-"+hash+
				"'" != styleHash {
				return fmt.Errorf("the style has the hash %s, the policy %s", hash, styleHash)
			}
		}
		for _, a := range n.Attr {
			inside := strings.HasPrefix(a.Val, "#") ||
				strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//") ||
				n.Data == "link" && strings.HasPrefix(a.Val, "data:image/svg+xml,")
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" ||
				slices.Contains(references, a.Key) && !inside {
				return fmt.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
	}
	if styles != 1 || strings.Contains(style, "url(") || strings.Contains(style, "@import") {
		return fmt.Errorf("%d styles, or a style with a reference", styles)
	}
	return nil
}

var (
	activeElements = strings.Fields("script img iframe object embed base image use " +
		"foreignObject audio video")
	references = strings.Fields("href src action formaction data srcset") // attributes
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{count(int64(0)), "0"}, {count(int64(999)), "999"}, {count(int64(1000)), "1\u202f000"},
		{count(uint64(12345678)), "12\u202f345\u202f678"}, {count(-1000), "-1\u202f000"},
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

// TestTablesOfReport: the tables have the numbers, and the largest number has the longest bar.
func TestTablesOfReport(t *testing.T) {
	r := hostileReport()
	r.Sample = &compare.Pairs{Match: []int64{2, 4, 0}, Miss: []int64{0, 1, 8}}
	p := r.page()
	want := []Count{{"0, match", 2, 25, "b"}, {"1, match", 4, 50, "b"},
		{"1, do not match", 1, 12.5, "d"}, {"2, do not match", 8, 100, "d"}}
	if !slices.Equal(p.ByPairs.Rows, want) {
		t.Errorf("pairs: %+v, want %+v", p.ByPairs.Rows, want)
	}
	want = []Count{{"0", 1, 100, ""}, {"1", 0, 0, ""}, {"2", 1, 100, ""}, {"3", 0, 0, ""}}
	if !slices.Equal(p.ByDistance.Rows, want) {
		t.Errorf("distances: %+v, want %+v", p.ByDistance.Rows, want)
	}
	if v := p.ByVerdict; v.Total != 4 || v.Rows[1].Share != 100./3 {
		t.Errorf("verdicts: %+v", v)
	}
}
