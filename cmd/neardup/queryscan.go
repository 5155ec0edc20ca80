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

	"github.com/neardup/neardup/cmd/neardup/corpus"
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
}

// scanWindow is how many queries are in memory at once.
const scanWindow = 1 << 20

func (s *scanning) run(ctx context.Context, reader *corpus.Reader, a *analyzer, file, format string) error {
	f, err := corpus.ParseFormat(format)
	switch {
	case err != nil:
		return usagef("-scan-format: %v", err)
	case f != corpus.Detect && f != corpus.Fingerprints && f != corpus.U64LE && f != corpus.JSONL:
		return usagef("-scan-format is %q, want fingerprints, u64le or jsonl", format)
	case s.inputs.scope != "none":
		return usagef("-scope is for an index: a file of fingerprints has no scopes")
	case s.call.given("shingle"):
		return usagef("-shingle is for an index: a file of fingerprints has no second ones")
	case s.call.given("length"):
		return usagef("-length is for an index: a file of fingerprints has no lengths")
	case s.k > scan.MaxDistance:
		return usagef("-k is %d, want 0 to %d", s.k, scan.MaxDistance)
	case file == "-" && slices.Contains(s.call.args, "-"):
		return usagef("standard input can not be both the queries and the file to scan")
	}
	if _, err := os.Stat(file); err != nil && file != "-" {
		return fmt.Errorf("-scan: %w", err)
	}
	c := &collection{call: s.call, name: file, format: f}
	scanned := false
	return s.call.eachWindow(ctx, reader, a, scanWindow, math.MaxInt64, func(batch []*input) error {
		if len(batch) > 0 && scanned && file == "-" {
			return fmt.Errorf("standard input can be scanned once only, for %d queries at most", scanWindow)
		}
		scanned = true
		return s.answer(ctx, batch, c)
	})
}

// answer scans the collection for a batch and prints the answers.
func (s *scanning) answer(ctx context.Context, batch []*input, c *collection) error {
	var fps []fingerprint.Fingerprint
	var places []int
	for n, i := range batch {
		if i.skipped() == "" {
			fps, places = append(fps, i.signature.Fingerprint), append(places, n)
		}
	}
	out := &answers{lines: s.lines, batch: batch}
	if len(fps) == 0 {
		out.finish()
		return s.lines.flush()
	}
	begun := time.Now()
	queries, err := scan.New(fps, s.k, scan.Options{Collection: c.expected()})
	if err != nil {
		return err
	}
	prepared := time.Since(begun)
	found := newFoundList()
	read, err := c.each(ctx, func(p *part) error { return found.scan(ctx, queries, p) })
	if s.verbose && err == nil {
		s.call.logf("%v: prepared in %.2f s, %d fingerprints scanned in %.2f s", queries, prepared.Seconds(), read, (time.Since(begun) - prepared).Seconds())
	}
	if err == nil {
		err = found.each(ctx, len(fps), s.limit, func(query int, matches []matchLine) { out.add(places[query], matches) })
		out.finish()
	}
	return errors.Join(err, found.close(), s.lines.flush())
}

// expected returns about how many fingerprints a collection has, 0 if that is not known.
func (c *collection) expected() int64 {
	info, err := os.Stat(c.name)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	if c.isWords() {
		return info.Size() / 8
	}
	return info.Size() / 17
}

// foundList is the matches of a scan. They may be more than fit in memory.
type foundList struct {
	mu     sync.Mutex
	sorter *extsort.Sorter[[4]uint64] // query<<8 | distance, number, fingerprint, key
	keys   []byte
}

func newFoundList() *foundList {
	return &foundList{sorter: extsort.New[[4]uint64](extsort.Options{MemoryBytes: 256 << 20})}
}

func (l *foundList) close() error { return l.sorter.Close() }

// scan compares a part of a collection with the queries. It may be called from several
// goroutines.
func (l *foundList) scan(ctx context.Context, queries *scan.Queries, p *part) error {
	var found [][4]uint64
	var err error
	add := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if p.keys != nil {
			for i := range found {
				key := p.key(int(found[i][3]))
				found[i][3] = uint64(len(l.keys))<<24 | uint64(len(key))
				l.keys = append(l.keys, key...)
			}
		}
		err = errors.Join(err, l.sorter.Add(ctx, found))
		found = found[:0]
	}
	queries.Scan(p.fps, func(m scan.Match) {
		record := [4]uint64{uint64(m.Query)<<8 | uint64(m.Distance), p.number(m.At), p.fps[m.At]}
		if p.keys != nil {
			record[3] = uint64(m.At)
		}
		if found = append(found, record); len(found) == 4096 {
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
				key := l.keys[r[3]>>24:][:r[3]&(1<<24-1)]
				matches[i] = matchLine{ID: r[1], Key: string(key), Fingerprint: fingerprint.Fingerprint(r[2]), Distance: int(r[0] & 0xff)}
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
