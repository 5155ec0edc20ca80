package page

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestTextOfTree compares the text of real pages with the text of their trees, as
// golang.org/x/net/html builds them. Few pages differ: pages whose markup a browser moves
// in or out of tables, and pages with parts at the limit of a menu.
func TestTextOfTree(t *testing.T) {
	for _, set := range []string{"pages", "recrawls"} {
		pages, other := realPages(t, set, oneOf(4)), 0
		for i, page := range pages {
			page, _ = decode(page, "")
			root, err := html.Parse(bytes.NewReader(page))
			if err != nil {
				continue // x/net/html gives up on elements that are nested deep
			}
			want := treeOf(root, false).text
			if got := textOf(page, Visible); withoutSpace(got) != withoutSpace(want) {
				t.Logf("%s: page %d has %d bytes of text, its tree has %d", set, i, len(got), len(want))
				other++
			}
		}
		if other > max(len(pages)/30, 2) { // a sample of 30 pages may have 2 of the few that differ
			t.Errorf("%s: %d of %d pages have another text than their trees", set, other, len(pages))
		}
	}
}

// treeText is the text of a part of a tree.
type treeText struct {
	text                 string
	linked, mains, asked int
}

// treeOf is a second implementation of the rule for hidden text.
func treeOf(n *html.Node, inPart bool) (t treeText) {
	has := map[string]string{}
	for _, a := range n.Attr {
		has[a.Key] = a.Val
	}
	switch {
	case n.Type == html.TextNode:
		t.text = n.Data
	case n.Type != html.ElementNode:
	case slices.Contains(strings.Fields("annotation audio canvas datalist iframe noembed noframes rp script style title video"), n.Data):
		return t
	case n.Data == "template" && has["shadowrootmode"] == "":
		return t
	case n.Data == "svg":
		return foreignText(n, inPart)
	}
	_, hidden := has["hidden"]
	_, open := has["open"]
	_, link := has["href"]
	nav := n.Data == "nav" || has["role"] == "navigation"
	part := n.Type == html.ElementNode && n.Data != "html" && n.Data != "body" && !strings.HasPrefix(has["id"], "S:") &&
		(nav || hidden || displayNone([]byte(has["style"])) || n.Data == "dialog" && !open || n.Data == "noscript")
	named := nameHint([]byte(has["class"]+" "+has["id"]))&consent != 0
	part = part || inPart && named && slices.Contains(strings.Fields("div section aside dialog form footer header article center"), n.Data)
	if n.Data == "noscript" && n.FirstChild != nil {
		content := n.FirstChild.Data
		if !strings.Contains(content, "<") {
			content = html.UnescapeString(content)
		}
		if root, err := html.Parse(strings.NewReader(content)); err == nil {
			n = &html.Node{Type: html.ElementNode, Data: "noscript", FirstChild: root, LastChild: root}
		}
	}
	for child := range n.ChildNodes() {
		c := treeOf(child, inPart || part)
		t = treeText{t.text + c.text, t.linked + c.linked, t.mains + c.mains, t.asked + c.asked}
	}
	size := len(spaced(t.text))
	switch {
	case n.Data == "a" && link, n.Data == "button", n.Data == "select":
		t.linked = size
	case block&classOf(n.Data) != 0:
		t.text = "\n" + t.text + "\n"
	}
	switch {
	case n.Data == "main":
		t.mains++
	case n.Data == "button":
		t.asked++
	}
	if !part || t.mains > 0 {
		return t
	}
	lines := 0
	for line := range strings.SplitSeq(t.text, "\n") {
		if line = spaced(line); len(line) >= minProse {
			lines += len(line)
		}
	}
	javaScript := n.Data == "noscript" && strings.Contains(strings.ToLower(t.text), "javascript")
	cookies := t.asked > 0 && strings.Count(t.text, "ookie")*cookieShare >= size
	if 2*t.linked > size || nav && 2*lines < size || named && size <= maxConsent || size <= maxNotice && (javaScript || cookies) {
		return treeText{asked: t.asked}
	}
	return t
}

// foreignText is the text in the foreignObject elements of an svg element.
func foreignText(n *html.Node, inPart bool) (t treeText) {
	for child := range n.ChildNodes() {
		if child.Data == "foreignObject" {
			t.text += treeOf(child, inPart).text
		} else {
			t.text += foreignText(child, inPart).text
		}
	}
	return t
}

func classOf(name string) class {
	key := uint64(0)
	for _, c := range []byte(name) {
		key = nextKey(key, c)
	}
	return elementOf(key, []byte(name)).class
}

func spaced(s string) string { return strings.Join(strings.FieldsFunc(s, isSpace), " ") }

func withoutSpace(s string) string { return strings.Join(strings.FieldsFunc(s, isSpace), "") }
