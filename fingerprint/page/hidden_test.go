package page

import (
	"fmt"
	"html"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

// madeText returns n words of made-up prose in paragraphs of 40 words.
func madeText(rng *rand.Rand, n int) (paragraphs []string) {
	syllables := strings.Fields("ka ro mi te lun sar vi pol den gha bri sto nel qua fer jo")
	var words []string
	for i := 1; i <= n; i++ {
		word := ""
		for range 2 + rng.IntN(3) {
			word += syllables[rng.IntN(len(syllables))]
		}
		words = append(words, word)
		if i%40 == 0 || i == n {
			paragraphs, words = append(paragraphs, strings.Join(words, " ")+"."), nil
		}
	}
	return paragraphs
}

func asParagraphs(paragraphs []string) string {
	return "<p>" + strings.Join(paragraphs, "</p>\n<p>") + "</p>"
}

// hidings has the ways to hide text that a browser shows only after a script ran, without scripts,
// or in another document or tree. PART is the number of the part.
var hidings = map[string]string{
	"React segment": `<div hidden id="S:PART">CONTENT</div>` +
		`<script>$RC("B:PART","S:PART")</script>`,
	"React table segment": `<table hidden id="S:PART"><tr><td>CONTENT</td></tr></table>`,
	"Solid template": `<template id="0-PART">CONTENT</template>` +
		`<script>$df("0-PART")</script>`,
	"shadow root": `<x-article><template shadowrootmode="open"><style>p{}</style>CONTENT` +
		`</template></x-article>`,
	"hidden":             `<div hidden>CONTENT</div>`,
	"hidden until found": `<section hidden='until-found'>CONTENT</section>`,
	"hidden element":     `<x-article hidden>CONTENT</x-article>`,
	"display none":       `<div id="tabPART" style="color:red;display: none">CONTENT</div>`,
	"hidden twice":       `<div hidden><div style="display:none">CONTENT</div></div>`,
	"visibility": `<div style="visibility:hidden;position:absolute;top:-9999px">` +
		`CONTENT</div>`,
	"opacity":          `<div class="async-hide" style="opacity:0">CONTENT</div>`,
	"aria-hidden":      `<div aria-hidden="true">CONTENT</div>`,
	"dialog":           `<dialog>CONTENT</dialog>`,
	"details":          `<details><summary>More</summary>CONTENT</details>`,
	"noscript":         `<noscript>CONTENT</noscript>`,
	"escaped noscript": `<noscript>ESCAPED</noscript>`,
	"navigation":       `<nav aria-label="contents">CONTENT</nav>`,
	"srcdoc": `<iframe srcdoc="&lt;!DOCTYPE html>&lt;title>x&lt;/title>&lt;body>ESCAPED">` +
		`</iframe>`,
	"foreignObject": `<svg><g><foreignObject><div>CONTENT</div></foreignObject></g></svg>`,
	"never closed":  `<div><div hidden>CONTENT`,
	"textarea":      `<textarea style='display:none'>CONTENT</textarea>`,
}

// placeholders has the markup of the placeholders that frameworks send.
var placeholders = map[string]string{
	"React segment":       `<div><!--$?--><template id="B:0"></template><p>Loading</p><!--/$--></div><template id="P:1"></template>`,
	"React table segment": `<div><template id="B:0"></template></div><template id="B:1"></template>`,
	"Solid template":      `<div><template id="pl-0-0"></template></div><template id="pl-0-1"></template>`,
}

// madePage returns a page with a frame around its content.
func madePage(frame []string, head, content, tail string) []byte {
	return []byte("<!DOCTYPE html><html><head><title>A story</title></head><body><header><a " +
		"href=/>Journal</a></header>" + head +
		"<main>" + content + "</main><footer>" + asParagraphs(frame) + "</footer>" + tail +
		"</body></html>")
}

// TestHiddenArticle checks that a hidden article is text of the page. The article and the frame
// have various lengths, and the article has one or more parts. The fingerprint must be near the
// fingerprint of the page that shows the article. For the main text, the article is in the place of
// an article that is shown, or it is streamed and follows the frame.
func TestHiddenArticle(t *testing.T) {
	sizes := map[TextMode][]int{Visible: {20, 30, 100, 400, 5000}, Main: {30, 100, 400, 1000}}
	if testing.Short() {
		sizes = map[TextMode][]int{Visible: {20, 30, 100}, Main: {30, 100}}
	}
	rng := rand.New(rand.NewPCG(7, 1))
	for mode, sizes := range sizes {
		signer := newSigner(t, mode, fingerprint.Options{})
		for hiding := range hidings {
			for _, words := range sizes {
				for _, framed := range []int{20, 100, 250, 500} {
					frame, article := madeText(rng, framed), madeText(rng, words)
					shown := signer.SignKind(HTML, "",
						madePage(frame, "", asParagraphs(article), ""))
					for place, page := range hiddenPages(mode, hiding, frame, article) {
						at := fmt.Sprintf("%s, %s, article of %d words %s, frame of %d",
							mode.name(), hiding, words, place, framed)
						text := signer.Text(HTML, "", page)
						for _, paragraph := range article {
							if !strings.Contains(text, paragraph) {
								t.Fatalf("%s: %.60q is lost", at, paragraph)
							}
						}
						if d := shown.Fingerprint.Distance(
							signer.SignKind(HTML, "", page).Fingerprint); d > 6 {
							t.Errorf("%s: %d bits from the page that shows the article", at, d)
						}
					}
				}
			}
		}
	}
}

// hiddenPages returns pages that hide an article, by the place of the article.
func hiddenPages(mode TextMode, hiding string, frame, article []string) map[string][]byte {
	hidden := func(parts int) string {
		var b strings.Builder
		for i := range parts {
			if from, to := i*len(article)/parts, (i+1)*len(article)/parts; from < to {
				content := asParagraphs(article[from:to])
				b.WriteString(strings.NewReplacer("PART", fmt.Sprint(i), "CONTENT", content,
					"ESCAPED", html.EscapeString(content)).Replace(hidings[hiding]))
			}
		}
		return b.String()
	}
	placeholder, streamed := placeholders[hiding]
	switch {
	case mode == Main && streamed:
		return map[string][]byte{"streamed": madePage(frame, "", placeholder, hidden(2))}
	case mode == Main:
		return map[string][]byte{"in place": madePage(frame, "", hidden(1), "")}
	}
	return map[string][]byte{
		"in place":            madePage(frame, "", hidden(1), ""),
		"at the end":          madePage(frame, "", "<p>Loading</p>", hidden(1)),
		"in parts":            madePage(frame, "", hidden(3), ""),
		"in parts at the end": madePage(frame, "", "<p>Loading</p>", hidden(3)),
	}
}

// TestHiddenFrame checks that hidden menus, consent dialogs, notices and templates are not text
// of the page.
func TestHiddenFrame(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	item := func() string { return strings.TrimSuffix(madeText(rng, 2)[0], ".") }
	var links, nested, buttons strings.Builder
	for i := range 150 {
		fmt.Fprintf(&links, "<li><a href=/%d>%s</a>\n", i, item())
		fmt.Fprintf(&buttons, "<li><button>%s</button>\n", item())
		if i%10 == 0 {
			fmt.Fprintf(&nested, "<h3>%s</h3><ul><li><a href=/%d><span>%s</span></a><li><a "+
				"href=# class=x>%s</a></ul>\n", item(), i, item(), item())
		}
	}
	consent := asParagraphs(madeText(rng, 120)) + "<p>We use cookies. Cookies make this site " +
		"work. Read more in our cookie policy.</p><p>You can reject cookies.</p>" +
		"<button>Accept</button><button>Reject</button>"
	long := asParagraphs(madeText(rng, 300))
	for name, html := range map[string]string{
		"nav":                       "<nav><ul>" + links.String() + "</ul></nav>",
		"nav without links":         "<nav><ul><li>Home<li>News<li>About us<li>Contact</ul></nav>",
		"role":                      "<div role=navigation>" + nested.String() + "</div>",
		"hidden menu":               "<div hidden><ul>" + links.String() + "</ul></div>",
		"menu of display none":      "<div style=display:none>" + nested.String() + "</div>",
		"hidden menu of buttons":    "<ul hidden>" + buttons.String() + "</ul>",
		"dialog with a menu":        "<dialog>" + links.String() + "</dialog>",
		"menu without scripts":      "<noscript><ul>" + links.String() + "</ul></noscript>",
		"menu in a document":        "<iframe srcdoc='<ul>" + links.String() + "</ul>'></iframe>",
		"hidden around hidden menu": "<div hidden><div hidden>" + links.String() + "</div></div>",
		"consent by id":             "<div hidden id=cookie-banner>" + long + "</div>",
		"consent by class":          "<dialog class='box gdpr'>" + long + "</dialog>",
		"consent in a wrapper": "<div style=display:none><div id=onetrust-consent-sdk>" +
			long + "</div></div>",
		"consent without a name": "<div hidden>" + consent + "</div>",
		"consent dialog":         "<dialog>" + consent + "</dialog>",
		"template":               "<template id=card><h3>A title</h3>" + long + "</template>",
		"notice": "<noscript>You need to enable JavaScript to run this " +
			"app.</noscript>",
		"tracking pixel": "<noscript>&lt;img src=\"https://example.com/p?t=17\" " +
			"alt=\"\"/&gt;</noscript>",
	} {
		for _, mode := range []TextMode{Visible, Main} {
			for _, words := range []int{0, 20, 100, 1000} {
				frame, article := madeText(rng, 50), asParagraphs(madeText(rng, words+1))
				signer := newSigner(t, mode, fingerprint.Options{})
				want := signer.Text(HTML, "", madePage(frame, "", article, ""))
				for place, page := range map[string][]byte{"head": madePage(frame, html, article,
					""), "content": madePage(frame, "", html+article, ""),
					"tail": madePage(frame, "", article, html)} {
					if got := signer.Text(HTML, "", page); got != want {
						t.Errorf("%s in the %s, %s, article of %d words: %.200q", name, place,
							mode.name(), words, got)
					}
				}
			}
		}
	}
}
