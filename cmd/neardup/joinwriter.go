package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

// joinWriter writes pairs and clusters, in every form. It holds no more than a line, or two
// members of a cluster.
type joinWriter struct {
	form   string
	header string // the first line of CSV
	all    bool   // clusters list every document

	out     *bufio.Writer // its errors stick
	line    []byte
	n       int // pairs or clusters
	unnamed int // removals of documents without a key
}

// writer is a joinWriter; CSV begins with the header.
func (f *joinFlags) writer(header string) *joinWriter {
	w := &joinWriter{form: *f.form, all: f.equal || f.removals()}
	if w.form == "csv" {
		w.header = header
	}
	return w
}

// write writes the line, or the part of it, that was put together.
func (w *joinWriter) write() error {
	_, err := w.out.Write(w.line)
	w.line = w.line[:0]
	return err
}

func (w *joinWriter) pair(a, b *member, distance int) error {
	w.n++
	switch w.form {
	case "json":
		w.line = a.appendJSON(append(w.line, `{"first":`...))
		w.line = b.appendJSON(append(w.line, `,"second":`...))
		w.line = fmt.Appendf(w.line, ",\"distance\":%d}\n", distance)
	case "csv":
		w.line = append(a.appendName(w.line), ',')
		w.line = append(b.appendName(w.line), ',')
		w.line = append(strconv.AppendInt(w.line, int64(distance), 10), '\n')
	case simhashCPP:
		w.line = strconv.AppendUint(append(w.line, '['), uint64(min(a.Fingerprint, b.Fingerprint)), 10)
		w.line = strconv.AppendUint(append(w.line, ", "...), uint64(max(a.Fingerprint, b.Fingerprint)), 10)
		w.line = append(w.line, "]\n"...)
	}
	return w.write()
}

// cluster writes the members of a cluster one after the other.
func (w *joinWriter) cluster(c *cluster) error {
	w.n++
	n := 0
	for m, err := range c.each(w.all) {
		if err != nil {
			return err
		}
		w.member(c, n, &m)
		if n++; n > 1 { // the first is held: it may be the only one
			if err := w.write(); err != nil {
				return err
			}
		}
	}
	switch {
	case w.form == "json":
		w.line = append(w.line, "]}\n"...)
	case w.form == simhashCPP && n > 1:
		w.line = append(w.line, "]\n"...)
	case w.form == simhashCPP: // copies of one number are none there
		w.line = w.line[:0]
	}
	return w.write()
}

// member appends member n of a cluster to the line. The first is the one that is kept.
func (w *joinWriter) member(c *cluster, n int, m *member) {
	switch w.form {
	case "json":
		switch n {
		case 0:
			w.line = fmt.Appendf(w.line, `{"documents":%d,"kept":`, c.documents)
			w.line = append(m.appendJSON(w.line), `,"others":[`...)
			return
		case 1:
		default:
			w.line = append(w.line, ',')
		}
		w.line = m.appendJSON(w.line)
	case "csv":
		w.line = fmt.Appendf(w.line, "%d,%v,%d,", w.n, n == 0, m.ID)
		w.line = appendCSV(w.line, corpus.QuoteKey(m.Key))
		w.line = fmt.Appendf(w.line, ",%v,%d\n", m.Fingerprint, m.Documents)
	case "removals", "removal-ids":
		switch {
		case n == 0:
			return
		case w.form == "removals" && m.Key != "":
			w.line = append(w.line, corpus.QuoteKey(m.Key)...)
		default:
			w.line = strconv.AppendUint(w.line, m.ID, 10)
			if w.form == "removals" {
				w.unnamed++
			}
		}
		w.line = append(w.line, '\n')
	case simhashCPP:
		before := ", "
		if n == 0 {
			before = "["
		}
		w.line = strconv.AppendUint(append(w.line, before...), uint64(m.Fingerprint), 10)
	}
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
