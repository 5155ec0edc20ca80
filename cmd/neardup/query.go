package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
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
