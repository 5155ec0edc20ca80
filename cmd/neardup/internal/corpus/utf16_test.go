package corpus

import (
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// An input in UTF-16 has the records of the same input in UTF-8. A short input needs a byte order
// mark.
func TestUTF16(t *testing.T) {
	lines := strings.Repeat(`{"url":"u","text":"words, слова, 𐍈"}`+"\r\n", 3000)
	array := "[" + strings.ReplaceAll(strings.TrimSpace(lines), "\r\n", ",\n") + "]"
	little, big := unicode.LittleEndian, unicode.BigEndian
	marked := []encoding.Encoding{unicode.UTF16(little, unicode.UseBOM),
		unicode.UTF16(big, unicode.UseBOM)}
	all := append(marked, unicode.UTF16(little, unicode.IgnoreBOM),
		unicode.UTF16(big, unicode.IgnoreBOM))
	for name, c := range map[string]struct {
		format    Format
		input     string
		encodings []encoding.Encoding
	}{
		"JSON lines": {JSONL, lines, all}, "JSON lines, detected": {Detect, lines, all},
		"JSON": {Detect, array, all}, "text": {Detect, "some words, слова", all},
		"a list": {Detect, "0123456789abcdef\tключ\r\n00000000000000ff\r\n", all},
		"HTML":   {Detect, "<!doctype html><p>some words, слова", all},
		"short":  {TextFile, "я", marked},
	} {
		want := readString(t, Options{Format: c.format}, c.input)
		for _, utf16 := range c.encodings {
			encoded, err := utf16.NewEncoder().String(c.input)
			must(t, err)
			for _, input := range []string{encoded, gzipped(encoded)} {
				got := readString(t, Options{Format: c.format}, input)
				if brief(got) != brief(want) || want[0].Skip != nil {
					t.Errorf("%s, %v: got\n%.300swant\n%.300s", name, utf16, brief(got),
						brief(want))
				}
				if got[0].Kind != Fingerprint &&
					!strings.HasSuffix(got[0].ContentType, "charset=utf-8") {
					t.Errorf("%s: type %q", name, got[0].ContentType)
				}
			}
		}
	}
}
