package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

// joinWriter writes pairs and clusters, in every form, to standard output or to a file. It
// holds no more than a line, or a member of a cluster.
type joinWriter struct {
	name     string // of the file; "-" is standard output
	header   string // the first line
	equal    bool   // clusters list every document
	ids      bool   // removals have no keys
	standard io.Writer

	out      *bufio.Writer // its errors stick
	file     *truncateOnWrite
	line     []byte
	clusters int
	unnamed  int // removals of documents without a key
}

func (f *joinFlags) writer() *joinWriter {
	return &joinWriter{name: f.output, equal: f.equal, ids: f.as == "removal-ids", standard: f.call.out}
}

func (w *joinWriter) open() error {
	to := w.standard
	if w.name != "-" && w.name != "" {
		file, err := openTruncateOnWrite(w.name)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		w.file, to = file, file
	}
	w.out = bufio.NewWriterSize(to, 256<<10)
	w.out.WriteString(w.header)
	return nil
}

// close writes what is left, and returns what failed before as well. A file to which
// nothing was written stays as it was then.
func (w *joinWriter) close(failed error) error {
	if failed == nil || w.file == nil || w.file.written {
		failed = cmp.Or(failed, w.out.Flush()) // an error of the file is that of all of them
	}
	if w.file != nil {
		failed = errors.Join(failed, w.file.close(failed))
	}
	return failed
}

// write writes the line, or the part of it, that was put together.
func (w *joinWriter) write() error {
	_, err := w.out.Write(w.line)
	w.line = w.line[:0]
	return err
}

func (w *joinWriter) pairJSON(a, b *member, distance int) error {
	w.line = a.appendJSON(append(w.line, `{"first":`...))
	w.line = b.appendJSON(append(w.line, `,"second":`...))
	w.line = fmt.Appendf(w.line, ",\"distance\":%d}\n", distance)
	return w.write()
}

func (w *joinWriter) pairCSV(a, b *member, distance int) error {
	w.line = append(a.appendName(w.line), ',')
	w.line = append(b.appendName(w.line), ',')
	w.line = append(strconv.AppendInt(w.line, int64(distance), 10), '\n')
	return w.write()
}

// pairArray writes a pair as simhash-cpp does: [smaller, larger].
func (w *joinWriter) pairArray(a, b *member, _ int) error {
	w.line = fmt.Appendf(w.line, "[%d, %d]\n", min(a.Fingerprint, b.Fingerprint), max(a.Fingerprint, b.Fingerprint))
	return w.write()
}

func (w *joinWriter) clusterJSON(c *cluster) error {
	kept, err := c.kept()
	if err != nil {
		return err
	}
	if w.equal {
		kept.Documents = 1
	}
	w.line = fmt.Appendf(w.line, `{"documents":%d,"kept":`, c.documents)
	w.line = append(kept.appendJSON(w.line), `,"others":[`...)
	separator := ""
	for m, err := range c.each(w.equal) {
		if err != nil {
			return err
		}
		if m.ID == kept.ID {
			continue
		}
		w.line = m.appendJSON(append(w.line, separator...))
		if err := w.write(); err != nil {
			return err
		}
		separator = ","
	}
	w.line = append(w.line, "]}\n"...)
	return w.write()
}

// clusterCSV writes a line for each member, or document.
func (w *joinWriter) clusterCSV(c *cluster) error {
	w.clusters++
	kept, err := c.kept()
	if err != nil {
		return err
	}
	for m, err := range c.each(w.equal) {
		if err != nil {
			return err
		}
		w.line = fmt.Appendf(w.line, "%d,%v,%d,", w.clusters, m.ID == kept.ID, m.ID)
		w.line = appendCSV(w.line, corpus.QuoteKey(m.Key))
		w.line = fmt.Appendf(w.line, ",%v,%d\n", m.Fingerprint, m.Documents)
		if err := w.write(); err != nil {
			return err
		}
	}
	return nil
}

// removals writes a line for each document but the one that is kept.
func (w *joinWriter) removals(c *cluster) error {
	kept, err := c.kept()
	if err != nil {
		return err
	}
	for d, err := range c.each(true) {
		if err != nil {
			return err
		}
		if d.ID == kept.ID {
			continue
		}
		if d.Key != "" && !w.ids {
			w.line = append(w.line, corpus.QuoteKey(d.Key)...)
		} else {
			w.line = strconv.AppendUint(w.line, d.ID, 10)
		}
		if d.Key == "" && !w.ids {
			w.unnamed++
		}
		w.line = append(w.line, '\n')
		if err := w.write(); err != nil {
			return err
		}
	}
	return nil
}

// clusterArray writes the numbers of a cluster as simhash-cpp does, which does not count
// copies of one number.
func (w *joinWriter) clusterArray(c *cluster) error {
	if c.distinct < 2 {
		return nil
	}
	before := "["
	for m, err := range c.each(false) {
		if err != nil {
			return err
		}
		w.line = strconv.AppendUint(append(w.line, before...), uint64(m.Fingerprint), 10)
		if err := w.write(); err != nil {
			return err
		}
		before = ", "
	}
	w.line = append(w.line, "]\n"...)
	return w.write()
}

// appendJSON appends a member, without the ID and the number that it does not have.
func (m *member) appendJSON(line []byte) []byte {
	line = append(line, '{')
	if m.ID > 0 {
		line = fmt.Appendf(line, `"id":%d,`, m.ID)
	}
	if m.Key != "" {
		line = append(appendJSONString(append(line, `"key":`...), m.Key), ',')
	}
	line, _ = m.Fingerprint.AppendText(append(line, `"fingerprint":"`...))
	line = append(line, '"')
	if m.Documents > 0 {
		line = fmt.Appendf(line, `,"documents":%d`, m.Documents)
	}
	return append(line, '}')
}

// appendName appends what a member is called in a list: its key, or else its fingerprint.
func (m *member) appendName(line []byte) []byte {
	if m.Key != "" {
		return appendCSV(line, corpus.QuoteKey(m.Key))
	}
	line, _ = m.Fingerprint.AppendText(line)
	return line
}

// appendCSV appends a field as encoding/csv does.
func appendCSV(line []byte, field string) []byte {
	first, _ := utf8.DecodeRuneInString(field)
	if field == "" || field != `\.` && !strings.ContainsAny(field, ",\"\r\n") && !unicode.IsSpace(first) {
		return append(line, field...)
	}
	line = append(line, '"')
	line = append(line, strings.ReplaceAll(field, `"`, `""`)...)
	return append(line, '"')
}

// appendJSONString appends a string in quotes, without anything that a terminal acts on.
func appendJSONString(line []byte, s string) []byte {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) < 0 {
		line = append(append(line, '"'), s...)
		return append(line, '"')
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.Encode(s) // no string fails
	return append(line, escapeControls(bytes.TrimSuffix(text.Bytes(), []byte{'\n'}))...)
}
