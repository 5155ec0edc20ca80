package main

import (
	"bufio"
	"cmp"
	"context"
	"runtime"
	"sync/atomic"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/groups"
	"github.com/neardup/neardup/cmd/neardup/internal/pipe"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/join"
	"github.com/spf13/cobra"
)

func pairsCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "pairs (--index DIR | LIST...) [flags]",
		Short: "Print every pair of near-duplicates of an index or of lists of fingerprints",
		Long: `Print every pair of near-duplicates once. Equal fingerprints are one member of a pair, with a count;
--equal prints all pairs of documents instead.

With --compat simhash-cpp, pairs takes the flags of simhash-find-all (-b -d -i -o) and prints what
simhash-find-all prints.`,
		Example: `  neardup pairs --index crawl.index
  neardup pairs --max-distance 3 fingerprints.txt`,
	})
	f := c.joinFlags()
	c.flags.BoolVar(&f.equal, "equal", false, "print pairs of documents with equal fingerprints too")
	return c.runs(func(ctx context.Context) error {
		if err := f.check(); err != nil {
			return err
		}
		equal := make([]uint64, runtime.GOMAXPROCS(0)) // by worker: pairs of documents with equal fingerprints that are not printed
		writers, err := f.join(ctx, len(equal), "pairs", func(s groups.Source, writers []*groups.Writer, done *atomic.Int64) error {
			return s.Pairs(ctx, len(writers), func(worker int, a, b *groups.Member, distance int) error {
				w := writers[worker]
				done.Add(1)
				switch {
				case f.equal:
					return groups.EachPair(a, b, distance, w.Pair)
				case a.ID == b.ID && distance == 0 && a.Documents > 1:
					equal[worker] += uint64(a.Documents) * uint64(a.Documents-1) / 2
					return nil
				}
				return w.Pair(a, b, distance)
			})
		})
		if err != nil {
			return err
		}
		pairs, hidden := 0, uint64(0)
		for i, w := range writers {
			pairs, hidden = pairs+w.Written, hidden+equal[i]
		}
		switch {
		case f.equal:
			c.logf("%d pairs of documents", pairs)
		case hidden > 0:
			c.logf("%d pairs of distinct fingerprints; %d pairs of documents with equal ones are not printed (--equal prints them)", pairs, hidden)
		default:
			c.logf("%d pairs of distinct fingerprints", pairs)
		}
		return nil
	})
}

func clustersCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "clusters (--index DIR | LIST...) [flags]",
		Short: "Print the clusters of near-duplicates of an index or of lists of fingerprints",
		Long: `Print the clusters of near-duplicates. A cluster is a set of documents that a chain of pairs connects:
the two ends of the chain may have little in common. With --star, each member is within
--max-distance of the document that is kept, so that the member can be deleted safely; a chain may
then give several clusters. The document that is kept is the first one that was added or listed.

--output-format removals prints the IDs to delete so that one document of each cluster remains.

With --compat simhash-cpp, clusters takes the flags of simhash-find-clusters (-b -d -i -o) and prints
what simhash-find-clusters prints.`,
		Example: `  neardup clusters --index crawl.index
  neardup clusters --index crawl.index --star --output-format removals | neardup delete --index crawl.index --ids -`,
	})
	f := c.joinFlags()
	f.form = c.choiceFlag("output-format", "`format` of the output: json, a line per cluster, or removals", groups.JSON, groups.Removals)
	c.flags.BoolVar(&f.star, "star", false, "each member is within --max-distance of the document that is kept")
	return c.runs(func(ctx context.Context) error {
		if err := f.check(); err != nil {
			return err
		}
		documents := 0
		writers, err := f.join(ctx, 1, "clusters", func(s groups.Source, writers []*groups.Writer, done *atomic.Int64) error {
			return s.Clusters(ctx, func(found *groups.Cluster) error {
				done.Add(1)
				documents += found.Documents
				return writers[0].Cluster(found)
			})
		})
		if err != nil {
			return err
		}
		c.logf("%d clusters of %d documents", writers[0].Written, documents)
		return nil
	})
}

// joinFlags are the flags of pairs and clusters.
type joinFlags struct {
	call    *call
	inputs  *inputFlags
	indexes *indexFlags
	lists   []string // the inputs, without an index

	k      *int
	form   *string
	output string
	equal  bool
	star   bool

	compat *string // the program of seomoz/simhash-cpp that the command replaces
	blocks int
	input  string
}

func (c *call) joinFlags() *joinFlags {
	form := groups.JSON
	f := &joinFlags{call: c, form: &form, inputs: c.inputFlags(), indexes: c.indexFlag()}
	flags := c.flags
	flags.Lookup("format").Usage = "`format` of all inputs: fingerprints, decimal (lines that begin with a decimal number), u64le or jsonl (default by name)"
	f.k = new(int)
	*f.k = importK
	flags.VarP(&flagValue{"", "int", setInt(f.k, 0, 64)}, "max-distance", "d", "largest Hamming `distance` (default the k of the index, or 3)")
	f.compat = c.choiceFlag("compat", "replace this `program`: simhash-cpp, which reads decimal numbers and prints JSON arrays", "", groups.SimhashCPP)
	flags.StringVarP(&f.output, "output", "o", "-", "`file` to write; - is standard output")
	flags.StringVarP(&f.input, "input", "i", "", "`file` to read with --compat; - is standard input")
	flags.IntVarP(&f.blocks, "blocks", "b", 0, "`number` of blocks with --compat; it must be above --max-distance, and has no effect")
	flags.MarkHidden("input")
	flags.MarkHidden("blocks")
	return f
}

func (f *joinFlags) check() error {
	c := f.call
	f.lists = c.args
	switch {
	case *f.compat != "":
		return f.setCompat()
	case c.given("input") || c.given("blocks"):
		return usagef("--input and --blocks require --compat simhash-cpp")
	case (f.indexes.dir == "") == (len(c.args) == 0):
		return usagef("want --index DIR or lists of fingerprints (- is standard input)")
	}
	return nil
}

// setCompat checks the flags like the programs of simhash-cpp.
func (f *joinFlags) setCompat() error {
	switch {
	case !f.call.given("max-distance") || *f.k == 0:
		return usagef("-d must be given and above 0")
	case f.blocks <= *f.k:
		return usagef("-b (%d) must be above -d (%d)", f.blocks, *f.k)
	case f.blocks > 64:
		return usagef("-b is %d, want 64 at most", f.blocks)
	case f.indexes.dir != "":
		return usagef("--compat %s reads decimal numbers, not an index", *f.compat)
	}
	if f.input != "" {
		f.lists = append(f.lists, f.input)
	}
	switch len(f.lists) {
	case 0:
		f.lists = []string{"-"}
	case 1:
	default:
		return usagef("--compat %s reads one input, not %q", *f.compat, f.lists)
	}
	*f.form, f.inputs.Format = *f.compat, corpus.Decimal
	f.equal, f.star = false, false
	return nil
}

// join calls do with the source that the flags select and with writers to the output.
func (f *joinFlags) join(ctx context.Context, workers int, what string, do func(groups.Source, []*groups.Writer, *atomic.Int64) error) (writers []*groups.Writer, err error) {
	f.call.in = pipe.Cancelable(ctx, f.call.in)
	err = f.call.writeTo(f.output, func(out *bufio.Writer) error {
		writers = groups.NewWriters(*f.form, out, workers)
		return f.source(ctx, func(s groups.Source) error {
			done, stop := f.call.counting(what, 0)
			err := do(s, writers, done)
			stop()
			for _, w := range writers {
				err = cmp.Or(err, w.Flush())
			}
			return err
		})
	})
	return writers, err
}

// source calls do with the source that the flags select.
func (f *joinFlags) source(ctx context.Context, do func(groups.Source) error) error {
	if f.indexes.dir != "" {
		o := join.Options{Stars: f.star}
		if f.call.given("max-distance") {
			o.MaxDistance = distanceOption(*f.k)
		}
		return f.indexes.read(func(x *index.Index) error { return do(groups.OfIndex(x, o)) })
	}
	reader, err := f.inputs.listReader(f.lists)
	if err != nil {
		return err
	}
	chunks := f.call.chunks(ctx, reader, f.inputs.Format == corpus.Decimal) // a number is identified by its line, so no line may be skipped
	s, err := groups.OfLists(chunks, groups.ListOptions{MaxDistance: *f.k, Stars: f.star, Numbers: *f.form == groups.SimhashCPP})
	if err != nil {
		return err
	}
	return do(s)
}
