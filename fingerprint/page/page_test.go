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
		{"numbers beyond Unicode", "<p>&#1114112;&#18446744073709551681;&#x10000000000000041;", "", "\uFFFD\uFFFD\uFFFD"},
		{"entities", "<p>a&amp;b &eacute; &#x41;&#66 &lt;p&gt; &nosuch; &copy", "", "a&b é AB <p> &nosuch; ©"},
		{"blocks", "<div>a<p>b</p>c</div><ul><li>d<li>e</ul>", "", "a\nb\nc\nd\ne"},
		{"inline", "<b>a</b>b <i>c</i> d<span>e</span>", "", "ab c de"},
		{"cells and breaks", "<table><tr><td>a<td>b</tr></table>c<br>d<hr>e", "", "a\nb\nc\nd\ne"},
		{"script and style", "a<script>if (x<y) '</p>'</script><style>b{}</style>c", "", "ac"},
		{"script with comment", "a<script><!-- <script>x</script> y --></script>b", "", "ab"},
		{"script case", "a<SCRIPT>x</ScRiPt >b", "", "ab"},
		{"noscript", "a<noscript><p>x</p></noscript>b", "", "ab"},
		{"template", "a<template>x<template>y</template>z</template>b", "", "ab"},
		{"svg", "a<svg><title>x</title><svg></svg><text>y</text></svg>b", "", "ab"},
		{"empty svg", "a<svg/>b", "", "ab"},
		{"comment", "a<!-- <p>x --!>b<!-->c", "", "abc"},
		{"bogus comment", "a<?php x ?>b<!x>c</ x>d", "", "abcd"},
		{"cdata", "a<![CDATA[x]]>b", "", "ab"},
		{"hidden", "a<div hidden>x<div>y</div>z</div>b", "", "a\nb"},
		{"hidden inline", "a<span hidden=''>x</span>b", "", "ab"},
		{"hidden void", "a<input hidden>b<br hidden>c", "", "ab\nc"},
		{"hidden body", "<body hidden style='display:none'>a", "", "a"},
		{"display none", "a<p style='color:red; DISPLAY : None !important'>x</p>b", "", "a\nb"},
		{"display not none", "<p style='display:block;x:display:none'>a</p>", "", "a"},
		{"hidden p ends at a block", "<p hidden>x<div>a</div>", "", "a"},
		{"hidden li ends at the next", "<ul><li hidden>x<ul><li>y</ul>z<li>a</ul>b", "", "a\nb"},
		{"hidden li ends with its list", "<ul><li>a<li hidden>x</ul>b", "", "a\nb"},
		{"hidden cell", "<table><tr><td hidden>x<table><tr><td>y</table><td>a<tr><td>b</table>", "", "a\nb"},
		{"end tag in a cell of a hidden div", "<div hidden>x<table><tr><td></div>y</table></div>a", "", "a"},
		{"end tag in a table of a hidden cell", "<table><tr><td hidden>x<table></td>y</table></td><td>a</table>", "", "a"},
		{"end tag in a template of a hidden div", "<div hidden>x<template></div></td></template>y</div>a", "", "a"},
		{"end tag around a hidden div", "<section><div hidden>x<b>y</section>a", "", "a"},
		{"end tag around an svg", "<div>a<svg>x</div>b", "", "a\nb"},
		{"hidden row", "<table><tr hidden><td>x<tr><td>a</table>", "", "a"},
		{"hidden dt", "<dl><dt hidden>x<dd>a</dl>", "", "a"},
		{"hidden option", "<select><option hidden>x<option>a</select>b", "", "a\nb"},
		{"hidden with script", "<div hidden><script>'</div>'</script>x</div>a", "", "a"},
		{"never closed", "<div>a<svg>b<div hidden>c<template>d<script>x</script>e", "", "a\ncde"},
		{"title in svg", "a<svg><title/><style>x</style><script>y<i></script></svg>b", "", "ab"},
		{"svg ends at a paragraph", "a<svg><g><p>b</g>", "", "a\nb"},
		{"html in svg", "a<svg><foreignObject><div>x</div></foreignObject><desc><p>y</desc></svg>b", "", "ab"},
		{"svg in svg", "a<svg><svg/><svg>x</svg>y</svg>b", "", "ab"},
		{"navigation", "a<nav><ul><li>x</ul></nav>b<div role=navigation>y</div>c", "", "a\nb\nc"},
		{"dialog", "a<dialog>x</dialog><dialog open>b</dialog>", "", "a\nb"},
		{"ruby", "<ruby>a<rp>(</rp><rt>b<rp>)</ruby>c", "", "abc"},
		{"shown by a script", "<p>a<div hidden>" + strings.Repeat("b ", 2000) + "</div>", "", "a\n" + strings.TrimSpace(strings.Repeat("b ", 2000))},
		{"never closed script", "a<script>x", "", "a"},
		{"never closed comment", "a<!-- x", "", "a"},
		{"never closed tag", "a<div x='", "", "a"},
		{"plaintext", "a<plaintext>b</plaintext><i>", "", "a\nb</plaintext><i>"},
		{"textarea", "a<textarea><b>&amp;</textarea>c", "", "a\n<b>&\nc"},
		{"zero byte", "a\x00b", "", "a\x00b"},
		{"custom element", "a<x-y hidden>b<x-y>c</x-y></x-y>d", "", "ad"},
		{"less-than signs", "1 < 2 <3 << <", "", "1 < 2 <3 << <"},
	} {
		t.Run(test.name, func(t *testing.T) {
			title, text := titleAndText([]byte(test.html), "text/html; charset=utf-8", Visible)
			if title != test.title || text != test.text {
				t.Errorf("%q:\n got %q, %q\nwant %q, %q", test.html, title, text, test.title, test.text)
			}
		})
	}
}

// titleAndText are those of an HTML page, read as a Signer does.
func titleAndText(body []byte, contentType string, mode TextMode) (title, text string) {
	decoded, _ := decode(body, contentType)
	e := extract(decoded, mode)
	defer e.release()
	return e.title, string(e.result())
}

// collapse is s with each run of ASCII white space made one space, and none
// at either end.
func collapse(s []byte) string {
	return string(bytes.Join(bytes.FieldsFunc(s, isSpace), []byte{' '}))
}

func isSpace(r rune) bool {
	return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f'
}
