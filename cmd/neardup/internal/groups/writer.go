package groups

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/wire"
)

// The forms of output.
const (
	JSON     = "json"     // a line for each pair or cluster
	Removals = "removals" // of clusters, the IDs to delete so that one document of each remains

	// SimhashCPP is the arrays of numbers that simhash-find-all and simhash-find-clusters of
	// seomoz/simhash-cpp write. These come in an order that hash tables give; here it is that of the
	// numbers, for clusters, and none, for pairs.
	SimhashCPP = "simhash-cpp"
)

// MemberLine is a member of a pair or a cluster in JSON, without the ID, key and number that it
// does not have.
type MemberLine struct {
	ID          uint64                  `json:"id,omitempty"`
	Key         string                  `json:"key,omitempty"`
	KeyBytes    []byte                  `json:"keyBytes,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Documents   int                     `json:"documents,omitempty"`
}

// ClusterMember is a member of a cluster in JSON.
type ClusterMember struct {
	MemberLine
	Duplicates uint64 `json:"duplicates,omitempty"` // how often a page was a duplicate of it
}

// PairLine is what JSON has of a pair.
type PairLine struct {
	First    MemberLine `json:"first"`
	Second   MemberLine `json:"second"`
	Distance int        `json:"distance"`
}

// ClusterLine is what JSON has of a cluster. It is written member by member.
type ClusterLine struct {
	Documents int             `json:"documents"`
	Kept      ClusterMember   `json:"kept"`
	Others    []ClusterMember `json:"others"`
}

// Writer writes pairs and clusters, in every form, for one goroutine of several.
type Writer struct {
	Written int // pairs or clusters

	form string
	text bytes.Buffer // whole lines that are not in out yet, and the one under way

	mu  *sync.Mutex
	out *bufio.Writer // of all writers; its errors stick
}

// NewWriters returns writers to one output, one per worker.
func NewWriters(form string, out *bufio.Writer, workers int) []*Writer {
	writers, mu := make([]*Writer, workers), new(sync.Mutex)
	for i := range writers {
		writers[i] = &Writer{form: form, mu: mu, out: out}
	}
	return writers
}

// Flush hands on what was written.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.text.WriteTo(w.out)
	return err
}

// lineEnded hands on lines where they are many.
func (w *Writer) lineEnded() error {
	if w.text.Len() < 64<<10 {
		return nil
	}
	return w.Flush()
}

// Pair writes a pair.
func (w *Writer) Pair(a, b *Member, distance int) error {
	w.Written++
	line := w.text.AvailableBuffer()
	switch w.form {
	case JSON:
		var err error
		if line, err = wire.Append(line, &PairLine{memberLine(a), memberLine(b), distance}); err != nil {
			return err
		}
	case SimhashCPP:
		line = strconv.AppendUint(append(line, '['), uint64(min(a.Fingerprint, b.Fingerprint)), 10)
		line = strconv.AppendUint(append(line, ", "...), uint64(max(a.Fingerprint, b.Fingerprint)), 10)
		line = append(line, "]\n"...)
	}
	w.text.Write(line)
	return w.lineEnded()
}

// Cluster writes every document of a cluster, the one to be kept first.
func (w *Writer) Cluster(c *Cluster) error {
	w.Written++
	n, first := 0, fingerprint.Fingerprint(0)
	err := c.each(func(m *Member) error {
		switch w.form {
		case JSON:
			if err := w.jsonMember(c, n, m); err != nil {
				return err
			}
		case SimhashCPP:
			switch n {
			case 0: // it may be the only one, which is no cluster there
				first = m.Fingerprint
			case 1:
				fmt.Fprintf(&w.text, "[%d, %d", first, m.Fingerprint)
			default:
				fmt.Fprintf(&w.text, ", %d", m.Fingerprint)
			}
		case Removals:
			if n > 0 {
				fmt.Fprintln(&w.text, m.ID)
			}
		}
		n++
		return w.lineEnded()
	})
	switch {
	case err != nil:
		return err
	case w.form == JSON:
		w.text.WriteString("]}\n")
	case w.form == SimhashCPP && n > 1:
		w.text.WriteString("]\n")
	}
	return w.lineEnded()
}

// jsonMember writes member n as part of a ClusterLine.
func (w *Writer) jsonMember(c *Cluster, n int, m *Member) error {
	line := w.text.AvailableBuffer()
	if n == 0 {
		line = fmt.Appendf(line, `{"documents":%d,"kept":`, c.Documents)
	} else if n > 1 {
		line = append(line, ',')
	}
	line, err := wire.Append(line, &ClusterMember{memberLine(m), m.Duplicates})
	if err != nil {
		return err
	}
	line = line[:len(line)-1] // without the line break
	if n == 0 {
		line = append(line, `,"others":[`...)
	}
	w.text.Write(line)
	return nil
}

// memberLine returns what JSON has of a member.
func memberLine(m *Member) MemberLine {
	l := MemberLine{ID: m.ID, Key: m.Key, Fingerprint: m.Fingerprint, Documents: m.Documents}
	if !utf8.ValidString(m.Key) {
		l.KeyBytes = []byte(m.Key)
	}
	return l
}
