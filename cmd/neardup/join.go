package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/groups"
	"github.com/neardup/neardup/cmd/neardup/internal/pipe"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/spf13/cobra"
)

func pairsCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "pairs (--index DIR | LIST...) [flags]",
		Short: "Print every pair of near-duplicates of an index or of lists of fingerprints",
		Long: `Print every pair of near-duplicates once. Documents with equal fingerprints are
one member of a pair, with a count; clusters lists them.

With --compat simhash-cpp, pairs accepts the flags -b, -d, -i and -o of
simhash-find-all, and prints the same lines in another order.`,
		Example: `  neardup pairs --index crawl.index
  neardup pairs --max-distance 3 fingerprints.txt`,
	})
	j := c.joinFlags()
	j.compatible = j.numberPairs
	return c.runs(func(ctx context.Context) error {
		pairs, hidden := 0, 0
		return j.run(ctx, "pairs", func(s groups.Source, out *bufio.Writer, found func()) error {
			for p, err := range s.Pairs(ctx) {
				if err != nil {
					return err
				}
				if p.First.ID == p.Second.ID {
					hidden += p.First.Documents * (p.First.Documents - 1) / 2
					continue
				}
				if err := writeJSON(out, p); err != nil {
					return err
				}
				pairs++
				found()
			}
			c.logf("%d pairs of distinct fingerprints; %d pairs of documents with equal "+
				"fingerprints are not printed (clusters prints these documents)", pairs, hidden)
			return nil
		})
	})
}

func clustersCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "clusters (--index DIR | LIST...) [flags]",
		Short: "Print the clusters of near-duplicates of an index or of lists of fingerprints",
		Long: `Print the clusters of near-duplicates. A cluster is a set of documents that a
chain of pairs connects, so the documents at its ends can have little in common.
With --star, each member is within --max-distance of the kept document, so that
the member can be deleted safely; a chain can then become several clusters. The
kept document of a cluster is the first one that was added or listed.

With --compat simhash-cpp, clusters accepts the flags -b, -d, -i and -o of
simhash-find-clusters, and prints the same lines in another order.`,
		Example: `  neardup clusters --index crawl.index
  neardup clusters --index crawl.index --removals | neardup delete --index crawl.index --ids -`,
	})
	j := c.joinFlags()
	j.compatible = j.numberClusters
	c.flags.BoolVar(&j.stars, "star", false,
		"each member is within --max-distance of the kept document")
	removals := c.flags.Bool("removals", false,
		"print only the IDs to delete so that one document per cluster remains; implies --star")
	c.check(func() error { j.stars = j.stars || *removals; return nil })
	return c.runs(func(ctx context.Context) error {
		clusters, documents := 0, 0
		return j.run(ctx, "clusters", func(s groups.Source, out *bufio.Writer, found func()) error {
			for cluster, err := range s.Clusters(ctx) {
				switch {
				case err != nil:
				case *removals:
					err = writeRemovals(out, cluster)
				default:
					err = cluster.Write(out)
				}
				if err != nil {
					return err
				}
				clusters, documents = clusters+1, documents+cluster.Documents
				found()
			}
			c.logf("%d clusters of %d documents", clusters, documents)
			return nil
		})
	})
}

// writeRemovals writes the IDs of all documents of a cluster except the kept one.
func writeRemovals(out *bufio.Writer, cluster *groups.Cluster) error {
	kept := true
	for m, err := range cluster.Members {
		if err == nil && !kept {
			_, err = fmt.Fprintln(out, m.ID)
		}
		if err != nil {
			return err
		}
		kept = false
	}
	return nil
}

// joining are the flags of pairs and clusters.
type joining struct {
	call    *call
	indexes *indexFlags
	k       int
	stars   bool

	compat        *string // the program of seomoz/simhash-cpp that the command replaces
	blocks        int
	input, output string
	// prints the output of that program
	compatible func(ctx context.Context, numbers []fingerprint.Fingerprint, out *bufio.Writer) error
}

func (c *call) joinFlags() *joining {
	j := &joining{call: c, indexes: c.indexFlag()}
	c.flags.IntVarP(&j.k, "max-distance", "d", importK,
		"largest Hamming `distance`; with --index, the default is the k of the index")
	j.compat = c.choiceFlag("compat", "replace this `program`: simhash-cpp, which reads decimal "+
		"numbers and prints JSON arrays", "", "simhash-cpp")
	c.flags.IntVarP(&j.blocks, "blocks", "b", 0, "`number` of blocks, which has no effect")
	c.flags.StringVarP(&j.input, "input", "i", "-", "`file` to read; - is standard input")
	c.flags.StringVarP(&j.output, "output", "o", "-", "`file` to write; - is standard output")
	for _, name := range []string{"blocks", "input", "output"} { // of --compat
		c.flags.MarkHidden(name)
	}
	c.check(j.check)
	return j
}

func (j *joining) check() error {
	c := j.call
	switch {
	case j.k < 0 || j.k > 64:
		return usagef("--max-distance is %d, want 0 to 64", j.k)
	case *j.compat == "" && (c.given("input") || c.given("output") || c.given("blocks")):
		return usagef("--input, --output and --blocks require --compat simhash-cpp")
	case *j.compat == "" && (j.indexes.dir == "") == (len(c.args) == 0):
		return usagef("want --index DIR or lists of fingerprints (- is standard input)")
	case *j.compat == "":
		return nil
	case !c.given("max-distance") || j.k == 0: // as the programs of simhash-cpp do
		return usagef("--compat %s requires -d with a distance above 0", *j.compat)
	case j.blocks <= j.k:
		return usagef("-b (%d) must be above -d (%d)", j.blocks, j.k)
	case j.blocks > 64:
		return usagef("-b is %d, want 64 at most", j.blocks)
	case j.indexes.dir != "" || len(c.args) > 0:
		return usagef("--compat %s reads only --input: omit --index and arguments", *j.compat)
	}
	return nil
}

// run calls do with the source that the flags select and with the output. found counts the results.
func (j *joining) run(
	ctx context.Context, what string, do func(s groups.Source, out *bufio.Writer,
		found func()) error,
) error {
	c := j.call
	c.in = pipe.Cancelable(ctx, c.in)
	var lists *groups.Lists
	read := func(format corpus.Format, names ...string) (err error) {
		inputs := &inputFlags{call: c, Options: corpus.Options{Format: format}}
		reader, err := inputs.readerOf(names...)
		if err == nil {
			lists, err = groups.Read(c.chunks(ctx, reader), j.k, j.stars)
		}
		return err
	}
	if *j.compat != "" {
		return c.writeTo(j.output, func(os.FileInfo) error { return read(corpus.Decimal, j.input) },
			func(out *bufio.Writer) error {
				return j.compatible(ctx, lists.Fingerprints, out)
			})
	}
	out := bufio.NewWriterSize(c.out, 256<<10)
	withSource := func(s groups.Source) error {
		done, stop := c.counting(what, 0)
		defer stop()
		return cmp.Or(do(s, out, func() { done.Add(1) }), out.Flush())
	}
	if j.indexes.dir == "" {
		if err := read(corpus.Detect, c.args...); err != nil {
			return err
		}
		return withSource(lists)
	}
	o := index.JoinOptions{Stars: j.stars, MaxDistance: c.givenDistance(j.k)}
	return j.indexes.read(func(x *index.Index) error { return withSource(groups.OfIndex(x, o)) })
}

// numberPairs prints the pairs of numbers as simhash-find-all does.
func (j *joining) numberPairs(
	ctx context.Context, numbers []fingerprint.Fingerprint, out *bufio.Writer,
) error {
	for p, err := range neardup.Pairs(ctx, numbers, j.k) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "[%d, %d]\n", p.First, p.Second) // Flush returns its errors
	}
	return nil
}

// numberClusters prints the clusters of numbers as simhash-find-clusters does: each number once.
func (j *joining) numberClusters(
	ctx context.Context, numbers []fingerprint.Fingerprint, out *bufio.Writer,
) error {
	for places, err := range neardup.Clusters(ctx, numbers, j.k) {
		if err != nil {
			return err
		}
		members := make([]fingerprint.Fingerprint, len(places))
		for i, place := range places {
			members[i] = numbers[place]
		}
		slices.Sort(members)
		if members = slices.Compact(members); len(members) == 1 {
			continue
		}
		for i, m := range members {
			separator := ", "
			if i == 0 {
				separator = "["
			}
			fmt.Fprintf(out, "%s%d", separator, uint64(m))
		}
		out.WriteString("]\n")
	}
	return nil
}
