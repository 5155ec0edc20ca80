// Package original writes records as they stood in the files that they were read from: JSON lines
// to JSON lines, byte for byte; records of web archives to a web archive, their headers and blocks
// byte for byte, compressed each by itself where the first one came from a compressed file.
package original

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"

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

// RevisitProfile is the WARC-Profile of a record that replaces a page with an equal text. The
// profiles of the standard promise equal bytes or an HTTP status of 304. A reader that does not know
// a profile leaves the record alone.
const RevisitProfile = "https://github.com/neardup/neardup/blob/main/docs/api.md#equal-text-revisit"

// WriteRevisit writes a revisit record in place of a record of a web archive. It has the URL, the
// time and the HTTP header of the record, without the page, whose text is equal to the text of the
// page with the key of.
func (w *Writer) WriteRevisit(o *corpus.Original, of string) {
	var header bytes.Buffer
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&header, "%s: %s\r\n", name, value)
		}
	}
	header.WriteString("WARC/1.1\r\n")
	field("WARC-Type", "revisit")
	field("WARC-Record-ID", revisitID(o))
	field("WARC-Profile", RevisitProfile)
	field("WARC-Target-URI", strings.TrimSuffix(strings.TrimPrefix(o.Field("WARC-Target-URI"), "<"), ">"))
	for _, name := range []string{"WARC-Date", "WARC-IP-Address", "WARC-Warcinfo-ID"} {
		field(name, o.Field(name))
	}
	if u, err := url.Parse(of); err == nil && u.IsAbs() && !strings.ContainsAny(of, " <>") {
		field("WARC-Refers-To-Target-URI", of)
	}
	block := o.HTTPHeader()
	if len(block) > 0 {
		field("Content-Type", cmp.Or(o.Field("Content-Type"), "application/http; msgtype=response"))
		field("WARC-Truncated", "length")
	}
	field("Content-Length", fmt.Sprint(len(block)))
	header.WriteString("\r\n")
	w.record(o.Compressed, header.Bytes(), block)
}

// revisitID is the same whenever the same record is replaced.
func revisitID(o *corpus.Original) string {
	hash := sha256.New()
	hash.Write([]byte(RevisitProfile))
	hash.Write(o.Header)
	hash.Write(o.Body)
	id := hash.Sum(nil)[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8 of RFC 9562: a hash of one's own choice
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
