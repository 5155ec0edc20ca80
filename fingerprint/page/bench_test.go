package page

import (
	"bytes"
	"strings"
	"testing"
)

// generatedPage returns 256 KiB of plain markup with little script.
func generatedPage() []byte {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><html><head><title>Generated</title><style>p { margin: 0 " +
		"}</style></head><body>")
	for b.Len() < 256<<10 {
		b.WriteString("<div class=\"item\" style=\"color: red\"><h2>An item of the " +
			"page</h2>\n<p>Some text with a " +
			"<a href=\"/there?a=1&amp;b=2\">link</a>, an &eacute; and a <b>bold</b> word, long " +
			"enough to be a paragraph " +
			"of its own.</p></div>\n")
	}
	return []byte(b.String())
}

// densePage returns 256 KiB of tags with hardly any text between them.
func densePage() []byte {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><title>Dense</title><table class='grid'>")
	for b.Len() < 256<<10 {
		b.WriteString("<tr><td class=a><b>1</b><td><i id='x'>2</i>&nbsp;<td data-x=\"&quot;\"><a " +
			"href=#><span>3</span></a>")
	}
	return []byte(b.String())
}

func BenchmarkExtract(b *testing.B) {
	run := func(name string, pages [][]byte, contentType string) {
		size := int64(len(bytes.Join(pages, nil)))
		for _, mode := range []TextMode{Visible, Main} {
			b.Run(name+"/"+mode.name(), func(b *testing.B) {
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					for _, page := range pages {
						titleAndText(page, contentType, mode)
					}
				}
			})
		}
	}
	generated := generatedPage()
	run("generated", [][]byte{generated}, "")
	latin := []byte(strings.ReplaceAll(string(generated), "link", "l\xe9en"))
	run("generated-windows-1252", [][]byte{latin}, "text/html; charset=windows-1252")
	run("dense", [][]byte{densePage()}, "")
}
