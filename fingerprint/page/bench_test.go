package page

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testgen"
)

// readPages has the pages that were read, by the name of their file.
var readPages = make(map[string][][]byte)

// realPages are the pages of one file, the first few where tests are to be short,
// and their size.
func realPages(t testing.TB, name string) (pages [][]byte, size int64) {
	in := testgen.SharedGzip(t, name)
	if readPages[name] == nil {
		lines := json.NewDecoder(in)
		for !testing.Short() || len(readPages[name]) < 30 {
			var doc struct{ HTML string }
			if err := lines.Decode(&doc); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			readPages[name] = append(readPages[name], []byte(doc.HTML))
		}
	}
	for _, page := range readPages[name] {
		size += int64(len(page))
	}
	return readPages[name], size
}

// generatedPage is 256 KiB of plain markup with little script.
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

// densePage is 256 KiB of tags with hardly any text between them.
func densePage() []byte {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><title>Dense</title><table class='grid'>")
	for b.Len() < 256<<10 {
		b.WriteString("<tr><td class=a><b>1</b><td><i id='x'>2</i>&nbsp;<td data-x=\"&quot;\"><a href=#><span>3</span></a>")
	}
	return []byte(b.String())
}

func BenchmarkExtract(b *testing.B) {
	run := func(name string, pages [][]byte, size int64, contentType string) {
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
	run("generated", [][]byte{generated}, int64(len(generated)), "")
	latin := []byte(strings.ReplaceAll(string(generated), "link", "l\xe9en"))
	run("generated-windows-1252", [][]byte{latin}, int64(len(latin)), "text/html; charset=windows-1252")
	dense := densePage()
	run("dense", [][]byte{dense}, int64(len(dense)), "")
	for _, set := range []string{"pages", "recrawls"} {
		pages, size := realPages(b, set+"/docs.jsonl.gz")
		run(set, pages, size, "")
	}
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
