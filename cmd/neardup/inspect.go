package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/neardup/neardup/cmd/neardup/internal/figure"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/index/verify"
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
	Distribution *distribution `json:"distribution,omitempty"` // with -plot
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
				err = line.Distribution.draw(leading, buckets)
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
	if s.Outgrown != "" {
		fmt.Fprintf(w, "outgrown\t%s; \"neardup compact -plan auto\" rewrites it\n", s.Outgrown)
	}
	for i, t := range p.Tables {
		fmt.Fprintf(w, "table %d\tprefix %d, radius %d, bits %s\n", i, t.Prefix, t.Radius, t.Permutation)
	}
	return w.Flush()
}

// distribution is figure 2 of the paper: how even the fingerprints of an index are.
// Tables of prefixes are as fast as they should be only if they are about even.
type distribution struct {
	Fingerprints int `json:"fingerprints"` // distinct ones
	// LeadingBits[i] is the number of fingerprints that differ from the one before, in
	// sorted order, in bit i (63 the highest) and in none above. For n even ones most
	// are about bit 64 - log2 n (figure 2a).
	LeadingBits [64]int `json:"leadingBits"`
	// Buckets are the fingerprints in each of 128 equal parts of the range (figure 2b).
	Buckets [128]int `json:"buckets"`
}

// distributionOf reads all fingerprints; they take 8 bytes of memory each.
func distributionOf(ctx context.Context, x *index.Index) (*distribution, error) {
	fps := make([]uint64, 0, x.Stats().Documents)
	for d, err := range x.Documents(ctx) {
		if err != nil {
			return nil, err
		}
		fps = append(fps, uint64(d.Fingerprint))
	}
	slices.Sort(fps)
	return newDistribution(slices.Compact(fps)), nil
}

// newDistribution counts distinct fingerprints in ascending order.
func newDistribution(fps []uint64) *distribution {
	d := &distribution{Fingerprints: len(fps)}
	for i, fp := range fps {
		d.Buckets[fp>>57]++
		if i > 0 {
			d.LeadingBits[bits.Len64(fp^fps[i-1])-1]++
		}
	}
	return d
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

func (d *distribution) draw(leading, buckets string) error {
	if err := os.MkdirAll(filepath.Dir(leading), 0o777); err != nil {
		return err
	}
	axes := figure.Axes{Title: "Neighbours in sorted order", X: "position of the leading 1-bit of their XOR", Y: "neighbours"}
	if err := figure.Bars(leading, axes, d.LeadingBits[:]); err != nil {
		return err
	}
	axes = figure.Axes{Title: "Fingerprints over 128 buckets", X: "bucket", Y: "fingerprints"}
	return figure.Bars(buckets, axes, d.Buckets[:])
}

var verifyCommand = command{
	name:    "verify",
	args:    "-index DIR",
	summary: "check everything in an index against everything else; a JSON line for each problem, exit 1 if there is any",
	run:     runVerify,
}

// errProblems makes the command exit with 1.
var errProblems = errors.New("the index is damaged; \"neardup repair\" saves what can be saved")

func runVerify(ctx context.Context, c *call) error {
	indexes := c.requiredIndexFlags()
	memory := c.mebibytesFlag("memory", 256, "memory for sorting, where parts of the index differ, in `MiB`")
	if err := c.parseFlags(); err != nil {
		return err
	}
	bar := c.newProgressBar(true)
	opts := verify.Options{
		MemoryBytes: memory.bytes(),
		Progress:    func(stage string, done uint64) { bar.show(stage, int64(done), 0, stage == "files") },
	}
	var stats index.Stats
	problems, kinds := 0, make(map[string]int64)
	err := indexes.read(func(x *index.Index) error {
		stats = x.Stats()
		for p := range x.Verify(ctx, opts) {
			problems++
			kinds[string(p.Kind)]++
			if err := c.printJSON(p); err != nil {
				return err
			}
			if p.Kind == verify.Unchecked && p.Err != nil {
				return p.Err // the rest was not looked at
			}
		}
		return nil
	})
	bar.stop()
	switch {
	case errors.Is(err, index.ErrCorrupt) && problems == 0:
		return errors.Join(c.printJSON(verify.Problem{Kind: verify.Unreadable, Keyspace: "index", Message: err.Error()}), errProblems)
	case err != nil:
		return err
	case problems > 0:
		c.logf("%s: %d problems%s", indexes.dir, problems, reasons(kinds))
		return errProblems
	}
	c.logf("%s: no problem in %d documents, %d tables", indexes.dir, stats.Documents, stats.Tables)
	return nil
}
