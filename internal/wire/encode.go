package wire

import (
	"bytes"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// encoding selects the semantics of encoding/json, except that <, > and & are not escaped.
var encoding = json.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false))

// Append appends v to a buffer, as a line of JSON that is safe on a terminal. If it fails, it
// returns the buffer unchanged.
func Append(to []byte, v any) ([]byte, error) {
	line := bytes.NewBuffer(to)
	if err := json.MarshalWrite(line, v, encoding); err != nil {
		return to, err
	}
	line.WriteByte('\n')
	return escapeControls(line.Bytes(), len(to)), nil
}

// Encode returns v as a line of JSON that is safe on a terminal.
func Encode(v any) ([]byte, error) { return Append(nil, v) }

// controlStarts are the first bytes, in UTF-8, of the characters that escapeControls escapes.
var controlStarts = [][]byte{{0x7f}, {0xc2}, {0xd8, 0x9c}, {0xe2, 0x80}, {0xe2, 0x81}}

// escapeControls escapes the characters in the JSON text[from:] that control some terminals: DEL,
// U+0080 to U+009F, and the characters that change the direction of text.
func escapeControls(text []byte, from int) []byte {
	line := text[from:]
	if !slices.ContainsFunc(controlStarts, func(start []byte) bool {
		return bytes.Contains(line, start)
	}) {
		return text
	}
	escaped := make([]byte, 0, len(text)+64)
	escaped = append(escaped, text[:from]...)
	for _, r := range string(line) {
		if r >= 0x7f && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}
