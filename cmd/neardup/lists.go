package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/index"
)

// listReader returns a reader of lists of fingerprints.
func (f *inputFlags) listReader(inputs []string) (*corpus.Reader, error) {
	switch f.format {
	case corpus.Detect, corpus.Fingerprints, corpus.Decimal, corpus.U64LE, corpus.JSONL:
		return f.readerOf(inputs...)
	}
	return nil, usagef("-format is %q; %s reads fingerprints, decimal, u64le or jsonl", f.format, f.call.command.name)
}

// chunks yields what lists have, in order, shows the progress and accounts for every record.
// A strict one ends at the first line that is no fingerprint.
func (c *call) chunks(ctx context.Context, reader *corpus.Reader, strict bool) iter.Seq2[*corpus.Chunk, error] {
	return func(yield func(*corpus.Chunk, error) bool) {
		stop := c.startProgress(ctx, reader)
		defer c.account(reader)
		defer stop()
		log := &skipLog{call: c, strict: strict}
		for chunk, err := range reader.Chunks(ctx) {
			if err == nil {
				err = log.write(chunk)
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// fingerprints yields the documents of lists.
func (c *call) fingerprints(ctx context.Context, reader *corpus.Reader) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for chunk, err := range c.chunks(ctx, reader, false) {
			if err != nil {
				yield(index.Document{}, err)
				return
			}
			for i, fp := range chunk.Fingerprints {
				// A fingerprint without a key stays bare: it takes a few bytes, not a record.
				if !yield(index.Document{Key: chunk.Key(i), Fingerprint: fp}, nil) {
					return
				}
			}
		}
	}
}

// maxSkipLines bounds the lines about single skips: a file of another kind has millions.
const maxSkipLines = 10

// skipLog says what was skipped in lists. It is safe for concurrent use.
type skipLog struct {
	call   *call
	strict bool // the first skip of a line is an error
	mu     sync.Mutex
	n      int // skips so far, maxSkipLines at most
}

func (l *skipLog) write(chunk *corpus.Chunk) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rec := range chunk.Skips() {
		switch {
		case l.strict && !rec.Skip.Broken:
			return fmt.Errorf("%s line %d: %s", rec.Source, rec.Number, rec.Skip.Detail)
		case !rec.Skip.Document || l.n == maxSkipLines:
			continue
		}
		further := ""
		if l.n++; l.n == maxSkipLines {
			further = "; further skips are counted only"
		}
		l.call.logf("%s: skipped: %s%s", position(&rec), rec.Skip, further)
	}
	return nil
}

// position says where a record stands.
func position(rec *corpus.Record) string {
	return fmt.Sprintf("%s record %d byte %d", rec.Source, rec.Number, rec.Offset)
}

// areWords reports whether the names of all files say that they are u64le.
func areWords(names []string) bool {
	for _, name := range names {
		name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
		if !strings.HasSuffix(name, "."+string(corpus.U64LE)) {
			return false
		}
	}
	return true
}

// keyList is the keys of all documents, or none.
type keyList struct {
	text []byte
	ends []uint64
}

func (l *keyList) add(at int, key string) {
	if l.ends == nil && key == "" {
		return
	}
	for len(l.ends) < at {
		l.ends = append(l.ends, 0)
	}
	l.text = append(l.text, key...)
	l.ends = append(l.ends, uint64(len(l.text)))
}

func (l *keyList) at(i int) string {
	if l.ends == nil {
		return ""
	}
	begin := uint64(0)
	if i > 0 {
		begin = l.ends[i-1]
	}
	return string(l.text[begin:l.ends[i]])
}
