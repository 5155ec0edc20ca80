// Package original writes records as they stood in the files that they were read from: JSON lines
// to JSON lines, byte for byte; records of web archives to a web archive, their headers and blocks
// byte for byte, compressed each by itself where the first one came from a compressed file.
package original

import (
	"bufio"
	"bytes"

	"github.com/klauspost/compress/gzip"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

// Writer writes records, all of one format. Its errors stick, and come back from Flush.
type Writer struct {
	out  *bufio.Writer
	gzip *gzip.Writer // nil: not compressed
	any  bool         // was written
}

// NewWriter makes a writer to out.
func NewWriter(out *bufio.Writer) *Writer { return &Writer{out: out} }

// Flush hands on what was written.
func (w *Writer) Flush() error { return w.out.Flush() }

// Write writes a record.
func (w *Writer) Write(o *corpus.Original) {
	switch {
	case o.Format == corpus.WARC:
		w.record(o.Compressed, o.Header, o.Body)
	case bytes.HasSuffix(o.Body, []byte{'\n'}):
		w.out.Write(o.Body)
	default: // the last line of its file
		w.out.Write(o.Body)
		w.out.WriteByte('\n')
	}
}

// record writes a record of a web archive.
func (w *Writer) record(compressed bool, header, block []byte) {
	if !w.any && compressed {
		w.gzip = gzip.NewWriter(w.out)
	}
	w.any = true
	parts := [][]byte{header, block, []byte("\r\n\r\n")}
	if w.gzip == nil {
		for _, part := range parts {
			w.out.Write(part)
		}
		return
	}
	w.gzip.Reset(w.out)
	for _, part := range parts {
		w.gzip.Write(part)
	}
	w.gzip.Close()
}
