package main

import (
	"bufio"
	"cmp"
	"context"
	"runtime"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/groups"
	"github.com/neardup/neardup/cmd/neardup/internal/pipe"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/join"
)

var pairsCommand = command{
	name:    "pairs",
	args:    "[-k 3] -index DIR | FINGERPRINTS...",
	summary: "print every pair of near-duplicates in an index or in lists of fingerprints, once",
	more: `Equal fingerprints are one, with a count; -equal lists all pairs of documents instead.
With -compat simhash-cpp it takes the flags of simhash-find-all (-b -d -i -o) and writes
what that writes.`,
	run: runPairs,
}

func runPairs(ctx context.Context, c *call) error {
	f := c.joinFlags(groups.JSON)
	if err := f.parse(); err != nil {
		return err
	}
	equal := make([]uint64, runtime.GOMAXPROCS(0)) // by worker: pairs of documents with one fingerprint that are not written
	writers, err := f.join(ctx, len(equal), func(s groups.Source, writers []*groups.Writer) error {
		return s.Pairs(ctx, len(writers), func(worker int, a, b *groups.Member, distance int) error {
			w := writers[worker]
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
		c.logf("%d pairs of distinct fingerprints; %d pairs of documents with equal ones are not listed (-equal lists them)", pairs, hidden)
	default:
		c.logf("%d pairs of distinct fingerprints", pairs)
	}
	return nil
}

var clustersCommand = command{
	name:    "clusters",
	args:    "[-k 3] [-star] [-output-format json|removals] -index DIR | FINGERPRINTS...",
	summary: "print the clusters of near-duplicates in an index or in lists of fingerprints",
	more: `A cluster is what a chain of pairs connects: its ends may have little in common, and one
page that resembles two groups makes one cluster of both. With -star, every member is
within -k of the one that is kept, so it is safe to drop it for that one; a chain may then
give several clusters. The document that is kept is the first one that was added or listed.
-output-format removals prints the IDs to delete so that one document of each cluster remains:
neardup clusters -index DIR -star -output-format removals | neardup delete -index DIR -ids -
With -compat simhash-cpp it takes the flags of simhash-find-clusters (-b -d -i -o) and
writes what that writes.`,
	run: runClusters,
}

func runClusters(ctx context.Context, c *call) error {
	f := c.joinFlags(groups.JSON, groups.Removals)
	c.flags.BoolVar(&f.star, "star", false, "every member within -k of the one that is kept, instead of chains")
	if err := f.parse(); err != nil {
		return err
	}
	documents := 0
	writers, err := f.join(ctx, 1, func(s groups.Source, writers []*groups.Writer) error {
		return s.Clusters(ctx, func(found *groups.Cluster) error {
			documents += found.Documents
			return writers[0].Cluster(found)
		})
	})
	if err != nil {
		return err
	}
	c.logf("%d clusters of %d documents", writers[0].Written, documents)
	return nil
}

// joinFlags are those of pairs and clusters.
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
	match  *matchFlags

	compat           *string // the program of seomoz/simhash-cpp that it stands in for
	blocks, distance int
	input            string
}

func (c *call) joinFlags(forms ...string) *joinFlags {
	f := &joinFlags{call: c, inputs: c.inputFlags(), indexes: c.indexFlags(), match: c.matchFlags()}
	flags := c.flags
	flags.Lookup("format").Usage = "`format` of all inputs: fingerprints (lines of a fingerprint, or fingerprint TAB key), decimal (lines of a decimal number; what stands behind it does not count), u64le or jsonl (default by name, u64le, jsonl or else fingerprints)"
	f.k = c.intFlag("k", 0, 0, 64, "largest Hamming `distance`, 0 to 64 (default that of the index, or 3)")
	f.form = c.choiceFlag("output-format", "`form` of the output: json (a line for each), or for clusters removals", forms...)
	flags.BoolVar(&f.equal, "equal", false, "list pairs of equal fingerprints too (clusters list every document, with and without)")
	f.compat = c.choiceFlag("compat", "be the `program` simhash-cpp: unsigned decimal lines in, JSON arrays out", "", groups.SimhashCPP)
	for _, name := range []string{"output", "o"} {
		flags.StringVar(&f.output, name, "-", "`file` to write; - is standard output")
	}
	for _, name := range []string{"input", "i"} {
		flags.StringVar(&f.input, name, "", "with -compat: `file` to read; - is standard input")
	}
	for _, name := range []string{"blocks", "b"} {
		flags.IntVar(&f.blocks, name, 0, "with -compat: `number` of blocks, more than -distance; it changes nothing")
	}
	for _, name := range []string{"distance", "d"} {
		flags.IntVar(&f.distance, name, 0, "with -compat: largest `distance`")
	}
	return f
}

func (f *joinFlags) parse() error {
	c := f.call
	if err := c.parse(); err != nil {
		return err
	}
	if f.lists = c.args; !c.given("k") {
		*f.k = importK
	}
	if *f.compat != "" {
		return f.setCompat()
	}
	for _, name := range []string{"input", "i", "blocks", "b", "distance", "d"} {
		if c.given(name) {
			return usagef("-%s goes with -compat simhash-cpp only", name)
		}
	}
	if (f.indexes.dir == "") == (len(c.args) == 0) {
		return usagef("want -index DIR or lists of fingerprints (- is standard input), one of the two")
	}
	if f.indexes.dir != "" {
		return nil
	}
	for _, name := range []string{"max-shingle-distance", "max-length-ratio"} {
		if c.given(name) {
			return usagef("-%s needs an index: lists have no second fingerprints and no lengths", name)
		}
	}
	return nil
}

// setCompat checks the flags as the programs that it stands in for do.
func (f *joinFlags) setCompat() error {
	switch {
	case f.distance <= 0:
		return usagef("-distance must be given and above 0")
	case f.blocks <= f.distance:
		return usagef("-blocks (%d) must be above -distance (%d)", f.blocks, f.distance)
	case f.blocks > 64:
		return usagef("-blocks is %d, want 64 at most", f.blocks)
	case f.indexes.dir != "":
		return usagef("-compat %s reads decimal numbers, not an index", *f.compat)
	}
	if f.input != "" {
		f.lists = append(f.lists, f.input)
	}
	switch len(f.lists) {
	case 0:
		f.lists = []string{"-"}
	case 1:
	default:
		return usagef("-compat %s reads one input, not %q", *f.compat, f.lists)
	}
	*f.k, *f.form, f.inputs.Format = f.distance, *f.compat, corpus.Decimal
	f.equal, f.star = false, false
	return nil
}

// join has do write what it finds in what the flags name.
func (f *joinFlags) join(ctx context.Context, workers int, do func(groups.Source, []*groups.Writer) error) (writers []*groups.Writer, err error) {
	f.call.in = pipe.Cancelable(ctx, f.call.in)
	err = f.call.writeTo(f.output, func(out *bufio.Writer) error {
		writers = groups.NewWriters(*f.form, out, workers)
		return f.source(ctx, func(s groups.Source) error {
			err := do(s, writers)
			for _, w := range writers {
				err = cmp.Or(err, w.Flush())
			}
			return err
		})
	})
	return writers, err
}

// source opens what the flags name, until do returns.
func (f *joinFlags) source(ctx context.Context, do func(groups.Source) error) error {
	if f.indexes.dir != "" {
		o := join.Options{MaxShingleDistance: f.match.shingle, MaxLengthRatio: f.match.ratio, Stars: f.star}
		if f.call.given("k") {
			o.MaxDistance = distanceOption(*f.k)
		}
		return f.indexes.read(func(x *index.Index) error { return do(groups.OfIndex(x, o)) })
	}
	reader, err := f.inputs.listReader(f.lists)
	if err != nil {
		return err
	}
	chunks := f.call.chunks(ctx, reader, f.inputs.Format == corpus.Decimal) // numbers are known by their place: none may be missing
	s, err := groups.OfLists(chunks, groups.ListOptions{MaxDistance: *f.k, Stars: f.star, Numbers: *f.form == groups.SimhashCPP})
	if err != nil {
		return err
	}
	return do(s)
}
