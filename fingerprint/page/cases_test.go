package page

import (
	"fmt"
	"strings"
	"testing"
	"text/template"

	"github.com/neardup/neardup/internal/testing/testenv"
	"golang.org/x/net/html/charset"
)

// caseFuncs are the functions of the templates in testdata/cases.
var caseFuncs = template.FuncMap{
	"repeat":   func(n int, s string) string { return strings.Repeat(s, n) },
	"encode":   encode,
	"french":   func() string { return "Été à la plage, où l'on s'amuse" },
	"chinese":  func() string { return "网页查重系统的一个例子" },
	"russian":  func() string { return "Съешь ещё этих мягких французских булок" },
	"japanese": func() string { return "これは日本語の文書です" },
}

func encode(label, s string) (string, error) {
	e, _ := charset.Lookup(label)
	return e.NewEncoder().String(s)
}

// prose returns n different paragraphs, each long enough to count as prose.
func prose(about string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<p>Paragraph %d is about %s, goes on for a while, and ends with a full "+
			"stop after all.</p>\n", i, about)
	}
	return b.String()
}

// TestCases extracts the texts of the pages in testdata/cases.
func TestCases(t *testing.T) {
	body, aside := prose("gardens", 6), prose("other things", 2)
	full := strings.NewReplacer("BODY", body, "ASIDE", aside)
	_, bodyText := titleAndText([]byte(body), "", Visible)
	_, asideText := titleAndText([]byte(aside), "", Visible)
	brief := strings.NewReplacer(bodyText, "BODY", asideText, "ASIDE")
	testenv.Cases(t, "testdata/cases", caseFuncs, testenv.Commands{
		"visible": testenv.Each(func(t *testing.T, page string) []string {
			page = strings.ReplaceAll(page, "×", "<a href=/>menu</a>")
			title, text := titleAndText([]byte(page), "text/html; charset=utf-8", Visible)
			if title != "" {
				return []string{"title " + title, text}
			}
			return []string{text}
		}),
		"main": testenv.Each(func(t *testing.T, page string) []string {
			_, text := titleAndText([]byte(full.Replace(page)), "", Main)
			return []string{brief.Replace(text)}
		}),
		"decode": testenv.Each(func(t *testing.T, page string) []string {
			contentType, body, _ := strings.Cut(page, " ")
			text, name := decode([]byte(body), strings.TrimPrefix(contentType, "-"))
			return []string{name, string(text)}
		}),
		"sign":    testenv.Each(readDocument),
		"hostile": testenv.Each(readHostile),
		"without-urls": testenv.Each(func(t *testing.T, text string) []string {
			return []string{textWithoutURLs(text)}
		}),
	})
}

func textWithoutURLs(text string) string {
	var w textWriter
	return string(w.withoutURLs([]byte(text)))
}
