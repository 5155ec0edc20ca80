package main

import (
	"context"
	"errors"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

var pairsCommand = command{
	name:    "pairs",
	args:    "[-k 3] [-output-format json|csv] -index DIR | FINGERPRINTS...",
	summary: "print every pair of near-duplicates in an index or in lists of fingerprints, once",
	more: `Equal fingerprints are one, with a count; -equal lists all pairs of documents instead.
With -compat simhash-cpp it takes the flags of simhash-find-all (-b -d -i -o) and writes
what that writes.`,
	run: runPairs,
}

func runPairs(ctx context.Context, c *call) error {
	c.in = readUntilDone(ctx, c.in)
	f := c.joinFlags()
	if err := f.parse(); err != nil {
		return err
	}
	if f.memory > 0 && f.equal {
		return usagef("-memory lists pairs of distinct fingerprints, not with -equal")
	}
	w := f.writer()
	write := map[string]func(a, b *member, distance int) error{"json": w.pairJSON, "csv": w.pairCSV, simhashCPP: w.pairArray}[f.as]
	if write == nil {
		return usagef("-output-format is %q, want json or csv", f.as)
	}
	p := &pairing{equal: f.equal, write: write}
	if f.as == "csv" {
		w.header = "first,second,distance\n"
	}
	if err := f.join(ctx, w, func(s joinSource) error { return s.pairs(ctx, p.pair) }); err != nil {
		return err
	}
	p.account(c)
	return nil
}

// pairing takes pairs of members and writes them as asked.
type pairing struct {
	equal bool // list pairs of documents
	write func(a, b *member, distance int) error

	written, equals uint64
}

// pair writes a pair; a member with itself stands for the pairs of its documents.
func (p *pairing) pair(a, b *member, distance int) error {
	same := distance == 0 && a.ID == b.ID
	if !p.equal {
		if same {
			p.equals += uint64(a.Documents) * uint64(a.Documents-1) / 2
			return nil
		}
		p.written++
		return p.write(a, b, distance)
	}
	for first, err := range a.all() {
		if err != nil {
			return err
		}
		for second, err := range b.all() {
			if err != nil {
				return err
			}
			if same && second.ID <= first.ID {
				continue
			}
			p.written++
			if err := p.write(&first, &second, distance); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pairing) account(c *call) {
	switch {
	case p.equal:
		c.logf("%d pairs of documents", p.written)
	case p.equals > 0:
		c.logf("%d pairs of distinct fingerprints; %d pairs of documents with equal ones are not listed (-equal lists them)", p.written, p.equals)
	default:
		c.logf("%d pairs of distinct fingerprints", p.written)
	}
}

var clustersCommand = command{
	name:    "clusters",
	args:    "[-k 3] [-star] [-keep first] [-output-format json|csv|removals|removal-ids] -index DIR | FINGERPRINTS...",
	summary: "print the clusters of near-duplicates in an index or in lists of fingerprints",
	more: `A cluster is what a chain of pairs connects: its ends may have little in common, and one
page that resembles two groups makes one cluster of both. With -star, every member is
within -k of the one that is kept, so it is safe to drop it for that one; a chain may then
give several clusters. With -output-format removals it prints what to delete so that one document of
each cluster remains, for "neardup delete -index DIR -": keys, and numbers of documents
without one, which -output-format removal-ids prints of all, for "neardup delete -index DIR -ids -".
With -compat simhash-cpp it takes the flags of simhash-find-clusters (-b -d -i -o) and
writes what that writes.`,
	run: runClusters,
}

func runClusters(ctx context.Context, c *call) error {
	c.in = readUntilDone(ctx, c.in)
	f := c.joinFlags()
	c.flags.StringVar(&f.keep, "keep", "first", "which document of a cluster is `kept`: first (added or listed), shortest-key, longest or score;\nthe last two take the larger number behind the key: lines of fingerprint TAB key TAB number")
	c.flags.BoolVar(&f.star, "star", false, "every member within -k of the one that is kept, instead of chains")
	if err := f.parse(); err != nil {
		return err
	}
	if err := f.checkKeep(); err != nil {
		return err
	}
	w := f.writer()
	write := map[string]func(*cluster) error{
		"json": w.clusterJSON, "csv": w.clusterCSV, "removals": w.removals, "removal-ids": w.removals, simhashCPP: w.clusterArray,
	}[f.as]
	if write == nil {
		return usagef("-output-format is %q, want json, csv, removals or removal-ids", f.as)
	}
	if f.as == "csv" {
		w.header = "cluster,kept,id,key,fingerprint,documents\n"
	}
	clusters, documents := 0, 0
	err := f.join(ctx, w, func(s joinSource) error {
		return s.clusters(ctx, func(found *cluster) error {
			clusters++
			documents += found.documents
			return write(found)
		})
	})
	if err != nil {
		return err
	}
	c.logf("%d clusters of %d documents", clusters, documents)
	if w.unnamed > 0 {
		c.logf("%d documents without a key were listed by number; \"neardup delete -ids\" takes numbers, and -output-format removal-ids prints nothing else", w.unnamed)
	}
	return nil
}

// checkKeep checks the value of -keep.
func (f *joinFlags) checkKeep() error {
	switch {
	case f.keep != "first" && f.keep != "shortest-key" && !f.numbered():
		return usagef("-keep is %q, want first, shortest-key, longest or score", f.keep)
	case f.numbered() && f.indexes.dir != "":
		return usagef("-keep %s needs lists of fingerprint TAB key TAB number: an index has no such number", f.keep)
	case f.memory > 0 && f.keep != "first":
		return usagef("-memory keeps the first document of a cluster, not -keep %s: its lists have fingerprints only", f.keep)
	}
	return nil
}

// joinFlags are those of pairs and clusters.
type joinFlags struct {
	call    *call
	inputs  *inputFlags
	lists   []string // the inputs, without an index
	indexes *indexFlags

	k       int
	as      string
	output  string
	equal   bool
	star    bool
	shingle int
	ratio   float64
	keep    string
	memory  int // MiB; 0: all there is

	compat   string
	blocks   int
	distance int
	input    string
}

func (c *call) joinFlags() *joinFlags {
	f := &joinFlags{call: c, inputs: c.inputFlags(), indexes: c.indexFlags(), keep: "first"}
	flags := c.flags
	flags.Lookup("format").Usage = "`format` of all inputs: fingerprints (lines of a fingerprint, or fingerprint TAB key), decimal (lines of a decimal number; what stands behind it does not count), u64le or jsonl (default: by name, u64le, jsonl or else fingerprints)"
	flags.IntVar(&f.k, "k", 3, "largest Hamming `distance`, 0 to 64 (default that of the index, or 3)")
	flags.StringVar(&f.as, "output-format", "json", "`form` of the output: json (lines), csv; for clusters also removals and removal-ids")
	flags.BoolVar(&f.equal, "equal", false, "list every document, also those with equal fingerprints")
	flags.IntVar(&f.shingle, "max-shingle-distance", 0, "largest `distance`, that of the second fingerprints added to that of the first, where both documents have a second one; below 0: any (default that of the index)")
	flags.Float64Var(&f.ratio, "max-length-ratio", 0, "how many `times` as long as the other one of two may be, where both lengths are known; below 0: any (default that of the index)")
	flags.IntVar(&f.memory, "memory", 0, "for lists larger than memory: sort them in files in the folder for temporary ones (TMPDIR), with so many `MiB`, 16 or more;\npairs then have fingerprints only")
	flags.StringVar(&f.compat, "compat", "", "be the `program` simhash-cpp: unsigned decimal lines in, JSON arrays out")
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
	f.lists = c.args
	switch {
	case f.k < 0 || f.k > 64:
		return usagef("-k is %d, want 0 to 64", f.k)
	case f.memory < 0:
		return usagef("-memory is %d MiB, want 1 or more", f.memory)
	case f.compat != "":
		return f.setCompat()
	case f.as == simhashCPP:
		return usagef("-output-format is %q: that is -compat %s", f.as, simhashCPP)
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
		if f.memory > 0 {
			return usagef("-memory goes with lists of fingerprints")
		}
		return nil
	}
	switch format := corpus.Format(f.inputs.format); {
	case f.shingle != 0:
		return usagef("-max-shingle-distance needs an index: lists have no second fingerprints")
	case f.ratio != 0:
		return usagef("-max-length-ratio needs an index: lists have no lengths")
	case f.memory > 0 && format != corpus.Decimal && format != corpus.U64LE && (format != corpus.Detect || !areWords(f.lists)):
		return usagef("-memory reads u64le and decimal, which have no keys; give -format")
	}
	return nil
}

// simhashCPP as -compat stands in for the programs of seomoz/simhash-cpp:
// simhash-find-all and simhash-find-clusters. Their output has the same lines in an
// order that their hash tables give; here it is that of the numbers, for clusters, and
// none, for pairs.
const simhashCPP = "simhash-cpp"

// setCompat checks the flags as those programs do.
func (f *joinFlags) setCompat() error {
	switch {
	case f.compat != simhashCPP:
		return usagef("-compat is %q, want %s", f.compat, simhashCPP)
	case f.distance <= 0:
		return usagef("-distance must be given and above 0")
	case f.blocks <= f.distance:
		return usagef("-blocks (%d) must be above -distance (%d)", f.blocks, f.distance)
	case f.blocks > 64:
		return usagef("-blocks is %d, want 64 at most", f.blocks)
	case f.indexes.dir != "":
		return usagef("-compat %s reads decimal numbers, not an index", simhashCPP)
	}
	if f.input != "" {
		f.lists = append(f.lists, f.input)
	}
	switch len(f.lists) {
	case 0:
		f.lists = []string{"-"}
	case 1:
	default:
		return usagef("-compat %s reads one input, not %q", simhashCPP, f.lists)
	}
	f.k, f.as, f.inputs.format = f.distance, simhashCPP, string(corpus.Decimal)
	f.equal, f.star, f.keep = false, false, "first"
	return nil
}

// numbered reports that the lists have a number behind the key.
func (f *joinFlags) numbered() bool { return f.keep == "longest" || f.keep == "score" }

// join opens the output and what is compared, and writes what do finds.
func (f *joinFlags) join(ctx context.Context, w *joinWriter, do func(joinSource) error) error {
	if err := w.open(); err != nil {
		return err
	}
	source, err := f.source(ctx)
	if err == nil {
		err = errors.Join(do(source), source.close())
	}
	return w.close(err)
}
