package page

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
)

func FuzzExtract(f *testing.F) {
	for _, seed := range []string{
		"", "<title>a</title><p>b&nGt;", "<svg><p hidden>x", "<li hidden>a<li>b<ul></ul></ul>",
		"<script><!--<script></script>x</script>y", "\xff\xfea\x00", "<meta charset=gbk>\xc4\xe3",
		"<a b='", "<!--",
		"<noscript>a&amp;<p>b<!--</noscript>c", "<noscript>&lt;p&gt;a</noscript>",
		"<iframe srcdoc='a<p hidden>b&amp;lt;'></iframe>", "<svg><foreignObject><p>a</svg>b",
		"<nav><a href=/>a</a></nav>", "<template id=B:0></template>x<div hidden id=S:0><p>y</div>",
		"<template id=a>b</template><script>$df(\"a\")", "<p><template shadowrootmode=open>a",
		"<textarea>&amp</textarea>", "<plaintext><b>", "<main><p>a</main><div class=nav>b",
		"<ul><li class=menu>a<li>b<table><td></ul></table>", "<td hidden><table></td></table>x",
	} {
		f.Add([]byte(seed), "text/html; charset=shift_jis")
		f.Add([]byte(seed), "")
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		before := bytes.Clone(body)
		title, visible := titleAndText(body, contentType, Visible)
		if !bytes.Equal(before, body) {
			t.Fatal("the page was changed")
		}
		if !utf8.ValidString(visible) || !utf8.ValidString(title) {
			t.Fatalf("not UTF-8: %q, %q", title, visible)
		}
		if len(visible)+len(title) > 3*len(body) {
			t.Fatalf("%d bytes of text from %d", len(visible)+len(title), len(body))
		}
		for line := range strings.SplitSeq(visible, "\n") {
			if line != strings.Join(strings.FieldsFunc(line, isSpace), " ") {
				t.Fatalf("white space is left in %q", line)
			}
		}
		_, main := titleAndText(body, contentType, Main)
		checkLines(t, title, main, visible)
		decoded, _ := decode(body, contentType)
		// in noscript, a zero byte may become either
		withoutZeros := strings.NewReplacer("\x00", "\uFFFD")
		if all := allText(decoded); !subsequence(withoutZeros.Replace(visible),
			withoutZeros.Replace(all)) {
			t.Fatalf("%q is not in the text %q of the page", visible, all)
		}
	})
}

// allText returns every text token of a page and of the documents within it, hidden or not.
func allText(doc []byte) string {
	var b strings.Builder
	z := html.NewTokenizer(bytes.NewReader(doc))
	noscript := false
	for {
		switch token := z.Next(); token {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			text := bytes.Clone(z.Text())
			if noscript {
				text = []byte(allText(text) + allText([]byte(html.UnescapeString(string(text)))))
			}
			b.Write(text)
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			for _, a := range t.Attr {
				if a.Key == "srcdoc" {
					b.WriteString(allText([]byte(a.Val)))
				}
			}
			noscript = t.Data == "noscript"
			continue
		}
		noscript = false
	}
}

// subsequence reports whether in has all characters of s in order, without white space.
func subsequence(s, in string) bool {
	for word := range strings.FieldsFuncSeq(s, isSpace) {
		for _, r := range word {
			i := strings.IndexRune(in, r)
			if i < 0 {
				return false
			}
			in = in[i+utf8.RuneLen(r):]
		}
	}
	return true
}

// checkLines checks that a main text, after an optional title, consists of lines of the visible
// text in their order.
func checkLines(t *testing.T, title, main, visible string) {
	t.Helper()
	if main != visible && title != "" {
		main = strings.TrimPrefix(strings.TrimPrefix(main, title), "\n")
	}
	rest := strings.Split(visible, "\n")
	for line := range strings.SplitSeq(main, "\n") {
		at := slices.Index(rest, line)
		if at < 0 {
			t.Fatalf("%q of the main text is not in the visible text %q, or not in that place",
				line, visible)
		}
		rest = rest[at+1:]
	}
}
