package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
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
	flags.StringVar(&f.as, "as", "json", "`form` of the output: json (lines), csv; for clusters also removals and removal-ids")
	flags.BoolVar(&f.equal, "equal", false, "list every document, also those with equal fingerprints")
	flags.IntVar(&f.shingle, "shingle", 0, "largest `distance`, that of the second fingerprints added to that of the first, where both documents have a second one; below 0: any (default that of the index)")
	flags.Float64Var(&f.ratio, "length", 0, "how many `times` as long as the other one of two may be, where both lengths are known; below 0: any (default that of the index)")
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
	if f.k < 0 || f.k > 64 {
		return usagef("-k is %d, want 0 to 64", f.k)
	}
	if f.memory < 0 {
		return usagef("-memory is %d MiB, want 1 or more", f.memory)
	}
	f.lists = c.args
	if f.compat != "" {
		return f.checkCompat()
	}
	for _, name := range []string{"input", "i", "blocks", "b", "distance", "d"} {
		if c.given(name) {
			return usagef("-%s goes with -compat simhash-cpp only", name)
		}
	}
	if (f.indexes.dir == "") == (len(c.args) == 0) {
		return usagef("want -index DIR or lists of fingerprints (- is standard input), one of the two")
	}
	if f.indexes.dir == "" && f.shingle != 0 {
		return usagef("-shingle needs an index: lists have no second fingerprints")
	}
	if f.indexes.dir == "" && f.ratio != 0 {
		return usagef("-length needs an index: lists have no lengths")
	}
	return nil
}

// setKeep takes the value of -keep.
func (f *joinFlags) setKeep(keep string) error {
	switch keep {
	case "first", "shortest-key":
	case "longest", "score":
		if f.indexes.dir != "" {
			return usagef("-keep %s needs lists of fingerprint TAB key TAB number: an index has no such number", keep)
		}
	default:
		return usagef("-keep is %q, want first, shortest-key, longest or score", keep)
	}
	f.keep = keep
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

func (m *member) line() memberLine { return memberLine{m.ID, m.Key, m.Fingerprint, m.Documents} }

// name is how a member appears in a list: by its key, or else its fingerprint.
func (m *member) name() string {
	if m.Key != "" {
		return corpus.QuoteKey(m.Key)
	}
	return m.Fingerprint.String()
}

// joinSource is where pairs and clusters come from.
type joinSource interface {
	// pairs calls found with each pair of members, and with each member of several
	// documents as a pair with itself.
	pairs(ctx context.Context, found func(a, b *member, distance int) error) error
	// clusters calls found with each cluster, the member to be kept first.
	clusters(ctx context.Context, found func(members []member) error) error
	close() error
}

func (f *joinFlags) source(ctx context.Context) (joinSource, error) {
	if f.indexes.dir == "" {
		return f.readLists(ctx)
	}
	x, err := f.indexes.openReadOnly("")
	if err != nil {
		return nil, err
	}
	o := index.JoinOptions{MaxShingleDistance: f.shingle, MaxLengthRatio: f.ratio, Stars: f.star, Copies: true}
	if f.call.given("k") {
		o.MaxDistance = f.k
		if f.k == 0 {
			o.MaxDistance = index.Exact
		}
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

func (s *indexSource) clusters(ctx context.Context, found func(members []member) error) error {
	for c, err := range s.index.Clusters(ctx, s.options) {
		if err == nil {
			members := make([]member, len(c.Members))
			for i := range members {
				members[i] = memberOf(&c.Members[i])
			}
			err = found(members)
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

// joinOutput writes to standard output or to a file.
type joinOutput struct {
	buffer *bufio.Writer
	lines  *lines
	table  *csv.Writer
	file   *lateFile // nil for standard output
}

func (f *joinFlags) open() (*joinOutput, error) {
	o := &joinOutput{}
	var w io.Writer = f.call.out
	if f.output != "-" && f.output != "" {
		file, err := openLate(f.output)
		if err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
		o.file, w = file, file
	}
	o.buffer = bufio.NewWriterSize(w, 256<<10)
	o.lines, o.table = newLines(o.buffer), csv.NewWriter(o.buffer)
	return o, nil
}

func (o *joinOutput) csv(fields ...string) error { return o.table.Write(fields) }

func (o *joinOutput) line(s string) error {
	o.buffer.WriteString(s)
	return o.buffer.WriteByte('\n')
}

// close writes the last lines, and returns what failed before as well. A file to which
// nothing was written stays as it was then.
func (o *joinOutput) close(failed error) error {
	if failed == nil || o.file == nil || o.file.written {
		o.table.Flush()
		// An error of the file is that of all of them.
		failed = cmp.Or(failed, o.lines.flush(), o.table.Error(), o.buffer.Flush())
	}
	if o.file != nil {
		failed = errors.Join(failed, o.file.close(failed))
	}
	return failed
}
