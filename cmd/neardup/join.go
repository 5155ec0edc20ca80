package main

import (
	"context"
	"errors"
	"iter"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

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

// member is documents that have one fingerprint, as pairs and clusters are told of.
type member struct {
	ID          uint64 // of the document to name: of the index, or the number of the line
	Key         string
	Fingerprint fingerprint.Fingerprint
	Documents   int

	list iter.Seq2[member, error] // nil for one document
}

// all yields each document on its own.
func (m *member) all() iter.Seq2[member, error] {
	if m.Documents == 1 {
		return func(yield func(member, error) bool) { yield(*m, nil) }
	}
	return m.list
}

// cluster is documents near each other.
type cluster struct {
	documents int
	distinct  int                      // fingerprints
	members   iter.Seq2[member, error] // the one to be kept first; may be called again
}

// kept is the first member.
func (c *cluster) kept() (member, error) {
	for m, err := range c.members {
		return m, err
	}
	return member{}, nil
}

// each yields the members, or each of their documents on its own.
func (c *cluster) each(documents bool) iter.Seq2[member, error] {
	if !documents {
		return c.members
	}
	return func(yield func(member, error) bool) {
		for m, err := range c.members {
			if err != nil {
				yield(m, err)
				return
			}
			for d, err := range m.all() {
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
}

// joinSource is where pairs and clusters come from.
type joinSource interface {
	// pairs calls found with each pair of members, and with each member of several
	// documents as a pair with itself, unless there is no telling.
	pairs(ctx context.Context, found func(a, b *member, distance int) error) error
	clusters(ctx context.Context, found func(*cluster) error) error
	close() error
}

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

func (f *joinFlags) source(ctx context.Context) (joinSource, error) {
	switch {
	case f.memory > 0:
		return f.openExternal(), nil
	case f.indexes.dir == "":
		return f.readLists(ctx)
	}
	x, err := f.indexes.openReadOnly("")
	if err != nil {
		return nil, err
	}
	o := index.JoinOptions{MaxShingleDistance: f.shingle, MaxLengthRatio: f.ratio, Stars: f.star, Copies: true}
	if f.call.given("k") {
		o.MaxDistance = distanceOption(f.k)
	}
	if f.keep == "shortest-key" {
		o.Prefer = index.ShortestKey
	}
	return &indexSource{x, o}, nil
}

// indexSource is all documents of an index.
type indexSource struct {
	index   *index.Index
	options index.JoinOptions
}

func (s *indexSource) close() error { return s.index.Close() }

func (s *indexSource) pairs(ctx context.Context, found func(a, b *member, distance int) error) error {
	for p, err := range s.index.Pairs(ctx, s.options) {
		if err == nil {
			a, b := memberOf(&p.First), memberOf(&p.Second)
			err = found(&a, &b, p.Distance)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *indexSource) clusters(ctx context.Context, found func(*cluster) error) error {
	for c, err := range s.index.Clusters(ctx, s.options) {
		if err == nil {
			members := make([]member, len(c.Members))
			for i := range members {
				members[i] = memberOf(&c.Members[i])
			}
			err = found(clusterOf(members))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func memberOf(g *index.Group) member {
	m := documentMember(&g.Document)
	m.Documents = g.Documents
	m.list = func(yield func(member, error) bool) {
		for d, err := range g.All() {
			if !yield(documentMember(&d), err) {
				return
			}
		}
	}
	return m
}

func documentMember(d *index.Document) member {
	return member{ID: d.ID, Key: d.Key, Fingerprint: d.Fingerprint, Documents: 1}
}

// clusterOf is a cluster of members that are in memory.
func clusterOf(members []member) *cluster {
	c := &cluster{distinct: len(members), members: func(yield func(member, error) bool) {
		for _, m := range members {
			if !yield(m, nil) {
				return
			}
		}
	}}
	for i := range members {
		c.documents += members[i].Documents
	}
	return c
}
