package page

import (
	"strings"
	"testing"
	"time"
)

// within fails the test if work takes longer than limit.
func within(t *testing.T, limit time.Duration, work func()) {
	t.Helper()
	start := time.Now()
	defer time.AfterFunc(limit,
		func() { panic(t.Name() + " takes longer than " + limit.String()) }).Stop()
	work()
	t.Log(time.Since(start))
}

// TestDeepNesting nests elements 100,000 deep, closed in order, in the wrong order, or not at
// all. The text within them and after them must be found.
func TestDeepNesting(t *testing.T) {
	deep := 100_000
	if testing.Short() {
		deep = 20_000
	}
	for _, tag := range []string{"div", "b", "ul", "table", "li", "td", "svg", "span hidden",
		"details", "article", "template", "select", "button", "a href=x", "x-y"} {
		name, _, _ := strings.Cut(tag, " ")
		open, end := strings.Repeat("<"+tag+">", deep), strings.Repeat("</"+name+">", deep)
		for how, body := range map[string]string{
			"closed":    open + "words within" + end + "<p>words behind",
			"left open": open + "words within<p>words behind",
			"in wrong order": strings.Repeat("<"+tag+"><i>", deep) + "words within" +
				strings.Repeat("</"+name+">", deep) + strings.Repeat("</i>", deep) +
				"<p>words behind",
			"end tags only":   end + "words within" + end + "<p>words behind",
			"opened and text": strings.Repeat("<"+tag+">w", deep) + "words within<p>words behind",
		} {
			for _, mode := range []TextMode{Visible, Main} {
				t.Run(tag+", "+how+"/"+mode.name(), func(t *testing.T) {
					within(t, 5*time.Minute, func() {
						if _, text := titleAndText([]byte(body), "", mode); mode == Visible &&
							!strings.Contains(text, "words behind") {
							t.Errorf("%d bytes of text, without its end: %.60q", len(text), text)
						}
					})
				})
			}
		}
	}
}
