package page

import (
	"strings"
	"testing"
)

// generatedPage is a page of plain markup with little script.
var generatedPage = "<!DOCTYPE html><html><head><title>Generated</title><style>p { margin: 0 }" +
	"</style></head><body>" + strings.Repeat("<div class=\"item\" style=\"color: red\"><h2>An "+
	"item of the page</h2>\n<p>Some text with a <a href=\"/there?a=1&amp;b=2\">link</a>, an "+
	"&eacute; and a <b>bold</b> word, long enough to be a paragraph of its own.</p></div>\n", 1200)

// densePage is a page of tags with hardly any text between them.
var densePage = "<!DOCTYPE html><title>Dense</title><table class='grid'>" +
	strings.Repeat("<tr><td class=a><b>1</b><td><i id='x'>2</i>&nbsp;<td data-x=\"&quot;\">"+
		"<a href=#><span>3</span></a>", 2500)

func BenchmarkExtract(b *testing.B) {
	for name, page := range map[string]string{"generated": generatedPage, "dense": densePage,
		"generated-windows-1252": strings.ReplaceAll(generatedPage, "link", "l\xe9en")} {
		for _, mode := range []TextMode{Visible, Main} {
			b.Run(name+"/"+mode.name(), func(b *testing.B) {
				body := []byte(page)
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					titleAndText(body, "text/html; charset=windows-1252", mode)
				}
			})
		}
	}
}
