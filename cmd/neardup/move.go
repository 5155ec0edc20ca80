package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
	"unicode/utf8"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// What "export -format jsonl" writes and import reads back exactly: a line about the index, then a
// line a document, in the order of their IDs.

// indexLine is the first line.
type indexLine struct {
	Index exportedIndex `json:"neardupIndex"`
}

type exportedIndex struct {
	Analyzer    string `json:"analyzer,omitempty"`
	MaxDistance int    `json:"maxDistance"`
	Documents   uint64 `json:"documents"` // so that an export that is cut off is not taken for a whole one
}

// exportMark is how it begins.
const exportMark = `{"neardupIndex":`

// documentLine is a document. A key or scope that is not UTF-8 is in base64.
type documentLine struct {
	Key         string                   `json:"key,omitempty"`
	KeyBytes    []byte                   `json:"keyBytes,omitempty"`
	Fingerprint fingerprint.Fingerprint  `json:"fingerprint"`
	Shingle     *fingerprint.Fingerprint `json:"shingle,omitempty"`
	Tokens      int                      `json:"tokens,omitempty"`
	Scope       string                   `json:"scope,omitempty"`
	ScopeBytes  []byte                   `json:"scopeBytes,omitempty"`
	Added       time.Time                `json:"added,omitzero"`
}

func documentLineOf(d *index.Document) *documentLine {
	l := &documentLine{Key: d.Key, Fingerprint: d.Fingerprint, Tokens: d.Tokens, Scope: d.Scope, Added: d.Added}
	if d.Shingle != 0 {
		l.Shingle = &d.Shingle
	}
	if !utf8.ValidString(d.Key) {
		l.Key, l.KeyBytes = "", []byte(d.Key)
	}
	if !utf8.ValidString(d.Scope) {
		l.Scope, l.ScopeBytes = "", []byte(d.Scope)
	}
	return l
}

func (l *documentLine) document() index.Document {
	d := index.Document{Key: l.Key + string(l.KeyBytes), Fingerprint: l.Fingerprint, Tokens: l.Tokens, Scope: l.Scope + string(l.ScopeBytes), Added: l.Added}
	if l.Shingle != nil {
		d.Shingle = *l.Shingle
	}
	return d
}

// exportDocuments writes all there is to know of the documents of an index.
func exportDocuments(ctx context.Context, x *index.Index, out io.Writer) error {
	lines, stats := newLines(out), x.Stats()
	lines.write(indexLine{exportedIndex{stats.Analyzer, stats.MaxDistance, stats.Documents}})
	for d, err := range x.Documents(ctx) {
		if err != nil {
			return errors.Join(err, lines.flush())
		}
		if lines.write(documentLineOf(&d)); lines.err != nil {
			break
		}
	}
	return lines.flush()
}

// exportsAmong returns the first lines of the inputs if "export -format jsonl" wrote them, else none.
func (f *inputFlags) exportsAmong(ctx context.Context) (exports []exportedIndex, err error) {
	c := f.call
	if f.format != corpus.Detect && f.format != corpus.JSONL {
		return nil, nil
	}
	stdin := bufio.NewReader(cancelable(ctx, c.in))
	c.in = stdin // whoever reads it has what was looked at here
	for n, name := range c.args {
		var e exportedIndex
		found := false
		if name == "-" {
			head, _ := stdin.Peek(4 << 10)
			e, found = exportBegins(bytes.NewReader(head))
		} else if in, err := corpus.Open(name, nil); err == nil { // else its reader says why
			e, found = exportBegins(in)
			in.Close()
		}
		if found != (len(exports) == n) && n > 0 {
			return nil, usagef("%s and %s are of different kinds: import them one after the other", c.args[0], name)
		}
		if found {
			exports = append(exports, e)
		}
	}
	for n, e := range exports {
		if e.Analyzer != exports[0].Analyzer {
			return nil, fmt.Errorf("%s has fingerprints of analyzer %q, %s of %q: %w", c.args[0], exports[0].Analyzer, c.args[n], e.Analyzer, index.ErrMismatch)
		}
	}
	return exports, nil
}

func exportBegins(in io.Reader) (e exportedIndex, found bool) {
	var line indexLine
	r := bufio.NewReader(in)
	if head, _ := r.Peek(len(exportMark)); string(head) != exportMark {
		return e, false
	}
	err := json.NewDecoder(r).Decode(&line)
	return line.Index, err == nil
}

// exportedDocuments yields the documents of exports. It ends at the first line that is none.
func (c *call) exportedDocuments(exports []exportedIndex) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for n, name := range c.args {
			for d, err := range documentsOf(name, c.in, exports[n].Documents) {
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
}

func documentsOf(name string, stdin io.Reader, want uint64) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		in, err := corpus.Open(name, stdin)
		if err != nil {
			yield(index.Document{}, err)
			return
		}
		defer in.Close()
		d := json.NewDecoder(bufio.NewReaderSize(in, 256<<10))
		d.DisallowUnknownFields() // they are of a later version
		if err = d.Decode(new(indexLine)); err == nil {
			for n := range want {
				var line documentLine
				if err = d.Decode(&line); err == io.EOF {
					err = fmt.Errorf("it is cut off: its first line promises %d documents", want)
				}
				if err != nil {
					err = fmt.Errorf("line %d, byte %d: %w", n+2, d.InputOffset(), err)
					break
				}
				if !yield(line.document(), nil) {
					return
				}
			}
		}
		if err == nil && d.More() {
			err = fmt.Errorf("line %d, byte %d: its first line promises %d documents only", want+2, d.InputOffset(), want)
		}
		if err != nil {
			yield(index.Document{}, fmt.Errorf("%s: %w", name, err))
		}
	}
}
