package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/bench"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/eval"
	"github.com/neardup/neardup/cmd/neardup/internal/figure"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
)

var statsCommand = command{
	name:    "stats",
	args:    "-index DIR [-output-format json|text] [-plot DIR|FILE.svg]",
	summary: "print what an index was made with and what is in it, as a JSON object or for people",
	run:     runStats,
}

// statsLine is the output.
type statsLine struct {
	index.Stats
	Distribution *figure.Distribution `json:"distribution,omitempty"` // with -plot
}

func runStats(ctx context.Context, c *call) error {
	indexes := c.requiredIndexFlags()
	plot := c.flags.String("plot", "", "draw how the fingerprints are distributed, into `FILE`-leading.svg and FILE-buckets.svg (or .png), or leading.svg and buckets.svg in a folder; the numbers are printed too")
	form := c.choiceFlag("output-format", "`form` of the output: json, or text for people", "json", "text")
	if err := c.parseFlags(); err != nil {
		return err
	}
	leading, buckets, err := distributionFiles(*plot)
	if err != nil {
		return err
	}
	return indexes.read(func(x *index.Index) error {
		line := statsLine{Stats: x.Stats()}
		if *plot != "" {
			var err error
			if line.Distribution, err = distributionOf(ctx, x); err == nil {
				err = line.Distribution.Draw(leading, buckets)
			}
			if err != nil {
				return err
			}
		}
		if *form == "text" {
			return describe(c.out, line.Stats, x.Plan())
		}
		return c.printJSON(line)
	})
}

// describe writes statistics for people.
func describe(out io.Writer, s index.Stats, p *plan.Plan) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "format\t%d\n", s.Format)
	fmt.Fprintf(w, "largest distance\tk = %d\n", s.MaxDistance)
	fmt.Fprintf(w, "analyzer\t%s\n", cmp.Or(s.Analyzer, "not known"))
	fmt.Fprintf(w, "documents\t%d (%d of them with nothing but a fingerprint)\n", s.Documents, s.Bare)
	fmt.Fprintf(w, "ever added\t%d\n", s.NextID-1)
	fmt.Fprintf(w, "on disk\t%d bytes\n", s.DiskBytes)
	if s.Generation > 0 {
		fmt.Fprintf(w, "packed\t%d fingerprints, %d times compacted or loaded\n", s.Packed, s.Generation)
	} else {
		fmt.Fprintf(w, "packed\tnothing: never compacted\n")
	}
	fmt.Fprintf(w, "tables\t%d\n", s.Tables)
	candidates := p.Estimate(int64(s.Documents)).Candidates
	fmt.Fprintf(w, "a query\t%d probes, %.1f candidates expected among %d uniform fingerprints\n", s.Probes, candidates, s.Documents)
	if s.CacheShort != "" {
		fmt.Fprintf(w, "cache\t%s\n", s.CacheShort)
	}
	for i, t := range p.Tables {
		fmt.Fprintf(w, "table %d\tprefix %d, radius %d, bits %s\n", i, t.Prefix, t.Radius, t.Permutation)
	}
	return w.Flush()
}

// distributionOf reads all fingerprints; they take 8 bytes of memory each.
func distributionOf(ctx context.Context, x *index.Index) (*figure.Distribution, error) {
	fps := make([]uint64, 0, x.Stats().Documents)
	for d, err := range x.Documents(ctx) {
		if err != nil {
			return nil, err
		}
		fps = append(fps, uint64(d.Fingerprint))
	}
	slices.Sort(fps)
	return figure.NewDistribution(slices.Compact(fps)), nil
}

// distributionFiles are the files to draw the two parts of the figure into.
func distributionFiles(path string) (leading, buckets string, err error) {
	extension := filepath.Ext(path)
	if info, err := os.Stat(path); extension == "" || err == nil && info.IsDir() {
		return filepath.Join(path, "leading.svg"), filepath.Join(path, "buckets.svg"), nil
	}
	if err := figure.Check(path); err != nil {
		return "", "", usagef("-plot: %v", err)
	}
	base := strings.TrimSuffix(path, extension)
	return base + "-leading" + extension, base + "-buckets" + extension, nil
}

var evalCommand = command{
	name:    "eval",
	args:    "-docs FILE -pairs FILE [-field main|html|text] [-compare] [-plot FILE.svg] [-json]",
	summary: "print precision and recall against the distance k, from labelled pairs of documents",
	run:     runEval,
}

func runEval(ctx context.Context, c *call) error {
	inputs, limits := c.inputFlags().analyzerFlags(), c.matchFlags()
	docs := c.flags.String("docs", "", "`file` of documents: JSON lines with a field id, plain or compressed")
	pairs := c.flags.String("pairs", "", "`file` of labelled pairs: similarity TAB id TAB id, plain or compressed; 0.90 or more is a near-duplicate, below 0.80 or not listed is none")
	c.flags.StringVar(&inputs.Fields.Content, "field", "", "JSON `field` of the text: html, main, text or another (the same as -content-field)")
	k := c.intFlag("k", defaultK, 0, eval.MaxDistance, "`distance` of the rule that is measured besides the curves")
	seeds := c.intFlag("seeds", 5, 1, 1000, "`number` of hash seeds, over which figures are means; the first is the one that dedup uses")
	plot := c.flags.String("plot", "", "draw the curves into `FILE`.svg or .png")
	mistakes := c.flags.String("mistakes", "", "write what the rule gets wrong with the first seed to `FILE`: false or missed, distance, distance of the second fingerprints, ratio of lengths, similarity, id and id, with tabs between them")
	compare := c.flags.Bool("compare", false, "measure other methods as well: exact digests, MinHash with LSH, super-shingles, samples of shingles, I-Match and simhash; holds all texts in memory")
	asJSON := c.flags.Bool("json", false, "print one JSON object instead of a table")
	if err := c.parse(); err != nil {
		return err
	}
	switch {
	case *docs == "" || *pairs == "":
		return usagef("-docs and -pairs are needed")
	case *docs == "-" && *pairs == "-":
		return usagef("only one of -docs and -pairs can be standard input")
	case len(c.args) > 0:
		return usagef("%q is no flag; the files are named with -docs and -pairs", c.args[0])
	}
	if *plot != "" {
		if err := figure.Check(*plot); err != nil {
			return usagef("-plot: %v", err)
		}
	}
	inputs.Fields.Key = cmp.Or(inputs.Fields.Key, "id")
	inputs.Format = cmp.Or(inputs.Format, corpus.JSONL)
	signers, bare := make([]*page.Signer, *seeds), false
	for seed := range signers {
		a, err := inputs.analyzer(uint64(seed))
		if err != nil {
			return err
		}
		signers[seed], bare = a.Signer, a.bare
	}
	labelled, err := readLabelled(ctx, inputs, *docs, *pairs, *compare, signers)
	if err != nil {
		return err
	}
	rule := eval.Rule(match.For(signers[0].Name(), *k).With(limits.shingle, limits.ratio))
	report := labelled.Measure(rule)
	if !bare {
		report.Analyzer = signers[0].Name()
	}
	if *compare {
		if report.Methods, err = labelled.Compare(ctx, report, signers); err != nil {
			return fmt.Errorf("-compare: %w", err)
		}
	}
	if *plot != "" {
		if err := report.Plot(*plot); err != nil {
			return err
		}
	}
	if *mistakes != "" {
		err := c.writeTo(*mistakes, func(out *bufio.Writer) error { return labelled.WriteMistakes(out, rule) })
		if err != nil {
			return err
		}
	}
	if *asJSON {
		return c.printJSON(report)
	}
	return report.WriteTable(c.out)
}

// readLabelled reads pairs and documents.
func readLabelled(ctx context.Context, inputs *inputFlags, docsFile, pairsFile string, keepTexts bool, signers []*page.Signer) (*eval.Labelled, error) {
	c := inputs.call
	in, err := corpus.Open(pairsFile, c.in)
	if err != nil {
		return nil, fmt.Errorf("-pairs: %w", err)
	}
	defer in.Close()
	pairs, err := eval.ReadPairs(in)
	if err != nil {
		return nil, fmt.Errorf("-pairs %s: %w", pairsFile, err)
	}
	reader, err := inputs.readerOf(docsFile)
	if err != nil {
		return nil, err
	}
	account := c.reading(ctx, reader)
	docs, err := eval.ReadDocuments(ctx, reader, keepTexts, signers)
	account()
	if err != nil {
		return nil, fmt.Errorf("-docs: %w", err)
	}
	labelled, err := eval.Label(docs, pairs)
	if err == nil && labelled.Unknown > 0 {
		c.logf("%s: %d of %d pairs name a document that is not in %s; they are left out", pairsFile, labelled.Unknown, len(pairs), docsFile)
	}
	return labelled, err
}

var benchCommand = command{
	name:    "bench",
	args:    "[-n 10e6] [-bare] [-k 6] [-only SECTION,...]",
	summary: "measure the index on this machine, against sorted arrays in memory",
	run:     runBench,
}

func runBench(ctx context.Context, c *call) error {
	var o bench.Options
	n := c.flags.Float64("n", 10e6, "`number` of fingerprints")
	only := c.flags.String("only", "", "`sections` to measure, separated by commas: "+strings.Join(bench.Sections, ", ")+" (default all)")
	seconds := c.flags.Float64("seconds", 3, "`seconds` of each window of measurement")
	cache := c.sizeFlag("cache", 0, 0, "`size` of the cache of an index (default automatic)")
	reference := c.flags.Bool("reference", true, "compare with sorted arrays in memory, 8(k+1) bytes per fingerprint; without it, the resident memory is the memory of the index")
	k := c.distanceFlag(defaultK, "largest Hamming `distance` (3 with -bare)")
	c.flags.BoolVar(&o.Bare, "bare", false, "documents without a second fingerprint, as import makes them")
	if err := c.parseFlags(); err != nil {
		return err
	}
	if !(*n >= 1) || *n > 1<<32-1 || !(*seconds >= 0) {
		return usagef("-n and -seconds must be positive, and -n at most 4294967295")
	}
	o.Documents, o.MaxDistance, o.Time = int(*n), *k, time.Duration(*seconds*float64(time.Second))
	o.CacheBytes, o.NoReference, o.Out = cache.bytes(), !*reference, c.out
	if o.Bare && !c.given("k") {
		o.MaxDistance = importK
	}
	o.Only = strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	for _, name := range o.Only {
		if !slices.Contains(bench.Sections, name) {
			return usagef("no section %q: the sections are %s", name, strings.Join(bench.Sections, ", "))
		}
	}
	return bench.Run(ctx, o)
}
