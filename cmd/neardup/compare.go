package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/internal/match"
	"github.com/spf13/cobra"
)

func compareCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "compare [flags] A B",
		Short: "Explain why two documents match or do not match",
		Long: `Print the distances and lengths of two documents, the limits, and the words that differ:
[-words in A only-] {+words in B only+}. A and B are each a file, - for standard input, or a key in
the index. With --in, they are keys of documents of that input. The words of a key in an index are not
known.`,
		Example: `  neardup compare a.html b.html
  neardup compare --in crawl.warc.gz http://example.org/a http://example.org/b
  curl -s http://example.org/a | neardup compare --index crawl.index http://example.org/a -`,
		Args: cobra.ExactArgs(2),
	})
	inputs := (&inputFlags{call: c}).fieldFlags().analyzerFlags()
	f := &finder{call: c, inputs: inputs}
	indexes := c.indexFlag()
	in := c.flags.String("in", "", "`input` in which A and B are keys of documents")
	return c.runs(func(ctx context.Context) error { return f.run(ctx, indexes, *in) })
}

// maxDifferences limits the printed places with different words.
const maxDifferences = 20

func (f *finder) run(ctx context.Context, indexes *indexFlags, in string) (err error) {
	c := f.call
	a, err := f.inputs.analyzer(0)
	if err != nil {
		return err
	}
	f.analyzer = a
	k := defaultK
	if indexes.dir != "" {
		x, err := indexes.openPages(a.asked)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x.Close()) }()
		f.index, a.Signer, k = x, x.Signer(), x.Plan().MaxDistance
	}
	sides, err := f.find(ctx, in)
	if err != nil {
		return err
	}
	rule := match.Default(k)
	return describeComparison(compare.Documents(sides[0], sides[1], rule, maxDifferences), rule, c.out)
}

// describeComparison writes a comparison for people.
func describeComparison(r *compare.Result, rule match.Rule, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tA\tB\n")
	fmt.Fprintf(w, "key\t%s\t%s\n", corpus.Escape(r.A.Key), corpus.Escape(r.B.Key))
	if r.A.Scope != r.B.Scope {
		fmt.Fprintf(w, "scope\t%s\t%s\tthey are not compared\n", corpus.Escape(r.A.Scope), corpus.Escape(r.B.Scope))
	}
	fmt.Fprintf(w, "fingerprint\t%v\t%v\t%d bits differ, at most %d may\n", r.A.Fingerprint, r.B.Fingerprint, r.Distance, r.MaxDistance)
	if r.ShingleDistance != nil {
		fmt.Fprintf(w, "shingles\t\t\t%d of 256 bits differ; %d + %[1]d = %[3]d, at most %[4]d may\n", *r.ShingleDistance-r.Distance, r.Distance, *r.ShingleDistance, r.MaxShingle)
	}
	if r.A.Digest != 0 && r.B.Digest != 0 {
		text := "the texts differ"
		if r.A.Digest == r.B.Digest {
			text = "the texts have equal words"
		}
		fmt.Fprintf(w, "digest\t%v\t%v\t%s\n", r.A.Digest, r.B.Digest, text)
	}
	if r.LengthRatio > 0 {
		fmt.Fprintf(w, "words\t%d\t%d\t%.2f times as long, at most %v may be\n", r.A.Tokens, r.B.Tokens, r.LengthRatio, r.MaxLengthRatio)
	}
	err := w.Flush()
	fmt.Fprintf(out, "\nrule: %v\n", rule)
	if r.Match {
		fmt.Fprintln(out, "they match: near-duplicates")
	} else {
		fmt.Fprintf(out, "they do not match, by: %s\n", strings.Join(r.Decided, ", "))
	}
	if len(r.Differences) > 0 {
		fmt.Fprintf(out, "\nwords that differ:\n")
	}
	for _, d := range r.Differences {
		fmt.Fprintf(out, "  %s\n", corpus.Escape(d.String()))
	}
	if r.Left > 0 {
		fmt.Fprintf(out, "  and at %d further places\n", r.Left)
	}
	return err
}

// finder finds the two documents of compare.
type finder struct {
	call     *call
	inputs   *inputFlags
	analyzer *analyzer
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
				if sides[n], err = f.analyze(name, &rec); err != nil {
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
				return false, usagef("it has several documents: set --in to it, and give two of their keys")
			}
			s, err = f.analyze(name, r)
			return true, err
		})
		if err == nil && s == nil {
			err = errors.New("no document in it")
		}
		return s, err
	case f.index != nil:
		d, found, err := f.index.Get(ctx, name)
		if found || err != nil {
			return compare.Of(&d), err
		}
	}
	if f.index != nil {
		return nil, fmt.Errorf("it is neither a file nor a key in %s", f.call.flags.Lookup("index").Value)
	}
	return nil, missing
}

// records calls do with the documents of an input until do wants no more.
func (f *finder) records(ctx context.Context, in string, do func(*corpus.Record) (more bool, err error)) error {
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

func (f *finder) analyze(key string, r *corpus.Record) (*compare.Document, error) {
	if r.Skip != nil {
		return nil, r.Skip
	}
	return f.analyzer.described(key, r, math.MaxInt)
}

// described returns the document of a record, with the words in the first most bytes of its text.
func (a *analyzer) described(key string, r *corpus.Record, most int) (*compare.Document, error) {
	var words []string
	if r.Kind != corpus.Fingerprint && a.Signer != nil {
		words = compare.Words(a.Text(r.Kind, r.ContentType, r.Content), most)
	}
	d, reason, err := a.document(key, r)
	if reason != "" {
		err = errors.New(reason)
	}
	s := compare.Of(&d)
	s.Words = words
	return s, err
}
