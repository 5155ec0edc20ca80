package page

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

// prescanBytes is the number of bytes in which a meta element may declare the encoding. The HTML
// standard says 1024, but many pages declare it later.
const prescanBytes = 16 << 10

// minSequences is the number of multi-byte UTF-8 sequences that overrule a declared multi-byte
// encoding. Two or three characters of GBK can be valid UTF-8 by chance. One sequence overrules a
// single-byte encoding.
const minSequences = 4

// decode converts body to UTF-8 and returns the name of the encoding that body was in.
// The result is valid UTF-8. It shares memory with body if body was UTF-8. The encoding
// is the first of these that applies:
//
//  1. the encoding of a byte order mark. The mark is dropped;
//  2. UTF-8 if all of body is valid UTF-8, since text in another encoding is rarely valid
//     UTF-8. This overrules a declaration, but it takes 4 characters that are not ASCII to
//     overrule a multi-byte encoding. ASCII with escape or zero bytes, as in ISO-2022-JP
//     and UTF-16, overrules no declaration;
//  3. the charset of contentType, the HTTP header;
//  4. the first meta element that declares one, in the first 16 KiB;
//  5. the encoding of an XML declaration;
//  6. UTF-16 without a mark, if the first character is '<' in UTF-16;
//  7. ISO-2022-JP, if body is ASCII with its escape sequences;
//  8. the encoding that detect recognizes, or windows-1252.
//
// A declared UTF-8 does not apply if more bytes of body are invalid than characters are
// valid. A declared UTF-16 does not apply if the first 1024 bytes have no zero byte. Names
// that are unknown, or that the Encoding Standard maps to "replacement", are ignored. Bytes
// that are invalid in the encoding become U+FFFD.
func decode(body []byte, contentType string) ([]byte, string) {
	valid := utf8.Valid(body)
	e, name := determine(body, contentType, valid)
	switch name {
	case "utf-8":
		body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
		if valid {
			return body, name
		}
		return validUTF8(body), name
	case "utf-16le", "utf-16be":
		if bytes.HasPrefix(body, []byte("\xfe\xff")) || bytes.HasPrefix(body, []byte("\xff\xfe")) {
			body = body[2:]
		}
	}
	decoded, err := e.NewDecoder().Bytes(body)
	if err != nil { // not with the decoders of the Encoding Standard
		decoded = body
	}
	return validUTF8(decoded), name
}

func validUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}

func determine(body []byte, contentType string, valid bool) (encoding.Encoding, string) {
	if e, name, certain := charset.DetermineEncoding(body[:min(len(body), 3)], ""); certain {
		return e, name // a byte order mark
	}
	enough := len(body)
	if valid {
		enough = minSequences
	}
	found := countUTF8(body, enough)
	otherASCII := found.sequences == 0 && (bytes.IndexByte(body, 0x1b) >= 0 ||
		bytes.IndexByte(body, 0) >= 0)
	valid = found.invalid == 0 // also if the last character is cut off
	if valid && (found.sequences >= minSequences || found.sequences == 0 && !otherASCII) {
		return encoding.Nop, "utf-8"
	}
	for _, label := range []string{labelIn(contentType),
		metaLabel(body[:min(len(body), prescanBytes)]), xmlLabel(body)} {
		e, name := charset.Lookup(label)
		if e == nil || !believable(name, body, found) {
			continue
		}
		if singleByte(name) && valid && found.sequences > 0 {
			return encoding.Nop, "utf-8"
		}
		return e, name
	}
	switch {
	case bytes.HasPrefix(body, []byte("<\x00")):
		return charset.Lookup("utf-16le")
	case bytes.HasPrefix(body, []byte("\x00<")):
		return charset.Lookup("utf-16be")
	case valid && otherASCII && isISO2022JP(body):
		return charset.Lookup("iso-2022-jp")
	case valid:
		return encoding.Nop, "utf-8"
	}
	return charset.Lookup(detect(body))
}

// utf8Count counts the sequences of a page, read as UTF-8.
type utf8Count struct {
	sequences int // valid sequences of several bytes
	invalid   int // bytes that belong to no sequence
	cutOff    int // bytes at the end that may have been the beginning of a sequence
}

// countUTF8 counts up to the given number of sequences. It reads ASCII eight bytes at a time.
func countUTF8(b []byte, enough int) (n utf8Count) {
	for i := 0; i < len(b) && n.sequences < enough; {
		if i+8 <= len(b) && binary.LittleEndian.Uint64(b[i:])&0x8080808080808080 == 0 {
			i += 8
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		switch {
		case r < utf8.RuneSelf:
		case r != utf8.RuneError || size > 1:
			n.sequences++
		case !utf8.FullRune(b[i:]):
			n.cutOff = len(b) - i
			return n
		default:
			n.invalid++
		}
		i += size
	}
	return n
}

// believable reports whether a declaration fits the bytes.
func believable(name string, body []byte, count utf8Count) bool {
	switch name {
	case "utf-8":
		return count.invalid+count.cutOff <= count.sequences
	case "utf-16le", "utf-16be":
		return bytes.IndexByte(body[:min(len(body), 1024)], 0) >= 0
	case "replacement":
		return false
	}
	return true
}

func singleByte(name string) bool {
	switch name {
	case "gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr", "iso-2022-jp",
		"utf-16le", "utf-16be":
		return false
	}
	return true
}

// xmlLabel returns the encoding label of an XML declaration.
func xmlLabel(body []byte) string {
	declaration, _, found := bytes.Cut(bytes.TrimLeft(body[:min(len(body), 1024)], " \t\r\n\f"),
		[]byte("?>"))
	if !found || !bytes.HasPrefix(declaration, []byte("<?xml")) {
		return ""
	}
	_, value, _ := bytes.Cut(declaration, []byte("encoding"))
	value = bytes.TrimLeft(value, " \t\r\n\f=")
	if len(value) < 2 || value[0] != '"' && value[0] != '\'' {
		return ""
	}
	label, _, _ := bytes.Cut(value[1:], value[:1])
	return withoutUTF16(string(label))
}

// metaLabel returns the encoding label of the first meta element that has one.
func metaLabel(head []byte) string {
	z := html.NewTokenizer(bytes.NewReader(head))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			if label := tagLabel(z); label != "" {
				return label
			}
		}
	}
}

func tagLabel(z *html.Tokenizer) string {
	name, more := z.TagName()
	if string(name) != "meta" {
		return ""
	}
	var pragma bool
	var content string
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "charset":
			return withoutUTF16(string(value))
		case "http-equiv":
			pragma = pragma || bytes.EqualFold(value, []byte("content-type"))
		case "content":
			content = string(value)
		}
	}
	if !pragma {
		return ""
	}
	return withoutUTF16(labelIn(content))
}

// withoutUTF16 replaces UTF-16 by UTF-8, as the HTML standard requires: a declaration that was read
// as ASCII is not in UTF-16.
func withoutUTF16(label string) string {
	if _, name := charset.Lookup(label); name == "utf-16le" || name == "utf-16be" {
		return "utf-8"
	}
	return label
}

// labelIn returns the charset parameter of a Content-Type, or "". It accepts headers that are too
// malformed for mime.ParseMediaType.
func labelIn(contentType string) string {
	const parameter = "charset"
	for s := contentType; len(s) >= len(parameter); {
		if !strings.EqualFold(s[:len(parameter)], parameter) {
			s = s[1:]
			continue
		}
		s = strings.TrimLeft(s[len(parameter):], " \t\r\n\f")
		label, ok := strings.CutPrefix(s, "=")
		if !ok {
			continue
		}
		label = strings.TrimLeft(label, " \t\r\n\f\"'")
		if end := strings.IndexAny(label, " \t\r\n\f\"';,"); end >= 0 {
			label = label[:end]
		}
		return label
	}
	return ""
}
