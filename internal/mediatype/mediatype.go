// Package mediatype parses Content-Type headers leniently and detects whether content is text.
package mediatype

import (
	"strings"
	"unicode/utf8"
)

// SniffBytes is the number of bytes of a document that detection reads.
const SniffBytes = 4 << 10

// IsText reports whether the first SniffBytes bytes of body are UTF-8 without control characters.
// An empty body is not text.
func IsText(body []byte) bool {
	body = body[:min(len(body), SniffBytes)]
	for i := 0; i < len(body) && utf8.FullRune(body[i:]); { // the last may be cut off
		r, size := utf8.DecodeRune(body[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && !strings.ContainsRune("\t\n\r\f\x1b", r) {
			return false
		}
		i += size
	}
	return len(body) > 0
}

// Of returns the media type of a Content-Type in lower case, without parameters. It
// returns "unknown" if the header is malformed.
func Of(contentType string) string {
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
