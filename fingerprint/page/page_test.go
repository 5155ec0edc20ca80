package page

import (
	"bytes"
	"strings"
	"testing"
)

func TestVisibleText(t *testing.T) {
	for _, test := range []struct{ name, html, title, text string }{
		{"empty", "", "", ""},
		{"text only", "a  b\n\tc", "", "a b c"},
		{"title apart", "<title> A\n B </title><p>text", "A B", "text"},
		{"first title", "<title>A</title><title>B</title>x", "A", "x"},
		{"numbers beyond Unicode", "<p>&#1114112;&#18446744073709551681;&#x10000000000000041;", "",
			"\uFFFD\uFFFD\uFFFD"},
		{"entities", "<p>a&amp;b &eacute; &#x41;&#66 &lt;p&gt; &nosuch; &copy", "",
			"a&b é AB <p> &nosuch; ©"},
		{"blocks", "<div>a<p>b</p>c</div><ul><li>d<li>e</ul>", "", "a\nb\nc\nd\ne"},
		{"inline", "<b>a</b>b <i>c</i> d<span>e</span>", "", "ab c de"},
		{"cells and breaks", "<table><tr><td>a<td>b</tr></table>c<br>d<hr>e", "", "a\nb\nc\nd\ne"},
		{"script and style", "a<script>if (x<y) '</p>'</script><style>b{}</style>c", "", "ac"},
		{"script with comment", "a<script><!-- <script>x</script> y --></script>b", "", "ab"},
		{"script case", "a<SCRIPT>x</ScRiPt >b", "", "ab"},
		{"noscript", "a<noscript>b<p>c&amp;</p></div>d</noscript>e", "", "ab\nc&\nde"},
		{"noscript that asks for JavaScript",
			"a<noscript><p>Please enable JavaScript.</p></noscript>b", "", "ab"},
		{"escaped noscript", "a<noscript>&lt;img src=x&gt;&lt;p>b&lt;/p&gt;</noscript>c",
			"", "a\nb\nc"},
		{"noscript with an open comment", "a<noscript>b<!--</noscript>c-->d", "", "abc-->d"},
		{"iframe with a document", "a<iframe srcdoc='<title>x</title><p>b &amp;amp; " +
			"c</div>'>x</iframe>d", "", "a\nb & c\nd"},
		{"iframe in an iframe", "a<iframe srcdoc=\"b<iframe " +
			"srcdoc='<p>c'></iframe><template>\"></iframe>d", "", "a\nb\nc\nd"},
		{"shadow root", "<x-y>a<template shadowrootmode=OPEN><p>b</p></div></template>c</x-y>d",
			"", "a\nb\ncd"},
		{"shadow root of no mode", "a<template shadowrootmode=x>x</template>b", "", "ab"},
		{"template", "a<template>x<template>y</template>z</template>b", "", "ab"},
		{"svg", "a<svg><title>x</title><svg></svg><text>y</text></svg>b", "", "ab"},
		{"empty svg", "a<svg/>b", "", "ab"},
		{"comment", "a<!-- <p>x --!>b<!-->c", "", "abc"},
		{"bogus comment", "a<?php x ?>b<!x>c</ x>d", "", "abcd"},
		{"cdata", "a<![CDATA[x]]>b", "", "ab"},
		{"hidden", "a<div hidden>×<div>×</div>×</div>b", "", "a\nb"},
		{"hidden inline", "a<span hidden=''>×</span>b", "", "ab"},
		{"hidden void", "a<input hidden>b<br hidden>c", "", "ab\nc"},
		{"hidden body", "<body hidden style='display:none'>a", "", "a"},
		{"display none", "a<p style='color:red; DISPLAY : None !important'>×</p>b", "", "a\nb"},
		{"display not none", "<p style='display:block;x:display:none'>a</p>", "", "a"},
		{"hidden p ends at a block", "<p hidden>×<div>a</div>", "", "a"},
		{"hidden li ends at the next", "<ul><li hidden>×<ul><li>×</ul>×<li>a</ul>b", "", "a\nb"},
		{"hidden li ends with its list", "<ul><li>a<li hidden>×</ul>b", "", "a\nb"},
		{"hidden cell", "<table><tr><td hidden>×<table><tr><td>×</table><td>a<tr><td>b</table>", "",
			"a\nb"},
		{"end tag in a cell of a hidden div", "<div hidden>×<table><tr><td></div>×</table></div>a",
			"", "a"},
		{"end tag in a table of a hidden cell",
			"<table><tr><td hidden>×<table></td>×</table></td><td>a</table>", "", "a"},
		{"end tag in a template of a hidden div",
			"<div hidden>×<template></div></td></template>×</div>a", "", "a"},
		{"end tag around a hidden div", "<section><div hidden>×<b>×</section>a", "", "a"},
		{"end tag around an svg", "<div>a<svg>x</div>b", "", "a\nb"},
		{"hidden row", "<table><tr hidden><td>×<tr><td>a</table>", "", "a"},
		{"hidden dt", "<dl><dt hidden>×<dd>a</dl>", "", "a"},
		{"hidden option", "<select><option hidden>×<option>a</select>b", "", "a\nb"},
		{"hidden with script", "<div hidden><script>'</div>'</script>×</div>a", "", "a"},
		{"never closed", "<div>a<svg>b<div hidden>c<template>d<script>x</script>e", "", "a\ncde"},
		{"title in svg", "a<svg><title/><style>x</style><script>y<i></script></svg>b", "", "ab"},
		{"svg ends at a paragraph", "a<svg><g><p>b</g>", "", "a\nb"},
		{"html in svg",
			"a<svg>x<foreignObject>b<div>c</div></foreignObject><desc><p>y</desc></svg>d",
			"", "a\nb\nc\nd"},
		{"svg in html in svg", "a<svg><foreignObject>b<svg>x</svg>c</foreignObject>x</svg>d",
			"", "a\nbc\nd"},
		{"svg in svg", "a<svg><svg/><svg>x</svg>y</svg>b", "", "ab"},
		{"navigation", "a<nav><ul><li>×</ul></nav>b<div role=navigation>×</div>c", "", "a\nb\nc"},
		{"dialog", "a<dialog>×</dialog><dialog open>b</dialog>", "", "a\nb"},
		{"ruby", "<ruby>a<rp>(</rp><rt>b<rp>)</ruby>c", "", "abc"},
		{"hidden text", "a<div hidden>b<span hidden>c</span></div><p " +
			"style='display:none'>d<dialog>e", "", "a\nbc\nd\ne"},
		{"hidden menu in hidden text", "<div hidden>a<ul hidden><li>×<li>×</ul><p>b</div>", "",
			"a\nb"},
		{"nothing but a menu", "<nav>a <a href=/>b</a></nav><template>c</template>", "", "a b\nc"},
		{"hidden buttons",
			"a<div hidden><button>Open</button><select><option>One<option>Two</select>or</div>b",
			"", "a\nb"},
		{"hidden menu around main", "<div hidden><a href=/>a link</a><main>b</main></div>",
			"", "a link\nb"},
		{"hidden consent dialog", "a<div id=cookieConsent hidden>This site keeps cookies.</div>b",
			"", "a\nb"},
		{"consent dialog in hidden text",
			"<div hidden>a<div class='x-gdpr y'>This site keeps cookies.</div>b</div>", "", "a\nb"},
		{"consent dialog without a name",
			"a<dialog>This site keeps cookies.<button>No</button></dialog>b", "", "a\nb"},
		{"shown consent dialog", "a<div class=consent>This site keeps cookies.</div>", "",
			"a\nThis site keeps cookies."},
		{"streamed menu", "<main>a</main><div hidden id=xS:1f><a href=/>b</a></div>", "", "a\nb"},
		{"shown by a script", "<p>a<div hidden>" + strings.Repeat("b ", 2000) + "</div>", "",
			"a\n" + strings.TrimSpace(strings.Repeat("b ", 2000))},
		{"never closed script", "a<script>x", "", "a"},
		{"never closed comment", "a<!-- x", "", "a"},
		{"never closed tag", "a<div x='", "", "a"},
		{"plaintext", "a<plaintext>b</plaintext><i>", "", "a\nb</plaintext><i>"},
		{"textarea", "a<textarea><b>&amp;</textarea>c", "", "a\n<b>&\nc"},
		{"zero byte", "a\x00b", "", "a\x00b"},
		{"custom element", "a<x-y hidden>×<x-y>×</x-y>×</x-y>d", "", "ad"},
		{"less-than signs", "1 < 2 <3 << <", "", "1 < 2 <3 << <"},
	} {
		t.Run(test.name, func(t *testing.T) {
			// text that is dropped in a part
			html := strings.ReplaceAll(test.html, "×", "<a href=/>menu</a>")
			title, text := titleAndText([]byte(html), "text/html; charset=utf-8", Visible)
			if title != test.title || text != test.text {
				t.Errorf("%q:\n got %q, %q\nwant %q, %q", test.html, title, text,
					test.title, test.text)
			}
		})
	}
}

// TestXHTML reads pages as a browser does: as XML by the media type, or by the XML
// declaration if there is no media type.
func TestXHTML(t *testing.T) {
	const page = `<?xml version="1.0"?><html><head><title/><script src="a.js" /><style><![CDATA[ x ]]></style></head>` +
		`<body><p><![CDATA[a <b> & c]]></p><div hidden="hidden"/><iframe/><svg><title/></svg><p>d &amp; e]]></p></body></html>`
	for contentType, want := range map[string]string{
		"application/xhtml+xml": "a <b> & c\nd & e]]>", "": "a <b> & c\nd & e]]>", "text/html": "",
	} {
		if _, got := titleAndText([]byte(page), contentType, Visible); got != want {
			t.Errorf("%q: %q, want %q", contentType, got, want)
		}
	}
	if _, got := titleAndText([]byte(strings.ReplaceAll(page, "/>", "></i>")), "text/html",
		Visible); strings.Contains(got, "& c") {
		t.Errorf("%q has a CDATA section", got)
	}
}

// titleAndText returns the title and the text of an HTML page, read as a Signer does.
func titleAndText(body []byte, contentType string, mode TextMode) (title, text string) {
	decoded, _ := decode(body, contentType)
	e := extract(decoded, mode, isXHTML(contentType, decoded))
	defer e.release()
	return e.title, string(e.result())
}

// collapse returns s with each run of ASCII white space replaced by one space, and none at either
// end.
func collapse(s []byte) string {
	return string(bytes.Join(bytes.FieldsFunc(s, isSpace), []byte{' '}))
}

func isSpace(r rune) bool {
	return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f'
}
