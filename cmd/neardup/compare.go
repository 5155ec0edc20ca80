package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/internal/match"
	"github.com/spf13/cobra"
)

func compareCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "compare [flags] A B",
		Short: "Explain why two documents match or do not match",
		Long: `Print the distances and lengths of two documents, the limits, and the words that
differ: [-words in A only-] {+words in B only+}. A and B are each a file, - for
standard input, or a key in the index. With --in, they are keys of documents in
that input. The words of a document that is only in the index are not known.`,
		Example: `  neardup compare a.html b.html
  neardup compare --in crawl.warc.gz http://example.org/a http://example.org/b
  curl -s http://example.org/a | neardup compare --index crawl.index http://example.org/a -`,
		Args: cobra.ExactArgs(2),
	})
	inputs := (&inputFlags{call: c}).fieldFlags().analyzerFlags()
	f := &finder{call: c, inputs: inputs}
	indexes := c.indexFlag()
	in := c.flags.String("in", "", "`input` that has the documents with the keys A and B")
	return c.runs(func(ctx context.Context) error { return f.run(ctx, indexes, *in) })
}

// maxDifferences is the largest number of printed places with different words.
const maxDifferences = 20

func (f *finder) run(ctx context.Context, indexes *indexFlags, in string) (err error) {
	c := f.call
	signer, err := f.inputs.signer(0)
	if err != nil {
		return err
	}
	f.analyzer = &documents.Analyzer{Signer: signer}
	k := defaultK
	if indexes.dir != "" {
		if f.index, err = indexes.openPages(f.inputs.asked(signer)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.index.Close()) }()
		f.analyzer.Use(f.index)
		k = f.index.Plan().MaxDistance
	}
	sides, err := f.find(ctx, in)
	if err != nil {
		return err
	}
	rule := match.Default(k)
	return compare.Documents(sides[0], sides[1], rule, maxDifferences).WriteText(c.out, rule)
}

// finder finds the two documents of compare.
type finder struct {
	call     *call
	inputs   *inputFlags
	analyzer *documents.Analyzer
	index    *neardup.Index // nil without --index
}

func (f *finder) find(ctx context.Context, in string) (sides [2]*compare.Document, err error) {
	if in != "" {
		return f.findIn(ctx, in)
	}
	for n, name := range f.call.args {
		if sides[n], err = f.named(ctx, name); err != nil {
			return sides, fmt.Errorf("%s: %w", name, err)
		}
	}
	return sides, nil
}

// findIn reads an input until both documents are found.
func (f *finder) findIn(ctx context.Context, in string) (sides [2]*compare.Document, err error) {
	err = f.records(ctx, in, func(r *corpus.Record) (more bool, err error) {
		for n, name := range f.call.args {
			if name == r.Key && sides[n] == nil {
				rec := *r
				if sides[n], err = f.analyzer.Described(name, &rec, math.MaxInt); err != nil {
					return false, err
				}
			}
		}
		return sides[0] == nil || sides[1] == nil, nil
	})
	for n, name := range f.call.args {
		if err == nil && sides[n] == nil {
			err = fmt.Errorf("%s has no document with the key %s", in, name)
		}
	}
	return sides, err
}

func (f *finder) named(ctx context.Context, name string) (s *compare.Document, err error) {
	_, missing := os.Stat(name)
	switch {
	case missing == nil || name == "-":
		err = f.records(ctx, name, func(r *corpus.Record) (more bool, err error) {
			if s != nil {
				return false, usagef(
					"it has several documents: name it with --in, and name two of their keys")
			}
			s, err = f.analyzer.Described(name, r, math.MaxInt)
			return true, err
		})
		if err == nil && s == nil {
			err = errors.New("it has no document")
		}
		return s, err
	case f.index != nil:
		d, found, err := f.index.Get(ctx, name)
		if found || err != nil {
			return compare.Of(&d), err
		}
	}
	if f.index != nil {
		return nil, fmt.Errorf("it is neither a file nor a key in %s",
			f.call.flags.Lookup("index").Value)
	}
	return nil, missing
}

// records calls do with the documents of an input until do returns false or an error.
func (f *finder) records(
	ctx context.Context, in string, do func(*corpus.Record) (more bool, err error),
) error {
	reader, err := f.inputs.readerOf(in)
	if err != nil {
		return err
	}
	for raw, err := range reader.RawRecords(ctx) {
		if err != nil {
			return err
		}
		r := raw.Parse()
		if r.Skip != nil && !r.Skip.Document {
			continue
		}
		if more, err := do(&r); err != nil || !more {
			return err
		}
	}
	return reader.Broken()
}
