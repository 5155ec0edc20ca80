package mediatype

import (
	"bytes"
	"net/http"
	"strings"
)

// magicNumbers has the first bytes of formats that http.DetectContentType does not know. They apply
// only to content with control characters, since text may begin with the same letters.
var magicNumbers = []struct{ prefix, media string }{
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"},
	{"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"},
	{"BZh", "application/x-bzip2"},
	{"\xfd7zXZ\x00", "application/x-xz"},
	{"\x28\xb5\x2f\xfd", "application/zstd"},
	{"\x04\x22\x4d\x18", "application/x-lz4"},
	{"FWS", "application/x-shockwave-flash"},
	{"CWS", "application/x-shockwave-flash"},
	{"ZWS", "application/x-shockwave-flash"},
	{"MZ", "application/vnd.microsoft.portable-executable"},
	{"\x7fELF", "application/x-executable"},
	{"\xca\xfe\xba\xbe", "application/java-vm"},
	{"SQLite format 3\x00", "application/vnd.sqlite3"},
	{"PAR1", "application/vnd.apache.parquet"},
	{"MSCF", "application/vnd.ms-cab-compressed"},
	{"!<arch>\n", "application/x-archive"},
	{"fLaC", "audio/flac"},
	{"II*\x00", "image/tiff"},
	{"MM\x00*", "image/tiff"},
	{"8BPS", "image/vnd.adobe.photoshop"},
	{"AT&TFORM", "image/vnd.djvu"},
	{"bplist00", "application/x-bplist"},
}

// controls has a 1 for each byte that does not occur in text in the encodings of the web, except
// UTF-16 and UTF-32. Escape, shift-out and shift-in belong to ISO 2022. Form feed and vertical tab
// are white space.
var controls = func() (t [256]uint8) {
	for c := range byte(' ') {
		if strings.IndexByte("\t\n\v\f\r\x0e\x0f\x1b", c) < 0 {
			t[c] = 1
		}
	}
	return t
}()

// controlBytes is the number of bytes that are searched for control characters. Content is binary
// if it has more than one control character per controlShare bytes. Random and compressed bytes
// have one per 11 bytes. Pages with a few control characters by mistake, or padded with zeros, have
// fewer.
const (
	controlBytes = 1 << 10
	controlShare = 64
)

// Binary reports whether content is binary. It also returns the media type of the content.
func Binary(body []byte) (media string, yes bool) {
	media = Of(http.DetectContentType(body))
	family, _, _ := strings.Cut(media, "/")
	switch {
	case media == "application/pdf", media == "application/postscript":
		return media, true
	case media != "application/octet-stream" && family != "text":
		return media, !IsText(body) // "BM" begins bitmaps and words
	case IsUTF16(body) || !hasControls(body):
		return media, false
	}
	media = "application/octet-stream"
	for _, m := range magicNumbers {
		if bytes.HasPrefix(body, []byte(m.prefix)) {
			media = m.media
			break
		}
	}
	return media, true
}

// hasControls reports whether body has too many control characters for text.
func hasControls(body []byte) bool {
	body = body[:min(len(body), controlBytes)]
	n := 0
	for _, c := range body {
		n += int(controls[c])
	}
	return n > 1+len(body)/controlShare
}

// IsUTF16 reports whether body begins with the byte order mark of UTF-16 or with an ASCII character
// in UTF-16, and has few control characters and few unpaired surrogates.
func IsUTF16(body []byte) bool {
	if len(body) < 2 {
		return false
	}
	low := 0 // index of the less significant byte of each character
	switch {
	case body[0] == 0xfe && body[1] == 0xff, body[0] == 0 && body[1] != 0:
		low = 1
	case body[0] == 0xff && body[1] == 0xfe, body[0] != 0 && body[1] == 0:
	default:
		return false
	}
	body = body[:min(len(body), controlBytes)&^1]
	bad, ascii, surrogate := 0, 0, false // surrogate: the last unit was the first half of a pair
	for i := 0; i < len(body); i += 2 {
		high := body[i+1-low]
		if low, second := body[i+low], high&0xfc == 0xdc; surrogate != second || high == 0 &&
			controls[low] == 1 {
			bad++
		}
		surrogate = high&0xfc == 0xd8
		if high == 0 {
			ascii++
		}
	}
	marked := body[0]|body[1] == 0xff
	return bad <= len(body)/2/controlShare && (marked || 2*ascii > len(body)/2)
}
