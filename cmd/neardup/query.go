package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/matches"
	"github.com/neardup/neardup/cmd/neardup/internal/pipe"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/scan"
)

var queryCommand = command{
	name:    "query",
	args:    "(-index DIR | -scan FILE) [-k K] [-limit N] INPUT...",
	summary: "print the documents near to each one of the inputs, of an index or of a file of fingerprints, storing nothing",
	run:     runQuery,
}

// queryLine is printed for each document.
type queryLine struct {
	Key         string                  `json:"key"`
	KeyBytes    []byte                  `json:"keyBytes,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Matches     []matchLine             `json:"matches"`
	At          string                  `json:"at,omitempty"` // file, record and byte, if the document has no key
}

// matchLine is a match in the output of query.
type matchLine struct {
	ID          uint64                  `json:"id"`
	Key         string                  `json:"key"`
	KeyBytes    []byte                  `json:"keyBytes,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Distance    int                     `json:"distance"`
}

func runQuery(ctx context.Context, c *call) error {
	inputs := c.inputFlags().keyFlags().scopeFlag().analyzerFlags()
	indexes := c.indexFlags()
	scanned := c.flags.String("scan", "", "`file` of fingerprints to compare with all inputs at once, instead of an index; it is read from beginning to end")
	k := c.intFlag("k", 0, 0, math.MaxInt, "largest `distance` of a match (default that of the index; 3 with the file of a -scan)")
	match := c.matchFlags()
	limit := c.intFlag("limit", 0, 0, math.MaxInt, "print the `N` nearest matches at most (default all)")
	c.check(func() error {
		switch {
		case *scanned != "" && indexes.dir != "":
			return usagef("-scan takes the place of -index: give one of them")
		case *scanned == "":
			return indexes.required()
		}
		return nil
	})
	if err := c.parse(); err != nil {
		return err
	}
	docs, err := inputs.openInputs()
	if err != nil {
		return err
	}
	if *scanned != "" {
		s := &scanning{call: c, file: *scanned, lines: newLines(c.out), k: *k, limit: *limit}
		if !c.given("k") {
			s.k = importK
		}
		return s.run(ctx, docs)
	}
	most := queryBatches
	if slices.ContainsFunc(c.args, corpus.IsStream) {
		most = writeBatches // the writer of the stream may wait for each answer
	}
	within := 0 // that of the index
	if c.given("k") {
		within = distanceOption(*k)
	}
	x, err := indexes.openToCompare(indexes.dir, docs.analyzer.asked, true, match)
	if err != nil {
		return err
	}
	if has := x.Plan().MaxDistance; *k > has {
		return errors.Join(fmt.Errorf("%w: k = %d is not in 0..%d", index.ErrDistance, *k, has), x.Close())
	}
	docs.analyzer.Signer = x.Signer()
	out := newLines(c.out)
	err = docs.forEachBatch(ctx, most, func(batch []*input) error {
		inputs := compared(batch)
		rest := out.writeReady(batch)
		err := query(ctx, x.Index, inputs, within, *limit, func(i *input, matches []index.Match) {
			rest = out.answer(rest, i, matches)
		})
		return errors.Join(err, out.Flush())
	})
	return errors.Join(err, x.Close())
}

// query asks an index what matches each of the documents of inputs, within k and at most
// limit. The answers come in the order of inputs.
func query(ctx context.Context, x *index.Index, inputs []*input, k, limit int, found func(*input, []index.Match)) error {
	queries := make([]index.Query, len(inputs))
	for n, i := range inputs {
		queries[n] = index.Query{Signature: i.document.Signature(), Scope: i.document.Scope, MaxDistance: k, Limit: limit}
	}
	for answer, err := range x.QueryBatch(ctx, queries) {
		if err != nil {
			return err
		}
		found(inputs[answer.Query], answer.Matches)
	}
	return nil
}

// queryBatches is the batching of queries that are read from files: many are answered at once.
var queryBatches = batching{records: 1 << 18, bytes: 128 << 20, wait: time.Second}

// answer gives an input its line, writes what is ready of a batch, and returns the rest.
func (l lines) answer(batch []*input, i *input, matches []index.Match) (rest []*input) {
	line := queryLine{i.document.Key, keyBytes(i.document.Key), i.document.Fingerprint, make([]matchLine, len(matches)), i.at()}
	for n, m := range matches {
		line.Matches[n] = matchLine{m.ID, m.Key, keyBytes(m.Key), m.Fingerprint, m.Distance}
	}
	i.line = line
	return l.writeReady(batch)
}

// scanning compares all inputs with a file of fingerprints, which it reads once for
// each window of inputs.
type scanning struct {
	call     *call
	file     string
	lines    lines
	k, limit int
	log      *skipLog
}

// scanBatches is the batching of queries that are compared with a file, which is read once per batch.
var scanBatches = batching{records: 1 << 20, bytes: 512 << 20, wait: math.MaxInt64}

func (s *scanning) run(ctx context.Context, docs *documentReader) error {
	for _, name := range []string{"scope", "max-shingle-distance", "max-length-ratio"} {
		if s.call.given(name) {
			return usagef("-%s is for an index: a file of fingerprints has no scopes, second fingerprints or lengths", name)
		}
	}
	switch {
	case s.k > scan.MaxDistance:
		return usagef("-k is %d, want 0 to %d", s.k, scan.MaxDistance)
	case s.file == "-" && slices.Contains(s.call.args, "-"):
		return usagef("standard input can not be both the queries and the file to scan")
	}
	if info, err := os.Stat(s.file); s.file != "-" && err != nil {
		return fmt.Errorf("-scan: %w", err)
	} else if s.file != "-" && info.IsDir() {
		return usagef("-scan %s is a folder: if it is an index, give it with -index", s.file)
	}
	s.log = &skipLog{call: s.call}
	scanned := false
	return docs.forEachBatch(ctx, scanBatches, func(batch []*input) error {
		if len(batch) > 0 && scanned && s.file == "-" {
			return fmt.Errorf("standard input can be scanned only once, for at most %d queries that take at most %d MiB: save it to a file", scanBatches.records, scanBatches.bytes>>20)
		}
		scanned = true
		return errors.Join(s.answer(ctx, batch), s.lines.Flush())
	})
}

// answer scans the file for a batch and writes the answers.
func (s *scanning) answer(ctx context.Context, batch []*input) error {
	inputs, rest := compared(batch), s.lines.writeReady(batch)
	if len(inputs) == 0 {
		return nil
	}
	fps := make([]fingerprint.Fingerprint, len(inputs))
	for n, i := range inputs {
		fps[n] = i.document.Fingerprint
	}
	queries, err := scan.New(fps, s.k, s.expected())
	if err != nil {
		return err
	}
	found := matches.New()
	err = s.scan(ctx, func(chunk *corpus.Chunk) error { return found.Scan(ctx, queries, chunk) })
	if err == nil {
		err = found.Each(ctx, len(inputs), s.limit, func(query int, matches []index.Match) { rest = s.lines.answer(rest, inputs[query], matches) })
	}
	return errors.Join(err, found.Close())
}

// scan reads the file once, and calls do with all chunks of it, from several goroutines.
func (s *scanning) scan(ctx context.Context, do func(*corpus.Chunk) error) error {
	reader, err := corpus.New([]string{s.file}, corpus.Options{Stdin: pipe.Cancelable(ctx, s.call.in)})
	if err != nil {
		return fmt.Errorf("-scan: %w", err)
	}
	for chunk, failed := range reader.Chunks(ctx, do) {
		if err = failed; err == nil {
			err = s.log.write(chunk)
		}
		if err != nil {
			break
		}
	}
	s.call.account(reader)
	return err
}

// expected returns about how many fingerprints the file has, 0 if that is not known.
func (s *scanning) expected() int64 {
	const lineBytes = 12 // 8 in u64le, 17 and more in lines
	if info, err := os.Stat(s.file); err == nil && info.Mode().IsRegular() {
		return info.Size() / lineBytes
	}
	return 0
}
