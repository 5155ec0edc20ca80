package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// quotedKeys says in the help how keys are written as text.
const quotedKeys = `A key that begins with a double quote, or has a line break, a tab or anything else that is
not printable, is written in double quotes with the escapes of Go and C: \n \t \" \\ \xHH.
`

// lines writes JSON objects, one a line. The first error sticks and comes back
// from flush.
type lines struct {
	buffer  *bufio.Writer
	line    bytes.Buffer
	encoder *json.Encoder // into line
	err     error
}

func newLines(w io.Writer) *lines {
	l := &lines{buffer: bufio.NewWriterSize(w, 64<<10)}
	l.encoder = json.NewEncoder(&l.line)
	l.encoder.SetEscapeHTML(false)
	return l
}

func (l *lines) write(v any) {
	if l.err != nil {
		return
	}
	l.line.Reset()
	if l.err = l.encoder.Encode(v); l.err == nil {
		_, l.err = l.buffer.Write(escapeControls(l.line.Bytes()))
	}
}

// escapeControls escapes the control characters that the encoder leaves as they are: DEL and
// U+0080 to U+009F, which some terminals act on. They stand in strings only.
func escapeControls(line []byte) []byte {
	if bytes.IndexFunc(line, isDelOrC1) < 0 {
		return line
	}
	escaped := make([]byte, 0, len(line)+64)
	for _, r := range string(line) {
		if isDelOrC1(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

func isDelOrC1(r rune) bool { return r >= 0x7f && r <= 0x9f }

// flush hands on what was written. It must follow each batch: a reader of the
// output should see a line as soon as it holds.
func (l *lines) flush() error {
	if l.err == nil {
		l.err = l.buffer.Flush()
	}
	return l.err
}

// matchLine is a match in the output of query.
type matchLine struct {
	ID          uint64                  `json:"id"`
	Key         string                  `json:"key"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Distance    int                     `json:"distance"`
}

func matchLines(matches []index.Match) []matchLine {
	out := make([]matchLine, len(matches))
	for i, m := range matches {
		out[i] = matchLine{m.ID, m.Key, m.Fingerprint, m.Distance}
	}
	return out
}
