package page

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Real pages have the text that the tree of the HTML standard has, but for those
// that hide nearly all of it, and for what browsers move in or out of tables.
func TestTextOfTree(t *testing.T) {
	for _, set := range []string{"pages", "recrawls"} {
		pages, other := realPages(t, set, oneOf(4)), 0
		for i, page := range pages {
			page, _ = decode(page, "")
			root, err := html.Parse(bytes.NewReader(page))
			if err != nil {
				continue // x/net/html gives up on elements that are nested deep
			}
			var want strings.Builder
			writeVisible(&want, root)
			if got := textOf(page, Visible); withoutSpace(got) != withoutSpace(want.String()) {
				t.Logf("%s: page %d has %d bytes of text, that of its tree %d", set, i, len(got), want.Len())
				other++
			}
		}
		if other > len(pages)/80 {
			t.Errorf("%s: %d of %d pages have another text than their trees", set, other, len(pages))
		}
	}
}

func writeVisible(b *strings.Builder, n *html.Node) {
	if n.Type == html.TextNode {
		b.WriteString(n.Data)
	}
	if n.Type == html.ElementNode && notShown(n) {
		return
	}
	for child := range n.ChildNodes() {
		writeVisible(b, child)
	}
}

func notShown(n *html.Node) bool {
	if slices.Contains(strings.Fields("annotation audio canvas datalist iframe nav noembed noframes noscript rp script style svg template title video"), n.Data) {
		return true
	}
	has := map[string]string{}
	for _, a := range n.Attr {
		has[a.Key] = a.Val
	}
	_, hidden := has["hidden"]
	_, open := has["open"]
	hides := hidden || has["role"] == "navigation" || displayNone([]byte(has["style"])) || n.Data == "dialog" && !open
	return hides && n.Data != "html" && n.Data != "body"
}

func withoutSpace(s string) string { return strings.Join(strings.FieldsFunc(s, isSpace), "") }
