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
	"github.com/neardup/neardup/fingerprint"
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
	candidates := p.Estimate(int64(s.Documents), plan.Costs{}, 0).Candidates
	fmt.Fprintf(w, "a query\t%d probes, %.1f candidates expected among %d uniform fingerprints\n", s.Probes, candidates, s.Documents)
	if s.CacheShort != "" {
		fmt.Fprintf(w, "cache\t%s\n", s.CacheShort)
	}
	if s.Outgrown != "" {
		fmt.Fprintf(w, "outgrown\t%s; \"neardup compact -plan auto\" rewrites it\n", s.Outgrown)
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
	c.flags.StringVar(&inputs.fields.Content, "field", "", "JSON `field` of the text: html, main, text or another (the same as -content-field)")
	k := c.intFlag("k", defaultK, 0, eval.MaxDistance, "`distance` of the rule that is measured besides the curves")
	seeds := c.intFlag("seeds", 5, 1, 1000, "`number` of hash seeds, over which figures are means; the first is the one that dedup uses")
	plot := c.flags.String("plot", "", "draw the curves into `FILE`.svg or .png")
	mistakes := c.flags.String("mistakes", "", "write what the rule gets wrong with the first seed to `FILE`: false or missed, distance, distance of the second fingerprints, ratio of lengths, similarity, id and id, with tabs between them")
	compare := c.flags.Bool("compare", false, "measure other methods as well: exact digests, MinHash with LSH, super-shingles, samples of shingles, I-Match and classic simhash; takes memory for all texts")
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
	inputs.fields.Key = cmp.Or(inputs.fields.Key, "id")
	inputs.format = cmp.Or(inputs.format, corpus.JSONL)
	analyzers := make([]*analyzer, *seeds)
	for seed := range analyzers {
		var err error
		if analyzers[seed], err = inputs.analyzer(uint64(seed)); err != nil {
			return err
		}
	}
	labelled, err := readLabelled(ctx, inputs, *docs, *pairs, *compare, analyzers)
	if err != nil {
		return err
	}
	rule := eval.RuleOf(match.For(analyzers[0].Name(), *k).With(limits.shingle, limits.ratio))
	report := labelled.Measure(rule)
	if !analyzers[0].bare {
		report.Analyzer = analyzers[0].Name()
	}
	if *compare {
		var ours []*fingerprint.Analyzer
		for _, a := range analyzers {
			ours = append(ours, a.Analyzer())
		}
		if report.Methods, err = labelled.Compare(ctx, report, ours); err != nil {
			return fmt.Errorf("-compare: %w", err)
		}
	}
	if *plot != "" {
		if err := plotCurves(report, *plot); err != nil {
			return err
		}
	}
	if *mistakes != "" {
		err := c.writeTo(*mistakes, func(out *bufio.Writer) error { return writeMistakes(out, labelled.Mistakes(rule, 0)) })
		if err != nil {
			return err
		}
	}
	if *asJSON {
		return c.printJSON(report)
	}
	return writeEvalTable(c.out, report)
}

// readLabelled reads pairs and documents.
func readLabelled(ctx context.Context, inputs *inputFlags, docsFile, pairsFile string, keepTexts bool, analyzers []*analyzer) (*eval.Labelled, error) {
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
	docs, err := eval.ReadDocuments(ctx, reader, keepTexts, signer(analyzers))
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

// signer makes a record's text once, and its signatures with all analyzers.
func signer(analyzers []*analyzer) eval.Sign {
	return func(r *corpus.Record) (string, []fingerprint.Signature) {
		sigs := make([]fingerprint.Signature, len(analyzers))
		if r.Kind == corpus.Fingerprint {
			for i := range sigs {
				sigs[i] = fingerprint.Signature{Fingerprint: r.Fingerprint, Tokens: 1}
			}
			return "", sigs
		}
		text := analyzers[0].Text(kindOf(r), r.ContentType, r.Content)
		for i, a := range analyzers {
			sigs[i] = a.Analyzer().Text(text)
		}
		return text, sigs
	}
}

func writeMistakes(w io.Writer, mistakes []eval.Mistake) error {
	for _, m := range mistakes {
		kind, similarity := "missed", "-"
		if m.False {
			kind = "false"
		}
		if m.Similarity >= 0 {
			similarity = fmt.Sprintf("%.4f", m.Similarity)
		}
		if _, err := fmt.Fprintf(w, "%s\t%d\t%d\t%.2f\t%s\t%s\t%s\n", kind, m.Distance, m.Shingle, m.Ratio, similarity, corpus.QuoteKey(m.A), corpus.QuoteKey(m.B)); err != nil {
			return err
		}
	}
	return nil
}

// writeEvalTable prints a report for people.
func writeEvalTable(w io.Writer, r *eval.Report) error {
	fmt.Fprintf(w, "%d documents, %d pairs of near-duplicates, %d pairs of different documents\n", r.Documents, r.Positive, r.Negative)
	fmt.Fprintf(w, "left out: %d pairs in between, %d of equal tokens\n", r.Between, r.Identical)
	fmt.Fprintf(w, "%s; mean ± standard deviation of %d seeds\n", r.Analyzer, r.Seeds)
	for _, c := range r.Curves {
		fmt.Fprintf(w, "\n%s\n\n", c.Name)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "k\tprecision\t\trecall\t\tF1\t\tfalse pairs\tper billion\t")
		for _, p := range c.Points {
			best := ""
			if p.K == c.BestK {
				best = " best"
			}
			fmt.Fprintf(t, "%d\t%s%.1f\t%.0f\t%s\n", p.K, scoreCells(p.Score, p.Deviation), p.FalsePairs, p.FalsePairsPerBillion, best)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nthe rule  %s\n", ruleLine(&r.Default))
	if r.Best != nil {
		fmt.Fprintf(w, "the best  %s\n", ruleLine(r.Best))
	}
	fmt.Fprintf(w, "(of the rules with precision %.2f or more, the one with the best F1)\n", eval.WantedPrecision)
	short, alike := &r.Parts.Short, &r.Parts.Alike
	fmt.Fprintf(w, "\nshort texts, both of at most %d tokens: the rule finds %.1f of %d pairs of near-duplicates, and %.1f of %d pairs of different documents match\n",
		eval.ShortTokens, short.Found, short.Positive, short.Wrong, short.Negative)
	fmt.Fprintf(w, "different but listed, below %.2f, as pages of one template are: %.1f of %d pairs match\n", eval.NegativeBelow, alike.Wrong, alike.Negative)
	_, err := fmt.Fprintf(w, "a crawler with the rule would drop %.1f of %d distinct documents and store %.1f of %d near-duplicates of earlier ones\n",
		r.Crawl.Dropped, r.Crawl.Distinct, r.Crawl.Stored, r.Crawl.Duplicates)
	if len(r.Methods) > 0 {
		err = writeMethods(w, r.Methods)
	}
	return err
}

func writeMethods(w io.Writer, methods []eval.Method) error {
	fmt.Fprintf(w, "\nbeside other methods; MB/s of text on one core, with tokens\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "method\tbytes\tMB/s\tprecision\t\trecall\t\tF1\t\tper billion")
	for _, m := range methods {
		fmt.Fprintf(t, "%s\t%.0f\t%.1f\t%s%.0f\n", m.Name, m.BytesPerDocument, m.MBPerSecond, scoreCells(m.Score, m.Deviation), m.FalsePairsPerBillion)
	}
	return t.Flush()
}

func scoreCells(s, deviation eval.Score) string {
	return fmt.Sprintf("%.3f\t±%.3f\t%.3f\t±%.3f\t%.3f\t±%.3f\t",
		s.Precision, deviation.Precision, s.Recall, deviation.Recall, s.F1, deviation.F1)
}

func ruleLine(p *eval.Point) string {
	return fmt.Sprintf("k=%d%s: precision %.3f ±%.3f, recall %.3f ±%.3f, F1 %.3f ±%.3f, %.0f ±%.0f false pairs per billion", p.K, p.Conditions(),
		p.Precision, p.Deviation.Precision, p.Recall, p.Deviation.Recall, p.F1, p.Deviation.F1,
		p.FalsePairsPerBillion, p.Deviation.FalsePairsPerBillion)
}

// plotCurves draws precision and recall against k: the paper's figure 1.
func plotCurves(r *eval.Report, name string) error {
	var lines []figure.Line
	for i, c := range r.Curves {
		precision := figure.Line{Name: "precision, " + c.Name, Color: i}
		recall := figure.Line{Name: "recall, " + c.Name, Color: i, Dashed: true}
		for _, p := range c.Points {
			k := float64(p.K)
			precision.X, precision.Y = append(precision.X, k), append(precision.Y, p.Precision)
			recall.X, recall.Y = append(recall.X, k), append(recall.Y, p.Recall)
		}
		lines = append(lines, precision, recall)
	}
	axes := figure.Axes{
		Title: fmt.Sprintf("%d documents, %d pairs of near-duplicates, %d seeds", r.Documents, r.Positive, r.Seeds),
		X:     "k",
		Y:     "precision, recall",
		YMax:  1,
	}
	return figure.Curves(name, axes, lines)
}

var benchCommand = command{
	name:    "bench",
	args:    "[-n 10e6] [-bare] [-k 6] [-only SECTION,...]",
	summary: "measure the index on this machine, against sorted arrays in memory",
	run:     runBench,
}

func runBench(ctx context.Context, c *call) error {
	var o bench.Options
	names, summaries := bench.Sections()
	sections := "`sections` to measure, with commas between; without it, all:"
	for i := range names {
		sections += fmt.Sprintf("\n  %-10s %s", names[i], summaries[i])
	}
	n := c.flags.Float64("n", 10e6, "`number` of fingerprints")
	only := c.flags.String("only", "", sections)
	seconds := c.flags.Float64("seconds", 3, "about how long a comparison takes, in `seconds`")
	cache := c.mebibytesFlag("cache", 0, 0, "memory for the cache of an index in `MiB` (0: that of an index)")
	reference := c.flags.Bool("reference", true, "compare with sorted arrays in memory, 8 (k+1) bytes a fingerprint; without, the resident memory is that of the index")
	k := c.distanceFlag(defaultK, "largest Hamming `distance` (3 with -bare)")
	c.flags.BoolVar(&o.Bare, "bare", false, "documents without a second fingerprint, as import makes them, and not as pages have one")
	c.flags.StringVar(&o.Dir, "dir", "", "`folder` for the temporary indexes (default the system's)")
	c.flags.Uint64Var(&o.Seed, "seed", 1, "`seed` of the data")
	if err := c.parseFlags(); err != nil {
		return err
	}
	if !(*n >= 1) || *n > 1e10 || !(*seconds >= 0) {
		return usagef("-n and -seconds must be positive, and -n at most 1e10")
	}
	o.Documents, o.MaxDistance, o.Time = int(*n), *k, time.Duration(*seconds*float64(time.Second))
	o.CacheBytes, o.NoReference = cache.bytes(), !*reference
	if o.Bare && !c.given("k") {
		o.MaxDistance = importK
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return usagef("no section %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	begun := time.Now()
	o.Logf = func(format string, args ...any) {
		c.logf("%6.1f s: %s", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.Emit = func(f bench.Figure) {
		if _, err := fmt.Fprintln(c.out, f); err != nil {
			cancel(err)
		}
	}
	if _, err := fmt.Fprintln(c.out, bench.Title(o)); err != nil {
		return err
	}
	err := bench.Run(ctx, o)
	if err != nil {
		err = cmp.Or(context.Cause(ctx), err)
	}
	return err
}
