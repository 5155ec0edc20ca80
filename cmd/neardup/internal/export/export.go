// Package export writes the documents of an index with all their properties as JSON Lines, and
// reads them (docs/reference/output.md, "export"). The first line describes the index. One line per
// document follows, in the order of their IDs. A truncated file, or a file of a later version, is
// an error.
package export

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

// FirstLine is the first line of an export.
type FirstLine struct {
	Index Index `json:"neardupIndex"`
}

// Index has the properties of the exported index.
type Index struct {
	Analyzer    string `json:"analyzer,omitempty"`
	MaxDistance int    `json:"maxDistance"`
	Documents   uint64 `json:"documents"` // detects a truncated export
}

const (
	begin       = `{"neardupIndex":` // the beginning of each export
	longestLine = 1 << 20            // more than the length of a line of an export
)

// errNoFirstLine prevents that the documents of an export are read as a list of fingerprints,
// because their shingle signatures and scopes would be lost.
var errNoFirstLine = errors.New("documents of an export without its first line, " +
	"which has the analyzer, k and the number of documents: add this line")

// Line is a document. A key or scope that is not UTF-8 is in base64.
type Line struct {
	Key         string                       `json:"key,omitempty"`
	KeyBytes    []byte                       `json:"keyBytes,omitempty"`
	Fingerprint *fingerprint.Fingerprint     `json:"fingerprint"` // nil in an invalid line
	Shingles    fingerprint.ShingleSignature `json:"shingles,omitzero"`
	Digest      fingerprint.Digest           `json:"digest,omitzero"`
	Tokens      int                          `json:"tokens,omitempty"`
	Scope       string                       `json:"scope,omitempty"`
	ScopeBytes  []byte                       `json:"scopeBytes,omitempty"`
	Added       time.Time                    `json:"added,omitzero"`
}

func lineOf(d *index.Document) *Line {
	l := &Line{Fingerprint: &d.Fingerprint, Shingles: d.Shingles, Digest: d.Digest,
		Tokens: d.Tokens, Added: d.Added}
	l.Key, l.KeyBytes = wire.Split(d.Key)
	l.Scope, l.ScopeBytes = wire.Split(d.Scope)
	return l
}

func (l *Line) document() index.Document {
	return index.Document{
		Key: l.Key + string(l.KeyBytes), Fingerprint: *l.Fingerprint, Shingles: l.Shingles,
		Digest: l.Digest, Tokens: l.Tokens,
		Scope: l.Scope + string(l.ScopeBytes), Added: l.Added,
	}
}

// Write writes an export of an index, and counts the written documents in done.
func Write(ctx context.Context, x *index.Index, to io.Writer, done *atomic.Int64) error {
	stats := x.Stats()
	line, err := wire.Encode(FirstLine{Index{stats.Analyzer, stats.MaxDistance, stats.Documents}})
	if err != nil {
		return err
	}
	if _, err = to.Write(line); err != nil {
		return err
	}
	for d, err := range x.Documents(ctx) {
		if err == nil {
			line, err = wire.Encode(lineOf(&d))
		}
		if err == nil {
			_, err = to.Write(line)
		}
		if err != nil {
			return err
		}
		done.Add(1)
	}
	return nil
}

// firstLine returns the first line of an export, or nil if in is not an export. It returns
// errNoFirstLine if in begins with another line of an export.
func firstLine(in io.Reader) (*Index, error) {
	var line struct {
		FirstLine
		Fingerprint, Shingles string
	}
	r := bufio.NewReader(in)
	head, _ := r.Peek(len(begin))
	switch {
	case len(head) == 0 || head[0] != begin[0] ||
		json.NewDecoder(io.LimitReader(r, longestLine)).Decode(&line) != nil:
		return nil, nil
	case string(head) == begin:
		return &line.Index, nil
	case line.Fingerprint != "" && line.Shingles != "":
		return nil, errNoFirstLine
	}
	return nil, nil
}

// Documents yields the documents of an export, whose number must be want. It stops at the first
// invalid line.
func Documents(in io.Reader, want uint64) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		d := json.NewDecoder(bufio.NewReaderSize(in, 256<<10))
		d.DisallowUnknownFields() // unknown fields come from a later version
		fail := func(n uint64, err error) {
			yield(index.Document{}, fmt.Errorf("line %d, byte %d: %w", n, d.InputOffset(), err))
		}
		if err := d.Decode(new(FirstLine)); err != nil {
			fail(1, err)
			return
		}
		for n := range want {
			var line Line
			err := d.Decode(&line)
			if err == io.EOF {
				err = fmt.Errorf(
					"the file is truncated: its first line promises %d documents", want)
			} else if err == nil && line.Fingerprint == nil {
				err = errors.New("no fingerprint")
			}
			if err != nil {
				fail(n+2, err)
				return
			}
			doc := line.document()
			if err := match.Validate(&doc); err != nil {
				fail(n+2, err)
				return
			}
			if !yield(doc, nil) {
				return
			}
		}
		switch _, err := d.Token(); {
		case err == nil:
			fail(want+2, fmt.Errorf(
				"more documents than the %d that its first line promises", want))
		case err != io.EOF: // for example a wrong checksum of a compressed file
			fail(want+2, fmt.Errorf(
				"after the %d documents that its first line promises: %w", want, err))
		}
	}
}
