// Package original writes records as they are in their files. It copies lines of JSON and the
// header and block of WARC records byte for byte. If the first WARC record comes from a compressed
// file, each record is written as a gzip member. A member of the input with one record is copied.
package original

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

// Writer writes records of one format. It keeps the first error, which Flush returns.
type Writer struct {
	out      *bufio.Writer
	begun    bool // a record was written
	compress bool
	gzip     *gzip.Writer
	err      error // of reading a member
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out *bufio.Writer) *Writer { return &Writer{out: out, gzip: gzip.NewWriter(out)} }

// Flush writes all buffered records.
func (w *Writer) Flush() error { return errors.Join(w.err, w.out.Flush()) }

// Write writes a record.
func (w *Writer) Write(o *corpus.Original) {
	if !w.begun {
		w.begun, w.compress = true, o.Format == corpus.WARC && o.Compressed
	}
	switch {
	case o.Member != nil && w.compress:
		w.out.Write(o.Member)
	case o.Member != nil:
		w.inflate(o.Member)
	case w.compress:
		w.gzip.Reset(w.out)
		w.gzip.Write(o.Header)
		w.gzip.Write(o.Body)
		w.gzip.Write(recordEnd)
		w.gzip.Close()
	default:
		w.out.Write(o.Header)
		w.out.Write(o.Body)
		if o.Format == corpus.WARC {
			w.out.Write(recordEnd)
		} else if !bytes.HasSuffix(o.Body, []byte{'\n'}) { // the last line of its file
			w.out.WriteByte('\n')
		}
	}
}

// recordEnd ends a WARC record.
var recordEnd = []byte("\r\n\r\n")

// inflate writes the content of a gzip member.
func (w *Writer) inflate(member []byte) {
	z, err := gzip.NewReader(bytes.NewReader(member))
	if err == nil {
		_, err = io.Copy(w.out, z)
	}
	w.err = errors.Join(w.err, err)
}
