package page

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Kind says how the text of a document is found.
type Kind uint8

const (
	HTML      Kind = iota + 1 // text/html and XHTML
	PlainText                 // text/plain and Markdown
)

// ErrNotText is what [KindOf] and [Signer.Sign] wrap for a document that is
// neither HTML nor plain text: an image, a PDF file, JSON. The error names the
// media type: "not text: image/png".
var ErrNotText = errors.New("not text")

// sniffBytes is how much of a document is looked at to tell what it is.
const sniffBytes = 4 << 10

// KindOf tells the kind of a document by the Content-Type header that it came
// with, and by its content where the header is missing or says nothing, or where
// a document that is declared to be text begins like an image or an archive. For
// an empty body it goes by the header alone; the kind is then 0 where the content
// would decide.
func KindOf(contentType string, body []byte) (Kind, error) {
	media := MediaType(contentType)
	var declared Kind
	switch media {
	case "text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml":
		declared = HTML
	case "text/plain", "text/markdown", "text/x-markdown":
		declared = PlainText
	case "", "unknown", "application/octet-stream", "application/unknown", "binary/octet-stream", "*/*":
		if len(body) == 0 {
			return 0, nil
		}
		return sniff(body)
	default:
		return 0, notText(media)
	}
	if media, yes := isBinary(body); yes {
		return 0, notText(media)
	}
	return declared, nil
}

func notText(media string) error { return fmt.Errorf("%w: %s", ErrNotText, media) }

// sniff tells pages from texts, and both from everything else, by content.
func sniff(body []byte) (Kind, error) {
	media, binary := isBinary(body)
	switch {
	case binary:
	case media == "text/html":
		return HTML, nil
	case media == "text/xml" && bytes.Contains(body[:min(len(body), sniffBytes)], []byte("<html")):
		return HTML, nil
	case media == "text/plain" || IsText(body):
		return PlainText, nil
	}
	return 0, notText(media)
}

// isBinary says whether content that is declared to be text is something
// else, by its magic number, and what.
func isBinary(body []byte) (media string, yes bool) {
	media = MediaType(http.DetectContentType(body))
	family, _, _ := strings.Cut(media, "/")
	switch {
	case media == "application/octet-stream", family == "text":
		return media, false // without a magic number it may be text in another encoding
	case media == "application/pdf", media == "application/postscript":
		return media, true
	}
	return media, !IsText(body) // "BM" begins bitmaps, and words
}

// IsText reports whether the first 4 KiB of body are UTF-8 without control
// characters. An empty body is not.
func IsText(body []byte) bool {
	body = body[:min(len(body), sniffBytes)]
	for i := 0; i < len(body); {
		r, size := utf8.DecodeRune(body[i:])
		if r == utf8.RuneError && size == 1 && utf8.FullRune(body[i:]) || r < ' ' && !strings.ContainsRune("\t\n\r\f\x1b", r) {
			return false
		}
		i += size
	}
	return len(body) > 0
}

// MediaType is the media type of a Content-Type, lower-case and without its
// parameters; "unknown" where it is not of the form of one.
func MediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	media, _, _ = strings.Cut(media, ",")
	media = strings.ToLower(strings.TrimSpace(media))
	if media == "" {
		return ""
	}
	family, sub, ok := strings.Cut(media, "/")
	if !ok || !isToken(family) || !isToken(sub) || len(media) > 80 {
		return "unknown"
	}
	return media
}

// isToken follows RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
