package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/cmd/neardup/internal/matches"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/spf13/cobra"
)

func queryCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "query (--index DIR | --scan FILE) [flags] INPUT...",
		Short: "Print the stored documents near each input; store nothing",
		Long: `Print the stored documents near each document of the inputs. Nothing is stored.

With --key, the input is one document, the page with this key. The output
explains the verdict that dedup would print: it compares the page with the
nearest stored documents. Without an input, the output explains the verdict on
the stored document with this key. An index has the keys of duplicates only if
they were stored with --keep-duplicates.

With --scan, all inputs are compared with a file of fingerprints in one pass
over the file.`,
		Example: `  neardup query --index crawl.index page.html
  neardup query --index crawl.index --key http://example.org/ page.html
  neardup query --scan fingerprints.u64le pages.jsonl`,
	})
	inputs := c.inputFlags(documentFormats...).fieldFlags().scopeFlag()
	q := &querying{call: c, indexes: c.indexFlag()}
	c.flags.StringVar(&q.scanned, "scan", "",
		"`file` of fingerprints to compare with all inputs at once, instead of an index")
	c.flags.StringVar(&q.key, "key", "",
		"explain the verdict on the document with this `key`")
	q.k = c.distanceFlag(0, plan.MaxDistance,
		"largest Hamming `distance` of a match (default the k of the index, or 3 with --scan)")
	c.cmd.MarkFlagsOneRequired("index", "scan")
	c.cmd.MarkFlagsMutuallyExclusive("index", "scan")
	for _, other := range []string{"scan", "key-field", "max-distance"} {
		c.cmd.MarkFlagsMutuallyExclusive("key", other)
	}
	return c.runs(func(ctx context.Context) error {
		if q.key != "" && len(c.args) == 0 {
			return q.withIndex(func(x *neardup.Index) error { return q.explainStored(ctx, x) })
		}
		docs, err := inputs.openInputs()
		if err != nil {
			return err
		}
		if q.scanned != "" {
			return q.scan(ctx, docs)
		}
		docs.Analyzer.AsKey = q.key
		return q.withIndex(func(x *neardup.Index) error {
			docs.Analyzer.Use(x)
			if q.key != "" {
				return q.explain(ctx, x, docs)
			}
			return q.run(ctx, x, docs)
		})
	})
}

// queryLine is the output line of a document.
type queryLine struct {
	Key         string                  `json:"key"`
	KeyBytes    []byte                  `json:"keyBytes,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Matches     []matchLine             `json:"matches"`
	At          string                  `json:"at,omitempty"` // only if Key is ""
}

// matchLine is a match in the output of query.
type matchLine struct {
	ID          uint64                  `json:"id"`
	Key         string                  `json:"key"`
	KeyBytes    []byte                  `json:"keyBytes,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Distance    int                     `json:"distance"`
	// number of times that a document was a duplicate of the match
	Duplicates uint64 `json:"duplicates,omitempty"`
}

// querying are the flags of query.
type querying struct {
	call    *call
	indexes *indexFlags
	scanned string
	key     string
	k       *int
}

// withIndex opens the index, calls do and closes the index.
func (q *querying) withIndex(do func(*neardup.Index) error) error {
	x, err := q.indexes.openPages("")
	if err != nil {
		return err
	}
	if has := x.Plan().MaxDistance; *q.k > has {
		return errors.Join(fmt.Errorf("%w: k = %d is not in 0..%d", index.ErrDistance, *q.k, has),
			x.Close())
	}
	return errors.Join(do(x), x.Close())
}

// run prints the matches of each document of the inputs.
func (q *querying) run(ctx context.Context, x *neardup.Index, docs *documentReader) error {
	most := queryBatches
	if slices.ContainsFunc(q.call.args, corpus.IsStream) {
		most = writeBatches // the writer of the stream may wait for each answer
	}
	out := newLines(q.call.out)
	return docs.forEachBatch(ctx, most, func(batch []*documents.Input) error {
		inputs, rest := compared(batch), out.writeReady(batch)
		queries := make([]index.Query, len(inputs))
		for n, i := range inputs {
			queries[n] = index.Query{Signature: i.Document.Signature(), Scope: i.Document.Scope,
				MaxDistance: q.call.givenDistance(*q.k)}
		}
		for answer, err := range x.QueryBatch(ctx, queries) {
			if err != nil {
				return errors.Join(err, out.flush(batch, rest))
			}
			i := inputs[answer.Query]
			line := queryLineOf(i, answer.Matches)
			if err := line.count(ctx, x); err != nil {
				return errors.Join(err, out.flush(batch, rest))
			}
			rest = out.answer(rest, i, line)
		}
		return out.Flush()
	})
}

// count sets the number of duplicates of each match.
func (l *queryLine) count(ctx context.Context, x *neardup.Index) error {
	ids := make([]uint64, len(l.Matches))
	for i := range ids {
		ids[i] = l.Matches[i].ID
	}
	counts, err := x.Duplicates(ctx, ids...)
	for i := range counts {
		l.Matches[i].Duplicates = counts[i]
	}
	return err
}

// explain explains the verdict on the document of the inputs.
func (q *querying) explain(ctx context.Context, x *neardup.Index, docs *documentReader) error {
	rule := match.Default(x.Plan().MaxDistance)
	var only *documents.Input
	err := docs.forEachBatch(ctx, writeBatches, func(batch []*documents.Input) error {
		for _, i := range batch {
			switch {
			case !i.Compared && i.Line == nil: // such as a request of a web archive
			case only != nil:
				return usagef("--key is the key of one document, but the inputs have more: %s, %s",
					documents.Position(&only.Record), documents.Position(&i.Record))
			default:
				only = i
			}
			i.Finished = true
		}
		return nil
	})
	if err != nil || only == nil {
		return err
	}
	explained, err := compare.Explain(ctx, x, only.Key, &only.Document, only.Reason, rule)
	if err != nil {
		return err
	}
	return q.call.printJSON(explained)
}

// explainStored explains the verdict on the stored document with the key.
func (q *querying) explainStored(ctx context.Context, x *neardup.Index) error {
	d, found, err := x.Get(ctx, q.key)
	if err == nil && !found {
		err = fmt.Errorf("no stored document has the key %s: it was never stored, was a "+
			"duplicate or was deleted; to explain the verdict on its page, name the page as input",
			q.key)
	}
	if err != nil {
		return err
	}
	explained, err := compare.Explain(ctx, x, q.key, &d, "", match.Default(x.Plan().MaxDistance))
	if err != nil {
		return err
	}
	return q.call.printJSON(explained)
}

// queryBatches is the batching of queries from files.
var queryBatches = documents.Batching{Records: 1 << 18, Bytes: 128 << 20, Wait: time.Second}

// queryLineOf returns the line of an input.
func queryLineOf(i *documents.Input, matches []index.Match) *queryLine {
	line := &queryLine{Key: i.Document.Key, KeyBytes: corpus.KeyBytes(i.Document.Key),
		Fingerprint: i.Document.Fingerprint, Matches: make([]matchLine, len(matches))}
	for n, m := range matches {
		line.Matches[n] = matchLine{ID: m.ID, Key: m.Key, KeyBytes: corpus.KeyBytes(m.Key),
			Fingerprint: m.Fingerprint, Distance: m.Distance}
	}
	line.At = i.At()
	return line
}

// answer sets the line of an input, writes the ready lines of a batch, and returns the rest.
func (l lines) answer(
	batch []*documents.Input, i *documents.Input, line *queryLine,
) (rest []*documents.Input) {
	i.Line = line
	return l.writeReady(batch)
}

// scanBatches is the batching of queries against a file of fingerprints.
var scanBatches = documents.Batching{Records: 1 << 20, Bytes: 512 << 20, Wait: math.MaxInt64}

// scan compares the inputs with a file of fingerprints. It reads the file once per batch of inputs.
func (q *querying) scan(ctx context.Context, docs *documentReader) error {
	c, k := q.call, *q.k
	if !c.given("max-distance") {
		k = importK
	}
	if c.given("scope") {
		return usagef("--scope requires --index: a file of fingerprints has no scopes")
	}
	info, err := os.Stat(q.scanned)
	if err != nil {
		return fmt.Errorf("--scan: %w", err)
	} else if info.IsDir() {
		return usagef("--scan %s is a directory: set --index if it is an index", q.scanned)
	}
	log, out := &skipLog{call: c}, newLines(c.out)
	return docs.forEachBatch(ctx, scanBatches, func(batch []*documents.Input) error {
		inputs, rest := compared(batch), out.writeReady(batch)
		fps := make([]fingerprint.Fingerprint, len(inputs))
		for n, i := range inputs {
			fps[n] = i.Document.Fingerprint
		}
		if len(fps) == 0 {
			return out.Flush()
		}
		reader, err := corpus.New([]string{q.scanned}, corpus.Options{})
		if err != nil {
			return fmt.Errorf("--scan: %w", err)
		}
		found, err := matches.Scan(ctx, reader, fps, k, info.Size(), log.write)
		c.account(q.scanned, reader)
		if err != nil {
			return err
		}
		err = found.Each(ctx, func(query int, matches []index.Match) {
			rest = out.answer(rest, inputs[query], queryLineOf(inputs[query], matches))
		})
		return errors.Join(err, found.Close(), out.Flush())
	})
}
