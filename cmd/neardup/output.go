package main

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// lines writes JSON objects, one a line. The first error sticks and comes back
// from flush.
type lines struct {
	buffer  *bufio.Writer
	encoder *json.Encoder
	err     error
}

func newLines(w io.Writer) *lines {
	l := &lines{buffer: bufio.NewWriterSize(w, 64<<10)}
	l.encoder = json.NewEncoder(l.buffer)
	l.encoder.SetEscapeHTML(false)
	return l
}

func (l *lines) write(v any) {
	if l.err == nil {
		l.err = l.encoder.Encode(v)
	}
}

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
