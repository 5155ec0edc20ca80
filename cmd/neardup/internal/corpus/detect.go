package corpus

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/neardup/neardup/fingerprint"
	document "github.com/neardup/neardup/fingerprint/page"
)

// Format is the format of an input.
type Format string

const (
	// Detect, the zero value, finds the format of each file by its content
	// and its name: "WARC/" begins a web archive, whatever its name; then the
	// names .html .htm .xhtml, .jsonl .ndjson, .txt .text .md, .u64le and
	// .fingerprints decide (before .gz or .zst); then '{' begins JSON lines,
	// HTML is told by its first tag, and lines of fingerprints by the first
	// ones (16 digits or 0x); other text is text. What is none of these is one
	// skip.
	Detect       Format = ""
	WARC         Format = "warc"         // WARC 0.17, 0.18, 1.0 and 1.1
	WET          Format = "wet"          // the same: text that was taken from a WARC
	JSONL        Format = "jsonl"        // an object a line
	HTMLFile     Format = "html"         // one page a file
	TextFile     Format = "text"         // one text a file
	Fingerprints Format = "fingerprints" // a fingerprint, or fingerprint TAB key, a line
	Decimal      Format = "decimal"      // a decimal number a line, also of 16 digits; what follows it does not count
	U64LE        Format = "u64le"        // fingerprints of 8 bytes, little-endian; a file is compressed if its name ends with .gz or .zst
)

// formats are all there are. begins is of those that are known by their first bytes.
var formats = []struct {
	name       Format
	extensions []string
	begins     func(head []byte) bool
	read       func(*source)
}{
	{WARC, []string{".warc", ".wet"}, recordStart, (*source).archive},
	{WET, nil, nil, (*source).archive},
	{JSONL, []string{".jsonl", ".ndjson"}, func(head []byte) bool { return bytes.HasPrefix(head, []byte("{")) }, (*source).jsonLines},
	{HTMLFile, []string{".html", ".htm", ".xhtml"}, nil, func(s *source) { s.wholeFile(HTML) }},
	{TextFile, []string{".txt", ".text", ".md"}, nil, func(s *source) { s.wholeFile(Text) }},
	{Fingerprints, []string{".fingerprints"}, nil, func(s *source) { s.list(Fingerprints) }},
	{Decimal, nil, nil, func(s *source) { s.list(Decimal) }},
	{U64LE, []string{".u64le"}, nil, func(s *source) { s.list(U64LE) }},
}

// ParseFormat reads the name of a format; "" is Detect.
func ParseFormat(s string) (Format, error) {
	var names []string
	for _, f := range formats {
		if Format(s) == f.name {
			return f.name, nil
		}
		names = append(names, string(f.name))
	}
	if s == "" {
		return Detect, nil
	}
	return Detect, fmt.Errorf("unknown format %q: use one of %s", s, strings.Join(names, ", "))
}

// sniffBytes is how much of a file or a document is looked at to tell what it is.
const sniffBytes = 4 << 10

// detect finds the format of a file.
func (s *source) detect() (Format, *Skip) {
	if f := formatByStart(s.name, s.w.chunk()); f != Detect {
		return f, nil // without waiting for more: the input may be slow
	}
	head := s.w.peek(sniffBytes)
	if c := s.w.corruption(); c != nil {
		return Detect, c.skip("")
	}
	return detectFormat(s.name, head)
}

func detectFormat(name string, head []byte) (Format, *Skip) {
	if f := formatByStart(name, head); f != Detect {
		return f, nil
	}
	text := withoutSpace(head)
	if bytes.HasPrefix(text, []byte("filedesc://")) {
		return Detect, &Skip{Reason: "not supported: ARC", Detail: "convert it to WARC", Document: true}
	}
	if f := formatByName(name); f != Detect {
		return f, nil
	}
	switch {
	case len(head) == 0:
		return Detect, &Skip{Reason: "empty", Document: true}
	case looksLikeFingerprints(text, len(head) < sniffBytes):
		return Fingerprints, nil
	}
	switch kind, problem := classify("", head); {
	case problem != "":
		return Detect, &Skip{Reason: problem, Detail: "if it can be read, name its format", Document: true}
	case kind == HTML:
		return HTMLFile, nil
	}
	return TextFile, nil
}

// formatByStart is the format of a file if its first bytes are enough to tell: those of a web
// archive are, those of others where the name does not say otherwise.
func formatByStart(name string, head []byte) Format {
	for _, f := range formats {
		if f.begins != nil && f.begins(withoutSpace(head)) && (f.name == WARC || formatByName(name) == Detect) {
			return f.name
		}
	}
	return Detect
}

const byteOrderMark = "\xef\xbb\xbf"

// withoutSpace cuts a byte order mark and white space in front.
func withoutSpace(b []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(b, []byte(byteOrderMark)), " \t\r\n")
}

func formatByName(name string) Format {
	name = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(path.Base(name)), ".gz"), ".zst")
	for _, f := range formats {
		if slices.Contains(f.extensions, path.Ext(name)) {
			return f.name
		}
	}
	return Detect
}

// looksLikeFingerprints says whether all whole lines in view are fingerprints in a form
// that other text hardly has.
func looksLikeFingerprints(head []byte, whole bool) bool {
	n := 0
	for line := range bytes.Lines(head) {
		if line[len(line)-1] != '\n' && !whole && n > 0 {
			break
		}
		digits, _, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte{'\t'})
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if len(digits) < 16 && !bytes.HasPrefix(digits, []byte("0x")) {
			return false
		}
		if _, err := fingerprint.Parse(string(digits)); err != nil {
			return false
		}
		n++
	}
	return n > 0
}

// classify tells what a document is by what was declared, and by its content
// where nothing useful was, or where the declaration is plainly wrong. Without
// content it goes by what was declared alone.
func classify(contentType string, content []byte) (kind Kind, problem string) {
	switch kind, err := document.KindOf(contentType, content); {
	case err != nil:
		return 0, err.Error()
	case kind == document.HTML:
		return HTML, ""
	}
	return Text, ""
}
