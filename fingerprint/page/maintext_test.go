package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// prose returns n different paragraphs, each long enough to count as prose.
func prose(about string, n int) (paragraphs []string) {
	for i := range n {
		paragraphs = append(paragraphs, fmt.Sprintf("Paragraph %d is about %s, goes on for a "+
			"while, and ends with a full stop after all.", i, about))
	}
	return paragraphs
}

func paragraphs(lines []string) string { return "<p>" + strings.Join(lines, "</p>\n<p>") + "</p>" }

func TestMainText(t *testing.T) {
	text := prose("gardens", 6)
	body := paragraphs(text)
	other := prose("other things", 2)
	aside := paragraphs(other)
	for _, test := range []struct {
		name, html string
		also       []string // other lines of the main text
	}{
		{"body alone", body, nil},
		{"semantic frame", "<header>Site</header><nav>Menu</nav><main><h1>Title</h1>" + body +
			"</main><aside>" + aside + "</aside><footer>" + aside + "</footer>", []string{"Title"}},
		{"roles", `<div role=banner>Site</div><div role=main><h1>Title</h1>` + body +
			`</div><div role=contentinfo>` + aside + "</div>", []string{"Title"}},
		{"class names",
			`<div class="page-header topBar">Site</div><div class=content><h1>Title</h1>` + body +
				`</div><div class="col sidebar-right">` + aside +
				`</div><div id=siteFooter>` + aside +
				"</div>", []string{"Title"}},
		{"header of the article", "<article><header><h1>Title</h1></header>" + body + "</article>",
			[]string{"Title"}},
		{"a wrapper named for its parts",
			`<body class="has-sidebar menu-open"><div class="nav-wrapper">` + body +
				"</div><div class=sidebar>" + aside + "</div>", nil},
		{"comments", "<article>" + body + "</article><div class=comments>" + aside + "</div>", nil},
		{"beside an article", "<div><article>" + body + "</article><div>" + aside +
			"</div></div>", nil},
		{"lists of links", "<div>" + body + "<ul><li><a href=/a>One page of the site</a><li><a " +
			"href=/b>Another page</a></ul></div>", nil},
		{"table of contents", "<div><ul><li><a href=#a>First</a><li><a href=#b>Second</a></ul>" +
			body + "</div>", []string{"First", "Second"}},
		{"headings that are links", "<div><h2 id=cookies class=share><a href=/x>Cookies</a></h2>" +
			body + "</div>", []string{"Cookies"}},
		{"a section about comments", "<div>" + body +
			"<section id=comments><h2>Comments</h2></section></div>", []string{"Comments"}},
		{"short lines between", "<div><p>Short</p>" + body + "<dl><dt>Term<dd>Meaning</dl></div>",
			[]string{"Short", "Term", "Meaning"}},
		{"title", "<title>A  B</title><main>" + body + "</main>", []string{"A B"}},
		{"heading outside",
			"<nav><h1>Site</h1></nav><div><h1>Title</h1><h1>Other</h1><p>Short</div><main>" + body +
				"</main>", []string{"Title"}},
		{"notes below a short paragraph", "<div><p>Short</p>" +
			strings.Repeat("<p>A line of the page</p>", 40) + "<div>" + body + "</div></div>",
			append([]string{"Short"}, slices.Repeat([]string{"A line of the page"}, 40)...)},
		{"form", "<form><label>Name</label><select><option>One</select><button>Send</button>" +
			body + "</form>", []string{"Name"}},
		{"unclosed list items", "<ul class=nav><li>One<li>Two</ul><div>" + body +
			"<ul><li class=share>Share<li>Kept</ul></div>", []string{"Kept"}},
		{"cells of a layout table", "<table><tr><td class=menu>Menu<td>" + body +
			"</div><tr><td class=footer>" + aside + "</table>", nil},
		{"end tags without start tags", "</div></p><div>" + body +
			"</section></div></div><div class=footer>" + aside + "</div>", nil},
		{"deeper than the outline", "<nav>Menu</nav>" + strings.Repeat("<div>", 2*maxDepth) + body +
			strings.Repeat("</div>", 2*maxDepth) + "<div class=footer>" + aside + "</div>", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, got := titleAndText([]byte(test.html), "", Main)
			lines := strings.Split(got, "\n")
			want := append(slices.Clone(text), test.also...)
			slices.Sort(want)
			slices.Sort(lines)
			if !slices.Equal(lines, want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestMainTextFallback tests that the main text is the visible text if no main text is found.
func TestMainTextFallback(t *testing.T) {
	for _, html := range []string{
		"", "<p>short", "<nav>a</nav><p>b", "<div class=nav>" +
			paragraphs(prose("x", 1)) + "</div>",
		"<ul>" + strings.Repeat("<li><a href=/x>A page of links and nothing else</a>", 30) +
			"</ul>",
		"<footer>" + paragraphs(prose("footers", 9)) + "</footer>",
	} {
		if main, visible := textOf([]byte(html), Main),
			textOf([]byte(html), Visible); main != visible {
			t.Errorf("%.60q: %q, not %q", html, main, visible)
		}
	}
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

// textOf returns the text of a page that is valid UTF-8.
func textOf(doc []byte, mode TextMode) string {
	e := extract(doc, mode, false)
	defer e.release()
	return string(e.result())
}
