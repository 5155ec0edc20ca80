package corpus

import (
	"bytes"
	"path"
	"strings"

	"github.com/neardup/neardup/fingerprint"
	document "github.com/neardup/neardup/fingerprint/page"
)

// sniffBytes is how much of a file or a document is looked at to tell what it
// is.
const sniffBytes = 4 << 10

// detect finds the format of a file.
func (s *source) detect() (Format, *Skip) {
	if f := formatByStart(s.name, s.w.chunk()); f != Detect {
		return f, nil // without waiting for more: the input may be slow
	}
	head := s.w.peek(sniffBytes)
	if len(head) == 0 {
		if d := s.w.corruption(); d != nil {
			return Detect, d.skip("")
		}
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
	kind, problem := sniff(head)
	switch {
	case problem != "":
		return Detect, &Skip{Reason: problem, Detail: "if it can be read, name its format", Document: true}
	case kind == HTML:
		return HTMLFile, nil
	}
	return TextFile, nil
}

// formatByStart is the format of a file if its first bytes are enough to tell.
func formatByStart(name string, start []byte) Format {
	text := withoutSpace(start)
	switch {
	case recordStart(text):
		return WARC
	case bytes.HasPrefix(text, []byte("{")) && formatByName(name) == Detect:
		return JSONL
	}
	return Detect
}

// withoutSpace cuts a byte order mark and white space in front.
func withoutSpace(b []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), " \t\r\n")
}

func formatByName(name string) Format {
	name = strings.ToLower(path.Base(name))
	for _, compressed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, compressed)
	}
	switch path.Ext(name) {
	case ".warc", ".wet":
		return WARC
	case ".html", ".htm", ".xhtml":
		return HTMLFile
	case ".jsonl", ".ndjson":
		return JSONL
	case ".txt", ".text", ".md":
		return TextFile
	case ".u64le":
		return U64LE
	case ".fingerprints":
		return Fingerprints
	}
	return Detect
}

// looksLikeFingerprints says whether all whole lines in view are fingerprints
// in a form that other text hardly has.
func looksLikeFingerprints(head []byte, whole bool) bool {
	n := 0
	for len(head) > 0 {
		line, rest, ok := bytes.Cut(head, []byte{'\n'})
		if !ok && !whole && n > 0 {
			break
		}
		head = rest
		digits, _, _ := bytes.Cut(bytes.TrimSuffix(line, []byte{'\r'}), []byte{'\t'})
		if len(digits) == 0 && len(bytes.TrimSpace(line)) == 0 {
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

// sniff tells pages from texts, and both from everything else, by content.
func sniff(content []byte) (kind Kind, problem string) { return classify("", content) }

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

func mediaType(contentType string) string { return document.MediaType(contentType) }

func isText(content []byte) bool { return document.IsText(content) }

// isToken follows RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
