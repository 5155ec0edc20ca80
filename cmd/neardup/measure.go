package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/bench"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/eval"
	"github.com/neardup/neardup/cmd/neardup/internal/figure"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/sitegen"
	"github.com/spf13/cobra"
)

func statsCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "stats --index DIR [flags]",
		Short: "Print the parameters and the contents of an index",
		Example: `  neardup stats --index ix | jq .documents
  neardup stats --index ix --plot figures/`,
		Args: noArgs,
	})
	indexes := c.requiredIndexFlag()
	var plot string
	c.dirFlag(&plot, "plot", "draw the distribution of the fingerprints into leading.svg and "+
		"buckets.svg in this `directory`, and print its numbers too")
	return c.runs(func(ctx context.Context) error {
		return indexes.read(func(x *index.Index) error {
			line := statsLine{Stats: x.Stats()}
			if plot != "" {
				var err error
				if line.Distribution, err = c.distributionOf(ctx, x); err == nil {
					err = line.Distribution.Draw(plot)
				}
				if err != nil {
					return err
				}
			}
			return c.printJSON(line)
		})
	})
}

// statsLine is the output of stats.
type statsLine struct {
	index.Stats
	Distribution *figure.Distribution `json:"distribution,omitempty"` // with --plot
}

// distributionOf reads all fingerprints. Each of them takes 8 bytes of memory.
func (c *call) distributionOf(ctx context.Context, x *index.Index) (*figure.Distribution, error) {
	fps := make([]uint64, 0, x.Stats().Documents)
	done, stop := c.counting("documents", x.Stats().Documents)
	defer stop()
	for d, err := range x.Documents(ctx) {
		if err != nil {
			return nil, err
		}
		fps = append(fps, uint64(d.Fingerprint))
		done.Add(1)
	}
	slices.Sort(fps)
	return figure.NewDistribution(slices.Compact(fps)), nil
}

func evalCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use: "eval [flags] {DOCUMENTS PAIRS | --generated SEED}",
		Short: "Measure precision, recall and the losses of a crawler with labelled or generated " +
			"documents",
		Long: `Print precision and recall for each largest Hamming distance. DOCUMENTS is a
file of JSON Lines with a field id. PAIRS is a file of lines with a similarity,
a tab, an ID, a tab and an ID. A pair is a near-duplicate if its similarity is
at least 0.90. It is not if its similarity is below 0.80 or if it is not listed.

With --generated, the documents are short pages of one template: references,
products, cheat sheets and notices in five scripts, with two fetches of each
page.`,
		Example: `  neardup eval --content-field text docs.jsonl pairs.tsv
  neardup eval --compare --plot curves.svg docs.jsonl pairs.tsv
  neardup eval --generated 1`,
	})
	inputs, limits := (&inputFlags{call: c}).analyzerFlags(), (&indexFlags{call: c}).matchFlags()
	c.flags.StringVar(&inputs.Fields.Content, "content-field", "",
		"JSON `field` of the content (default html, main, text or content)")
	k := c.distanceFlag(defaultK, eval.MaxDistance,
		"`distance` of the rule that is measured in addition to the curves")
	seeds := c.flags.Uint("seeds", 5,
		"`number` of hash seeds; the figures are means over them; dedup uses the first one")
	plot := c.flags.String("plot", "", "draw the curves into `FILE`.svg or .png")
	compare := c.flags.Bool(
		"compare", false, "measure other methods too; keeps all texts in memory")
	generated := c.flags.Uint64("generated", 0, "measure pages that are generated from `SEED`")
	return c.runs(func(ctx context.Context) error {
		switch {
		case c.given("generated"):
			if len(c.args) > 0 || *plot != "" {
				return usagef("--generated cannot be combined with files or --plot")
			}
		case len(c.args) != 2:
			return usagef("want two files: DOCUMENTS and PAIRS")
		case *seeds == 0:
			return usagef("--seeds is 0, want 1 or more")
		case c.args[0] == "-" && c.args[1] == "-":
			return usagef("only one of DOCUMENTS and PAIRS can be standard input")
		}
		if *plot != "" {
			if err := figure.Check(*plot); err != nil {
				return usagef("--plot: %v", err)
			}
		}
		inputs.Fields.Key, inputs.Format = "id", corpus.JSONL
		signers := make([]*page.Signer, *seeds)
		for seed := range signers {
			var err error
			if signers[seed], err = inputs.signer(uint64(seed)); err != nil {
				return err
			}
		}
		rule := limits.rule(*k)
		if err := rule.Check(); err != nil {
			return usageError{err}
		}
		measure := func(labelled *eval.Labelled) (report *eval.Report, err error) {
			if report, err = labelled.Measure(ctx, rule, limits.opts.Index.SiteTexts); err != nil {
				return nil, err
			}
			report.Analyzer = signers[0].Name()
			if *compare {
				if report.Methods, err = labelled.Compare(ctx, report, signers); err != nil {
					return nil, fmt.Errorf("--compare: %w", err)
				}
			}
			return report, nil
		}
		if c.given("generated") {
			for _, kind := range sitegen.Kinds {
				labelled, err := eval.Generate(kind, *generated, *compare, signers)
				if err != nil {
					return err
				}
				report, err := measure(labelled)
				if err != nil {
					return err
				}
				fmt.Fprintf(c.out, "%s pages, generated with seed %d: ", kind, *generated)
				if err := report.WriteMethods(c.out); err != nil {
					return err
				}
			}
			return nil
		}
		labelled, err := readLabelled(ctx, inputs, c.args[0], c.args[1], *compare, signers)
		if err != nil {
			return err
		}
		report, err := measure(labelled)
		if err == nil && *plot != "" {
			err = report.Plot(*plot)
		}
		if err != nil {
			return err
		}
		return report.WriteTable(c.out)
	})
}

// readLabelled reads pairs and documents.
func readLabelled(
	ctx context.Context, inputs *inputFlags, docsFile, pairsFile string, keepTexts bool,
	signers []*page.Signer,
) (*eval.Labelled, error) {
	c := inputs.call
	in, err := corpus.Open(pairsFile, c.in)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	pairs, err := eval.ReadPairs(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pairsFile, err)
	}
	reader, err := inputs.readerOf(docsFile)
	if err != nil {
		return nil, err
	}
	account := c.reading(ctx, docsFile, reader)
	docs, err := eval.ReadDocuments(ctx, reader, keepTexts, signers)
	account()
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 && c.broken != nil { // why no document was read
		return nil, c.broken
	}
	labelled, err := eval.Label(docs, pairs)
	if err == nil && labelled.Unknown > 0 {
		c.logf("%s: %d of %d pairs are ignored, since they name a document that is not in %s",
			pairsFile, labelled.Unknown, len(pairs), docsFile)
	}
	return labelled, err
}

func benchCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:     "bench [flags]",
		Short:   "Measure an index on this machine, and sorted arrays in memory",
		Example: `  neardup bench --documents 10e6 --fingerprints`,
		Args:    noArgs,
	})
	o := bench.Options{Time: 2 * time.Second}
	n := c.countFlag("documents", "10e6", "`number` of documents")
	k := c.distanceFlag(defaultK, plan.MaxDistance,
		"largest Hamming `distance` (3 with --fingerprints)")
	c.flags.BoolVar(&o.Bare, "fingerprints", false,
		"measure bare documents, as import stores lists of fingerprints")
	return c.runs(func(ctx context.Context) error {
		if *n > math.MaxUint32 {
			return usagef("--documents is %d, want at most %d", *n, math.MaxUint32)
		}
		if o.Bare && !c.given("max-distance") {
			*k = importK
		}
		o.Documents, o.MaxDistance, o.Out = int(*n), *k, c.out
		return bench.Run(ctx, o)
	})
}
