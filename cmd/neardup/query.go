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
	q := &querying{call: c, index: x, inputs: inputs, lines: newLines(c.out), match: match, k: *k, limit: *limit, method: method, verbose: *verbose}
	most, patience := queryWindow, queryPatience
	if slices.Contains(c.args, "-") && method == "" {
		most, patience = maxBatch, 0 // who writes lines may wait for the answers
	}
	err = c.eachWindow(ctx, reader, a, most, patience, func(batch []*input) error { return q.answer(ctx, batch) })
	return errors.Join(err, x.Close())
}

// Queries that are read from files are answered many at once.
const (
	queryWindow   = 1 << 18
	queryPatience = time.Second
)

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

type querying struct {
	call     *call
	index    *index.Index
	inputs   *inputFlags
	lines    *lines
	match    *matchFlags
	k, limit int
	method   index.BatchMethod // "": by cost
	verbose  bool
}

// answer queries the documents of a batch, those of one scope together.
func (q *querying) answer(ctx context.Context, batch []*input) error {
	scopes := make(map[string][]int)
	for n, i := range batch {
		if i.skipped() == "" {
			scope := q.inputs.scopeOf(&i.record)
			scopes[scope] = append(scopes[scope], n)
		}
	}
	out := &answers{lines: q.lines, batch: batch}
	if len(scopes) > 1 {
		out.early = make([][]matchLine, len(batch))
	}
	for scope, places := range scopes {
		docs := make([]index.Document, len(places))
		for n, place := range places {
			docs[n] = batch[place].document(q.inputs)
		}
		fps, opts := q.match.queries(docs)
		opts = append(opts, index.MaxDistance(q.k), index.Limit(q.limit), index.InScope(scope), index.By(q.method))
		if err := q.explain(ctx, len(fps), opts); err != nil {
			return err
		}
		for a, err := range q.index.QueryBatch(ctx, fps, opts...) {
			if err != nil {
				return err
			}
			out.add(places[a.Query], matchLines(a.Matches))
		}
	}
	out.finish()
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

// answers writes the lines of a batch in its order.
type answers struct {
	lines *lines
	batch []*input
	next  int           // of batch
	early [][]matchLine // answers that come out of order; nil: none do
}

// add writes the answer to a query, and what was skipped before it, or keeps it.
func (a *answers) add(place int, matches []matchLine) {
	if a.early != nil {
		a.early[place] = matches
		return
	}
	a.skips(place)
	i := a.batch[place]
	a.lines.write(queryLine{i.key(), i.signature.Fingerprint, matches})
	a.next = place + 1
}

// skips writes the lines of what was skipped up to a place.
func (a *answers) skips(end int) {
	for ; a.next < end; a.next++ {
		if line, skip := skipLine(a.batch[a.next]); skip {
			a.lines.write(line)
		}
	}
}

// finish writes what is left.
func (a *answers) finish() {
	early := a.early
	a.early = nil
	for place := range early {
		if a.batch[place].skipped() == "" {
			a.add(place, early[place])
		}
	}
	a.skips(len(a.batch))
}
