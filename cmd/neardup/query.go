package main

import (
	"context"
	"errors"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

var queryCommand = command{
	name:    "query",
	args:    "-index DIR [-k K] [-limit N] INPUT...",
	summary: "print the stored documents near to each one of the inputs, storing nothing",
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
	k := c.flags.Int("k", -1, "largest `distance` of a match (default that of the index)")
	shingle := c.shingleFlag()
	limit := c.flags.Int("limit", 0, "print the `N` nearest matches at most (0: all)")
	if err := c.parse(); err != nil {
		return err
	}
	if c.given("k") && *k < 0 || *limit < 0 {
		return usagef("-k and -limit can not be negative")
	}
	if _, err := maxShingleDistance(*shingle); err != nil {
		return err
	}
	a, err := inputs.analyzer()
	if err != nil {
		return err
	}
	if err := indexes.required(); err != nil {
		return err
	}
	reader, err := inputs.reader()
	if err != nil {
		return err
	}
	x, err := indexes.openReadOnly(a.name)
	if err != nil {
		return err
	}
	if *k < 0 {
		*k = x.Plan().MaxDistance
	}
	q := &querying{index: x, inputs: inputs, lines: newLines(c.out), k: *k, shingle: *shingle, limit: *limit}
	err = c.eachBatch(ctx, reader, a, func(batch []*input) error { return q.answer(ctx, batch) })
	return errors.Join(err, x.Close())
}

type querying struct {
	index             *index.Index
	inputs            *inputFlags
	lines             *lines
	k, shingle, limit int
}

// answer queries the documents of a batch, those of one scope together.
func (q *querying) answer(ctx context.Context, batch []*input) error {
	answers := make([][]index.Match, len(batch))
	scopes := make(map[string][]int)
	for n, i := range batch {
		if i.skipped() == "" {
			scope := q.inputs.scopeOf(&i.record)
			scopes[scope] = append(scopes[scope], n)
		}
	}
	for scope, places := range scopes {
		fps := make([]fingerprint.Fingerprint, len(places))
		shingles := make([]fingerprint.Fingerprint, len(places))
		for n, place := range places {
			fps[n], shingles[n] = batch[place].signature.Fingerprint, batch[place].signature.Shingle
		}
		opts := []index.QueryOption{index.MaxDistance(q.k), index.Shingles(shingles), index.MaxShingleDistance(q.shingle), index.Limit(q.limit), index.InScope(scope)}
		for a, err := range q.index.QueryBatch(ctx, fps, opts...) {
			if err != nil {
				return err
			}
			answers[places[a.Query]] = a.Matches
		}
	}
	for n, i := range batch {
		if line, skip := skipLine(i); skip {
			q.lines.write(line)
		} else if i.skipped() == "" {
			q.lines.write(queryLine{i.key(), i.signature.Fingerprint, matchLines(answers[n])})
		}
	}
	return q.lines.flush()
}
