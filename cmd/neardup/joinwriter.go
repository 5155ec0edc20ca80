package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"strconv"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
)

// memberLine is a member of a pair or a cluster in JSON, without the ID, key and number that it
// does not have.
type memberLine struct {
	ID          uint64                  `json:"id,omitempty"`
	Key         string                  `json:"key,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Documents   int                     `json:"documents,omitempty"`
}

func (m *member) line() memberLine { return memberLine{m.ID, m.Key, m.Fingerprint, m.Documents} }

// pairLine is printed for each pair.
type pairLine struct {
	First    memberLine `json:"first"`
	Second   memberLine `json:"second"`
	Distance int        `json:"distance"`
}

// clusterLine is printed for each cluster, member by member: no more than one is in memory.
type clusterLine struct {
	Documents int          `json:"documents"`
	Kept      memberLine   `json:"kept"`
	Others    []memberLine `json:"others"`
}

// joinWriter writes pairs and clusters, in every form. The errors of out stick.
type joinWriter struct {
	form    string
	out     *bufio.Writer
	lines   *lines      // into out
	csv     *csv.Writer // into out
	n       int         // pairs or clusters
	unnamed int         // removals of documents without a key
}

func newJoinWriter(form string, out *bufio.Writer) *joinWriter {
	return &joinWriter{form: form, out: out, lines: newLines(out), csv: csv.NewWriter(out)}
}

func (w *joinWriter) pair(a, b *member, distance int) error {
	w.n++
	switch w.form {
	case "json":
		return w.lines.write(pairLine{a.line(), b.line(), distance})
	case "csv":
		return w.csv.Write([]string{a.name(), b.name(), strconv.Itoa(distance)})
	}
	_, err := fmt.Fprintf(w.out, "[%d, %d]\n", min(a.Fingerprint, b.Fingerprint), max(a.Fingerprint, b.Fingerprint))
	return err
}

// cluster writes every document of a cluster, the one to be kept first; simhash-cpp knows
// numbers, each once.
func (w *joinWriter) cluster(c *cluster) error {
	w.n++
	n, first := 0, fingerprint.Fingerprint(0)
	for m, err := range c.each(w.form != simhashCPP) {
		if err != nil {
			return err
		}
		switch w.form {
		case "json":
			w.jsonMember(c, n, &m)
		case "csv":
			w.csv.Write([]string{strconv.Itoa(w.n), strconv.FormatBool(n == 0), strconv.FormatUint(m.ID, 10),
				corpus.QuoteKey(m.Key), m.Fingerprint.String(), strconv.Itoa(m.Documents)})
		case simhashCPP:
			switch n {
			case 0: // it may be the only one, which is no cluster there
				first = m.Fingerprint
			case 1:
				fmt.Fprintf(w.out, "[%d, %d", first, m.Fingerprint)
			default:
				fmt.Fprintf(w.out, ", %d", m.Fingerprint)
			}
		default:
			if n > 0 {
				w.removal(&m)
			}
		}
		n++
	}
	switch {
	case w.form == "json":
		w.out.WriteString("]}\n")
	case w.form == simhashCPP && n > 1:
		w.out.WriteString("]\n")
	}
	_, err := w.out.Write(nil)
	return err
}

// jsonMember writes member n as part of a clusterLine.
func (w *joinWriter) jsonMember(c *cluster, n int, m *member) {
	switch n {
	case 0:
		fmt.Fprintf(w.out, `{"documents":%d,"kept":%s,"others":[`, c.documents, w.lines.encode(m.line()))
		return
	case 1:
	default:
		w.out.WriteByte(',')
	}
	w.out.Write(w.lines.encode(m.line()))
}

// removal writes what to delete.
func (w *joinWriter) removal(m *member) {
	if w.form == "removals" && m.Key != "" {
		fmt.Fprintln(w.out, corpus.QuoteKey(m.Key))
		return
	}
	fmt.Fprintln(w.out, m.ID)
	if w.form == "removals" {
		w.unnamed++
	}
}

// name is what a member is called in a list: its key, or else its fingerprint.
func (m *member) name() string {
	if m.Key != "" {
		return corpus.QuoteKey(m.Key)
	}
	return m.Fingerprint.String()
}
