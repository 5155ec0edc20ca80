package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/scan"
)

// scanning compares all inputs with a file of fingerprints, which it reads once for
// each window of inputs.
type scanning struct {
	call     *call
	inputs   *inputFlags
	lines    *lines
	k, limit int
	verbose  bool
	log      *skipLog
}

// list is the file that is scanned.
type list struct {
	name   string
	format corpus.Format // Detect: by name
}

// scanWindow is how many queries are in memory at once.
const scanWindow = 1 << 20

func (s *scanning) run(ctx context.Context, reader *corpus.Reader, a *analyzer, file, format string) error {
	f, err := corpus.ParseFormat(format)
	switch {
	case err != nil:
		return usagef("-scan-format: %v", err)
	case f != corpus.Detect && f != corpus.Fingerprints && f != corpus.Decimal && f != corpus.U64LE && f != corpus.JSONL:
		return usagef("-scan-format is %q, want fingerprints, decimal, u64le or jsonl", format)
	case s.inputs.scope != "none":
		return usagef("-scope is for an index: a file of fingerprints has no scopes")
	case s.call.given("max-shingle-distance"):
		return usagef("-max-shingle-distance is for an index: a file of fingerprints has no second ones")
	case s.call.given("max-length-ratio"):
		return usagef("-max-length-ratio is for an index: a file of fingerprints has no lengths")
	case s.k > scan.MaxDistance:
		return usagef("-k is %d, want 0 to %d", s.k, scan.MaxDistance)
	case file == "-" && slices.Contains(s.call.args, "-"):
		return usagef("standard input can not be both the queries and the file to scan")
	}
	if _, err := os.Stat(file); err != nil && file != "-" {
		return fmt.Errorf("-scan: %w", err)
	}
	s.log = &skipLog{call: s.call}
	list := &list{name: file, format: f}
	scanned := false
	return s.call.forEachBatch(ctx, reader, a, scanWindow, math.MaxInt64, func(batch []*input) error {
		if len(batch) > 0 && scanned && file == "-" {
			return fmt.Errorf("standard input can be scanned once only, for %d queries at most", scanWindow)
		}
		scanned = true
		return s.answer(ctx, batch, list)
	})
}

// answer scans the list for a batch and prints the answers.
func (s *scanning) answer(ctx context.Context, batch []*input, l *list) error {
	inputs, out := compared(batch), newAnswers(s.lines, batch)
	if len(inputs) == 0 {
		return s.lines.flush()
	}
	begun := time.Now()
	queries, err := scan.New(fingerprintsOf(inputs), s.k, scan.Options{Collection: l.expected()})
	if err != nil {
		return err
	}
	prepared := time.Since(begun)
	found := newFoundList()
	read, err := s.scan(ctx, l, func(chunk *corpus.Chunk) error { return found.scan(ctx, queries, chunk) })
	if s.verbose && err == nil {
		s.call.logf("%v: prepared in %.2f s, %d fingerprints scanned in %.2f s", queries, prepared.Seconds(), read, (time.Since(begun) - prepared).Seconds())
	}
	if err == nil {
		err = found.each(ctx, len(inputs), s.limit, func(query int, matches []matchLine) { out.add(inputs[query], matches) })
	}
	return errors.Join(err, found.close(), s.lines.flush())
}

// scan reads the list once, and calls do with all chunks of it, from several goroutines.
func (s *scanning) scan(ctx context.Context, l *list, do func(*corpus.Chunk) error) (read int64, err error) {
	reader, err := corpus.New([]string{l.name}, corpus.Options{Format: l.format, Stdin: readUntilDone(ctx, s.call.in)})
	if err != nil {
		return 0, fmt.Errorf("-scan: %w", err)
	}
	err = reader.EachChunk(ctx, func(chunk *corpus.Chunk) error {
		s.log.write(chunk)
		return do(chunk)
	})
	s.call.account(reader)
	return reader.Totals()[0].Documents, err
}

// expected returns about how many fingerprints a list has, 0 if that is not known.
func (l *list) expected() int64 {
	info, err := os.Stat(l.name)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return 0
	case l.format == corpus.U64LE, l.format == corpus.Detect && areWords([]string{l.name}):
		return info.Size() / 8
	}
	return info.Size() / 17
}

// foundList is the matches of a scan. They may be more than fit in memory.
type foundList struct {
	mu     sync.Mutex
	sorter *extsort.Sorter[[4]uint64] // query<<8 | distance, number, fingerprint, key
	keys   keyList
	n      int // matches
}

func newFoundList() *foundList {
	return &foundList{sorter: extsort.New[[4]uint64](extsort.Options{MemoryBytes: 256 << 20})}
}

func (l *foundList) close() error { return l.sorter.Close() }

// scan compares a chunk of a list with the queries. It may be called from several goroutines.
func (l *foundList) scan(ctx context.Context, queries *scan.Queries, chunk *corpus.Chunk) error {
	words := make([]uint64, len(chunk.Fingerprints))
	for i, fp := range chunk.Fingerprints {
		words[i] = uint64(fp)
	}
	var found [][4]uint64
	var err error
	add := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range found {
			l.keys.add(l.n, chunk.Key(int(found[i][3])))
			found[i][3] = uint64(l.n)
			l.n++
		}
		err = errors.Join(err, l.sorter.Add(ctx, found))
		found = found[:0]
	}
	queries.Scan(words, func(m scan.Match) {
		found = append(found, [4]uint64{uint64(m.Query)<<8 | uint64(m.Distance), chunk.Number(m.At), words[m.At], uint64(m.At)})
		if len(found) == 4096 {
			add()
		}
	})
	add()
	return err
}

// each yields the matches of every query, in the order of the queries; each query's
// nearest first, and by their place in the collection.
func (l *foundList) each(ctx context.Context, queries, limit int, yield func(query int, matches []matchLine)) error {
	next := 0
	var records [][4]uint64
	flush := func(until int) {
		for ; next < until; next++ {
			slices.SortFunc(records, func(a, b [4]uint64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
			if limit > 0 {
				records = records[:min(limit, len(records))]
			}
			matches := make([]matchLine, len(records))
			for i, r := range records {
				matches[i] = matchLine{ID: r[1], Key: l.keys.at(int(r[3])), Fingerprint: fingerprint.Fingerprint(r[2]), Distance: int(r[0] & 0xff)}
			}
			yield(next, matches)
			records = records[:0]
		}
	}
	for run, err := range l.sorter.Sorted(ctx) {
		if err != nil {
			return err
		}
		for _, r := range run {
			flush(int(r[0] >> 8))
			// Those of the largest distance that is still wanted must all be seen, to
			// take the first ones.
			if n := len(records); limit == 0 || n < limit || r[0] == records[n-1][0] {
				records = append(records, r)
			}
		}
	}
	flush(queries)
	return nil
}
