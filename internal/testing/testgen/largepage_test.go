package testgen

import (
	"bufio"
	"compress/gzip"
	"crypto/sha1"
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"strings"
	"unicode"
)

//go:embed text
var texts embed.FS

// archiveOptions of writeArchive.
type archiveOptions struct {
	Seed  uint64
	Pages int
	Bytes int // of HTML a page, about
	// Form is warc or warc.gz, with a gzip member a record; wet or wet.gz, the text of the
	// same pages; or jsonl.
	Form string
}

// writeArchive writes made-up pages for measuring speed. What they are made of is about
// what real pages of that size are: a ninth of visible text, a fifth of scripts and
// styles, and a start tag every hundred bytes. The words of a text are drawn from those of
// this package, those at the beginning of the list more often. One page of ten is an earlier
// one with a sentence added and other scripts, the others have nothing to do with each other.
func writeArchive(w io.Writer, o archiveOptions) error {
	words, err := vocabulary()
	if err != nil {
		return err
	}
	form, compressed := strings.CutSuffix(o.Form, ".gz")
	record := map[string]func(*largePage) string{"warc": (*largePage).warc, "wet": (*largePage).wet, "jsonl": (*largePage).json}[form]
	if record == nil {
		return fmt.Errorf("testgen: unknown form of an archive: %q", o.Form)
	}
	out := bufio.NewWriterSize(w, 1<<20)
	for i := range o.Pages {
		text := record(newLargePage(words, o, i))
		if !compressed {
			out.WriteString(text)
			continue
		}
		member := gzip.NewWriter(out)
		io.WriteString(member, text)
		if err := member.Close(); err != nil {
			return err
		}
	}
	return out.Flush()
}

const htmlType = "text/html; charset=utf-8"

// vocabulary returns the words of all texts in English, each once.
func vocabulary() ([]string, error) {
	var words []string
	seen := make(map[string]bool)
	err := fs.WalkDir(texts, "text", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := texts.ReadFile(path)
		for word := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return !unicode.IsLetter(r) }) {
			if word = strings.ToLower(word); word[0] < 0x80 && !seen[word] {
				seen[word] = true
				words = append(words, word)
			}
		}
		return err
	})
	return words, err
}

// largePage is a page of a large archive.
type largePage struct {
	uri        string
	words      []string
	bytes      int
	paragraphs []string
	own        *rng // for what is not text
}

func newLargePage(words []string, o archiveOptions, i int) *largePage {
	p := &largePage{words: words, bytes: o.Bytes, own: newRNG(o.Seed, fmt.Sprintf("large page %d", i))}
	text := i
	if i%10 == 9 {
		text = p.own.intn(i)
		text -= text % 10
	}
	r := newRNG(o.Seed, fmt.Sprintf("large text %d", text))
	for size := 0; size < o.Bytes/9; {
		var b strings.Builder
		for range r.between(2, 6) {
			b.WriteString(p.sentence(r))
		}
		p.paragraphs = append(p.paragraphs, b.String())
		size += b.Len()
	}
	if text != i {
		p.paragraphs = append(p.paragraphs, p.sentence(p.own))
	}
	p.uri = fmt.Sprintf("https://www.site-%d.example/%s/%s-%d.html", p.own.intn(2000), p.word(p.own), p.word(p.own), i)
	return p
}

// word draws a word, one from the beginning of the list more often.
func (p *largePage) word(r *rng) string {
	n := len(p.words)
	return p.words[r.intn(n)*r.intn(n)/n]
}

func (p *largePage) phrase(r *rng, least, most int) string {
	var words []string
	for range r.between(least, most) {
		words = append(words, p.word(r))
	}
	return strings.Join(words, " ")
}

func (p *largePage) sentence(r *rng) string {
	s := p.phrase(r, 6, 24)
	return strings.ToUpper(s[:1]) + s[1:] + ". "
}

func (p *largePage) json() string {
	line, err := json.Marshal(map[string]string{"url": p.uri, "html": p.html()})
	if err != nil {
		panic(err) // strings can be encoded
	}
	return string(line) + "\n"
}

func (p *largePage) wet() string {
	return p.record("conversion", "text/plain", strings.Join(p.paragraphs, "\n")+"\n")
}

func (p *largePage) warc() string {
	body := p.html()
	message := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", htmlType, len(body), body)
	return p.record("response", "application/http; msgtype=response", message)
}

// record is a record of WARC 1.1 (ISO 28500:2017).
func (p *largePage) record(kind, contentType, block string) string {
	id := p.own.hex(30)
	return fmt.Sprintf("WARC/1.1\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:uuid:%s-%s-4%s-a%s-%s>\r\nWARC-Date: 2026-10-12T08:00:00Z\r\n"+
		"WARC-Target-URI: %s\r\nContent-Type: %s\r\nWARC-Block-Digest: sha1:%X\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n",
		kind, id[:8], id[8:12], id[12:15], id[15:18], id[18:], p.uri, contentType, sha1.Sum([]byte(block)), len(block), block)
}

// html puts the paragraphs among links, boxes, scripts and styles.
func (p *largePage) html() string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + p.phrase(p.own, 4, 9) + "</title>\n<style>\n")
	for b.Len() < p.bytes/12 {
		fmt.Fprintf(&b, ".%s-%s > .%s { margin: %dpx %dpx; color: #%s; }\n", p.word(p.own), p.word(p.own), p.word(p.own), p.own.intn(40), p.own.intn(40), p.own.hex(6))
	}
	b.WriteString("</style>\n<script>window.state = {")
	for b.Len() < p.bytes/5 {
		fmt.Fprintf(&b, "%q:{\"id\":\"%s\",\"count\":%d,\"open\":%v},", p.word(p.own), p.own.hex(16), p.own.intn(1e6), p.own.intn(2) == 0)
	}
	b.WriteString("};</script>\n</head>\n<body>\n<header><nav><ul>\n")
	for range 40 {
		fmt.Fprintf(&b, "<li class=\"menu-item menu-item-%d\"><a href=\"/%s/%s\" data-track=\"%s\">%s</a></li>\n",
			p.own.intn(1e4), p.word(p.own), p.word(p.own), p.own.hex(12), p.phrase(p.own, 1, 3))
	}
	b.WriteString("</ul></nav></header>\n<main><article>\n")
	room := (p.bytes - b.Len()) / len(p.paragraphs) // for a paragraph and what is around it
	for _, text := range p.paragraphs {
		end := b.Len() + room
		fmt.Fprintf(&b, "<div class=\"%s block-%d\"><p>%s</p></div>\n", p.word(p.own), p.own.intn(1e4), html.EscapeString(text))
		for b.Len() < end {
			p.box(&b)
		}
	}
	b.WriteString("</article></main>\n</body>\n</html>\n")
	return b.String()
}

// box is a picture with a link around it, as pages are full of.
func (p *largePage) box(b *strings.Builder) {
	id := p.own.hex(10)
	fmt.Fprintf(b, "<div class=\"card card--%s\" id=\"c-%s\" data-position=\"%d\"><a href=\"/%s/%s.html?ref=%s\" rel=\"nofollow\">"+
		"<img src=\"/media/%s-320.jpg\" srcset=\"/media/%s-640.jpg 2x\" width=\"320\" height=\"180\" loading=\"lazy\" alt=\"\"></a><span class=\"icon icon-%s\"></span></div>\n",
		p.word(p.own), id, p.own.intn(100), p.word(p.own), p.word(p.own), p.own.hex(8), id, id, p.word(p.own))
}

// hex returns n random hexadecimal digits.
func (r *rng) hex(n int) string {
	digits := make([]byte, n)
	for i := range digits {
		digits[i] = "0123456789abcdef"[r.intn(16)]
	}
	return string(digits)
}
