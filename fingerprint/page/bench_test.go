package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

// generatedPage returns 256 KiB of plain markup with little script.
func generatedPage() []byte {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><html><head><title>Generated</title><style>p { margin: 0 }</style></head><body>")
	for b.Len() < 256<<10 {
		b.WriteString("<div class=\"item\" style=\"color: red\"><h2>An item of the page</h2>\n<p>Some text with a " +
			"<a href=\"/there?a=1&amp;b=2\">link</a>, an &eacute; and a <b>bold</b> word, long enough to be a paragraph " +
			"of its own.</p></div>\n")
	}
	return []byte(b.String())
}

// densePage returns 256 KiB of tags with hardly any text between them.
func densePage() []byte {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><title>Dense</title><table class='grid'>")
	for b.Len() < 256<<10 {
		b.WriteString("<tr><td class=a><b>1</b><td><i id='x'>2</i>&nbsp;<td data-x=\"&quot;\"><a href=#><span>3</span></a>")
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

func BenchmarkPlainText(b *testing.B) {
	signer, err := NewSigner(Visible, fingerprint.Options{})
	if err != nil {
		b.Fatal(err)
	}
	sentence := "Some text with a [link](https://example.com/there?a=1&b=2), an é and some more words, and after that https://example.com/.\n"
	for name, text := range map[string]string{"links": sentence, "none": strings.ReplaceAll(strings.ReplaceAll(sentence, "](", ") ("), "://", "//")} {
		body := []byte(strings.Repeat(text, (256<<10)/len(text)))
		for _, signed := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/signed=%v", name, signed), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if signed {
						signer.SignKind(PlainText, "", body)
					} else {
						signer.withText(PlainText, "", body, func([]byte) {})
					}
				}
			})
		}
	}
}
