package page

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// within fails the test if work takes longer than limit.
func within(t *testing.T, limit time.Duration, work func()) {
	t.Helper()
	start := time.Now()
	defer time.AfterFunc(limit, func() { panic(t.Name() + " takes longer than " + limit.String()) }).Stop()
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
	for _, tag := range []string{"div", "b", "ul", "table", "li", "td", "svg", "span hidden", "details", "article", "template", "select", "button", "a href=x", "x-y"} {
		name, _, _ := strings.Cut(tag, " ")
		open, end := strings.Repeat("<"+tag+">", deep), strings.Repeat("</"+name+">", deep)
		for how, body := range map[string]string{
			"closed":          open + "words within" + end + "<p>words behind",
			"left open":       open + "words within<p>words behind",
			"in wrong order":  strings.Repeat("<"+tag+"><i>", deep) + "words within" + strings.Repeat("</"+name+">", deep) + strings.Repeat("</i>", deep) + "<p>words behind",
			"end tags only":   end + "words within" + end + "<p>words behind",
			"opened and text": strings.Repeat("<"+tag+">w", deep) + "words within<p>words behind",
		} {
			for _, mode := range []TextMode{Visible, Main} {
				t.Run(tag+", "+how+"/"+mode.name(), func(t *testing.T) {
					within(t, 5*time.Minute, func() {
						if _, text := titleAndText([]byte(body), "", mode); mode == Visible && !strings.Contains(text, "words behind") {
							t.Errorf("%d bytes of text, without its end: %.60q", len(text), text)
						}
					})
				})
			}
		}
	}
}

// TestHugeAttributes reads a tag with an attribute of 100 MB and one with many small attributes.
// Neither has text, and memory must stay a small multiple of the page.
func TestHugeAttributes(t *testing.T) {
	size := 4 << 20
	if os.Getenv("NEARDUP_LONG") != "" {
		size = 100 << 20
	}
	for name, fill := range map[string]string{"one value": "x", "many": "a=b ", "quotes": `"`, "one style": "display:block;", "entities": "&amp;"} {
		for _, tag := range []string{"<p a='", "<p style='", "<p class='", "<meta charset='", "<meta http-equiv=content-type content='"} {
			t.Run(tag+" "+name, func(t *testing.T) {
				body := []byte(tag + strings.Repeat(fill, size/len(fill)) + "'>words behind")
				within(t, 5*time.Minute, func() {
					peak := testenv.PeakHeap(func() {
						if _, text := titleAndText(body, "", Visible); text != "words behind" {
							t.Errorf("%d bytes of text: %.60q", len(text), text)
						}
					})
					if peak > 24*uint64(size) {
						t.Errorf("%d bytes for a page of %d", peak, size)
					}
				})
			})
		}
	}
}

// TestEntityBomb tests that nested entity definitions are not expanded. HTML has no entity
// definitions.
func TestEntityBomb(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("<!DOCTYPE lolz [<!ENTITY lol0 \"lol\">\n")
	for i := 1; i < 10; i++ {
		bomb.WriteString("<!ENTITY lol" + string(rune('0'+i)) + " \"" + strings.Repeat("&lol"+string(rune('0'+i-1))+";", 10) + "\">\n")
	}
	bomb.WriteString("]><p>&lol9; words behind")
	for _, mode := range []TextMode{Visible, Main} {
		_, text := titleAndText([]byte(bomb.String()), "", mode)
		if len(text) > bomb.Len() || mode == Visible && !strings.Contains(text, "words behind") {
			t.Errorf("%s: %d bytes of text: %.60q", mode.name(), len(text), text)
		}
	}
	references := strings.Repeat("&#x10FFFF;&#0;&#55555555555555555555;&notit;&;&#;&#x;", 10_000)
	_, text := titleAndText([]byte("<p>"+references+" words behind"), "", Visible)
	if !strings.HasSuffix(text, "words behind") || len(text) > 2*len(references) {
		t.Errorf("%d bytes of text of %d of references", len(text), len(references))
	}
}
