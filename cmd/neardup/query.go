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
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/extsort"
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
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Matches     []matchLine             `json:"matches"`
}

func runQuery(ctx context.Context, c *call) error {
	inputs := c.inputFlags().scopeFlag().analyzerFlags()
	indexes := c.indexFlags()
	scanned := c.flags.String("scan", "", "`file` of fingerprints, to read once and compare with all inputs at once; or folder of an index, whose tables are then read in order")
	scanFormat := c.flags.String("scan-format", "", "`format` of the file to scan: fingerprints, decimal, u64le or jsonl (default: by its name, u64le, jsonl or else fingerprints)")
	k := c.flags.Int("k", -1, "largest `distance` of a match (default that of the index; 3 with the file of a -scan)")
	match := c.matchFlags()
	limit := c.flags.Int("limit", 0, "print the `N` nearest matches at most (0: all)")
	verbose := c.flags.Bool("v", false, "say how many queries at once are answered, on standard error")
	if err := c.parse(); err != nil {
		return err
	}
	if c.given("k") && *k < 0 || *limit < 0 {
		return usagef("-k and -limit can not be negative")
	}
	if err := match.check(); err != nil {
		return err
	}
	a, err := inputs.analyzer()
	if err != nil {
		return err
	}
	if *scanned != "" && indexes.dir != "" {
		return usagef("-scan takes the place of -index: one of them")
	}
	if *scanned == "" {
		if err := indexes.required(); err != nil {
			return err
		}
	}
	reader, err := inputs.reader()
	if err != nil {
		return err
	}
	method := index.BatchMethod("")
	if *scanned != "" {
		if !isFolder(*scanned) {
			s := &scanning{call: c, inputs: inputs, lines: newLines(c.out), k: max(*k, 0), limit: *limit, verbose: *verbose}
			if *k < 0 {
				s.k = importK
			}
			return s.run(ctx, reader, a, *scanned, *scanFormat)
		}
		indexes.dir, method = *scanned, index.QuerySorted
	}
	x, err := indexes.openReadOnly(a.name)
	if err != nil {
		return err
	}
	if *k < 0 {
		*k = x.Plan().MaxDistance
	}
	q := &querying{call: c, index: x, lines: newLines(c.out), match: match, k: *k, limit: *limit, method: method, verbose: *verbose}
	most, maxWait := queryBatch, queryMaxWait
	if slices.Contains(c.args, "-") && method == "" {
		most, maxWait = maxBatch, 0 // who writes lines may wait for the answers
	}
	err = c.forEachBatch(ctx, reader, a, most, maxWait, func(batch []*input) error { return q.answer(ctx, batch) })
	return errors.Join(err, x.Close())
}

// Queries that are read from files are answered many at once.
const (
	queryBatch   = 1 << 18
	queryMaxWait = time.Second
)

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

type querying struct {
	call     *call
	index    *index.Index
	lines    *lines
	match    *matchFlags
	k, limit int
	method   index.BatchMethod // "": by cost
	verbose  bool
}

// answer queries the documents of a batch, those of one scope together.
func (q *querying) answer(ctx context.Context, batch []*input) error {
	out := newAnswers(q.lines, batch)
	for scope, inputs := range byScope(compared(batch)) {
		opts := append(q.match.options(inputs), index.MaxDistance(q.k), index.Limit(q.limit), index.InScope(scope), index.By(q.method))
		if err := q.explain(ctx, len(inputs), opts); err != nil {
			return err
		}
		for a, err := range q.index.QueryBatch(ctx, fingerprintsOf(inputs), opts...) {
			if err != nil {
				return err
			}
			out.add(inputs[a.Query], matchLines(a.Matches))
		}
	}
	return q.lines.flush()
}

// explain says how a batch is answered, if that is asked for.
func (q *querying) explain(ctx context.Context, queries int, opts []index.QueryOption) error {
	if !q.verbose {
		return nil
	}
	plan, err := q.index.PlanBatch(ctx, queries, opts...)
	if err == nil {
		q.call.logf("%v", plan)
	}
	return err
}

// answers writes the lines of a batch in its order, each as soon as those before it are there.
type answers struct {
	lines *lines
	batch []*input // that have no line yet
}

func newAnswers(lines *lines, batch []*input) *answers {
	a := &answers{lines, batch}
	a.write()
	return a
}

// add takes the answer to a query.
func (a *answers) add(i *input, matches []matchLine) {
	i.answered, i.matches = true, matches
	a.write()
}

func (a *answers) write() {
	for ; len(a.batch) > 0; a.batch = a.batch[1:] {
		i := a.batch[0]
		switch line, skip := skipLine(i); {
		case skip:
			a.lines.write(line)
		case i.answered:
			a.lines.write(queryLine{i.document.Key, i.document.Fingerprint, i.matches})
			i.matches = nil
		case i.skipped == "":
			return
		}
	}
}

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

// listFile is the file that is scanned.
type listFile struct {
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
	list := &listFile{name: file, format: f}
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
func (s *scanning) answer(ctx context.Context, batch []*input, l *listFile) error {
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
func (s *scanning) scan(ctx context.Context, l *listFile, do func(*corpus.Chunk) error) (read int64, err error) {
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
func (l *listFile) expected() int64 {
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
