package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"sync"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
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
	f := c.joinFlags("json", "csv")
	if err := f.parse(); err != nil {
		return err
	}
	if f.memoryGiven() && f.equal {
		return usagef("-memory lists pairs of distinct fingerprints, not with -equal")
	}
	var writers []*joinWriter
	err := f.join(ctx, "first,second,distance", func(s joinSource, of []*joinWriter) error {
		writers = of
		return s.pairs(ctx, len(writers), func(worker int, a, b *member, distance int) error {
			w := writers[worker]
			switch {
			case f.equal:
				return eachPair(a, b, distance, w.pair)
			case a.ID == b.ID && distance == 0 && a.Documents > 1:
				w.equal += uint64(a.Documents) * uint64(a.Documents-1) / 2
				return nil
			}
			return w.pair(a, b, distance)
		})
	})
	if err != nil {
		return err
	}
	n, equal := 0, uint64(0)
	for _, w := range writers {
		n, equal = n+w.n, equal+w.equal
	}
	switch {
	case f.equal:
		c.logf("%d pairs of documents", n)
	case equal > 0:
		c.logf("%d pairs of distinct fingerprints; %d pairs of documents with equal ones are not listed (-equal lists them)", n, equal)
	default:
		c.logf("%d pairs of distinct fingerprints", n)
	}
	return nil
}

// eachPair calls found with the pairs of documents that a pair of members stands for.
func eachPair(a, b *member, distance int, found func(a, b *member, distance int) error) error {
	for first, err := range a.all() {
		if err != nil {
			return err
		}
		for second, err := range b.all() {
			if err != nil {
				return err
			}
			if a.ID == b.ID && second.ID <= first.ID {
				continue
			}
			if err := found(&first, &second, distance); err != nil {
				return err
			}
		}
	}
	return nil
}

var clustersCommand = command{
	name:    "clusters",
	args:    "[-k 3] [-star] [-keep first] [-output-format json|csv|removals|removal-ids] -index DIR | FINGERPRINTS...",
	summary: "print the clusters of near-duplicates in an index or in lists of fingerprints",
	more: `A cluster is what a chain of pairs connects: its ends may have little in common, and one
page that resembles two groups makes one cluster of both. With -star, every member is
within -k of the one that is kept, so it is safe to drop it for that one; a chain may then
give several clusters. With -output-format removals it prints what to delete so that one
document of each cluster remains, for "neardup delete -index DIR -": keys, and numbers of
documents without one, which -output-format removal-ids prints of all, for
"neardup delete -index DIR -ids -".
With -compat simhash-cpp it takes the flags of simhash-find-clusters (-b -d -i -o) and
writes what that writes.`,
	run: runClusters,
}

func runClusters(ctx context.Context, c *call) error {
	f := c.joinFlags("json", "csv", "removals", "removal-ids")
	f.keep = c.choiceFlag("keep", "which document of a cluster is `kept`: first (added or listed), shortest-key, longest or score;\nthe last two take the larger number behind the key: lines of fingerprint TAB key TAB number",
		"first", "shortest-key", "longest", "score")
	c.flags.BoolVar(&f.star, "star", false, "every member within -k of the one that is kept, instead of chains")
	if err := f.parse(); err != nil {
		return err
	}
	switch {
	case f.numbered() && f.indexes.dir != "":
		return usagef("-keep %s needs lists of fingerprint TAB key TAB number: an index has no such number", *f.keep)
	case f.memoryGiven() && *f.keep != "first":
		return usagef("-memory keeps the first document of a cluster, not -keep %s: its lists have fingerprints only", *f.keep)
	}
	var w *joinWriter
	documents := 0
	err := f.join(ctx, "cluster,kept,id,key,fingerprint,documents", func(s joinSource, of []*joinWriter) error {
		w = of[0]
		return s.clusters(ctx, func(found *cluster) error {
			documents += found.documents
			return w.cluster(found)
		})
	})
	if err != nil {
		return err
	}
	c.logf("%d clusters of %d documents", w.n, documents)
	if w.unnamed > 0 {
		c.logf("%d documents without a key were listed by number; \"neardup delete -ids\" takes numbers, and -output-format removal-ids prints nothing else", w.unnamed)
	}
	return nil
}

// member is documents that have one fingerprint, as pairs and clusters are told of. The
// document to name is the one to be kept; of lists, its ID is the number of the line.
type member struct {
	index.Document
	Documents int
	list      iter.Seq2[index.Document, error] // each of them; not looked at where there is one
}

// all yields each document on its own.
func (m *member) all() iter.Seq2[member, error] {
	return func(yield func(member, error) bool) {
		if m.Documents <= 1 {
			yield(*m, nil)
			return
		}
		for d, err := range m.list {
			if !yield(member{Document: d, Documents: 1}, err) {
				return
			}
		}
	}
}

// cluster is documents near each other.
type cluster struct {
	documents int
	members   iter.Seq2[member, error] // the one to be kept first
}

// each yields the members; or all of their documents, the one to be kept first.
func (c *cluster) each(documents bool) iter.Seq2[member, error] {
	if !documents {
		return c.members
	}
	return func(yield func(member, error) bool) {
		kept := uint64(0)
		for m, err := range c.members {
			if err == nil && kept == 0 {
				kept = m.ID
				if !yield(member{Document: m.Document, Documents: 1}, nil) {
					return
				}
			}
			if err != nil {
				yield(m, err)
				return
			}
			for d, err := range m.all() {
				if err == nil && d.ID == kept {
					continue
				}
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
}

// joinSource is where pairs and clusters come from: an index, or lists of fingerprints.
type joinSource interface {
	// pairs calls found with each pair of members, and with each member of several
	// documents as a pair with itself, unless there is no telling. It may do so from as many
	// goroutines as there are workers, each with its number.
	pairs(ctx context.Context, workers int, found func(worker int, a, b *member, distance int) error) error
	clusters(ctx context.Context, found func(*cluster) error) error
	close() error
}

// join has do write what it finds in what the flags name; CSV begins with the header.
func (f *joinFlags) join(ctx context.Context, header string, do func(joinSource, []*joinWriter) error) error {
	f.call.in = cancelable(ctx, f.call.in)
	return f.call.writeTo(f.output, func(out *bufio.Writer) error {
		if *f.form == "csv" {
			fmt.Fprintln(out, header)
		}
		source, err := f.source(ctx)
		if err != nil {
			return err
		}
		writers := newJoinWriters(*f.form, out, runtime.GOMAXPROCS(0))
		err = do(source, writers)
		for _, w := range writers {
			err = cmp.Or(err, w.flush())
		}
		return errors.Join(err, source.close())
	})
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
	keep   *string // of clusters
	match  *matchFlags
	memory mebibytes

	compat           *string
	blocks, distance int
	input            string
}

// simhashCPP as -compat stands in for the programs of seomoz/simhash-cpp:
// simhash-find-all and simhash-find-clusters. Their output has the same lines in an
// order that their hash tables give; here it is that of the numbers, for clusters, and
// none, for pairs.
const simhashCPP = "simhash-cpp"

func (c *call) joinFlags(forms ...string) *joinFlags {
	keep := "first"
	f := &joinFlags{call: c, inputs: c.inputFlags(), indexes: c.indexFlags(), match: c.matchFlags(), keep: &keep}
	flags := c.flags
	flags.Lookup("format").Usage = "`format` of all inputs: fingerprints (lines of a fingerprint, or fingerprint TAB key), decimal (lines of a decimal number; what stands behind it does not count), u64le or jsonl (default by name, u64le, jsonl or else fingerprints)"
	f.k = c.intFlag("k", 0, 0, 64, "largest Hamming `distance`, 0 to 64 (default that of the index, or 3)")
	f.form = c.choiceFlag("output-format", "`form` of the output: json (lines), csv; for clusters also removals and removal-ids", forms...)
	flags.BoolVar(&f.equal, "equal", false, "list pairs of equal fingerprints too (clusters list every document, with and without)")
	f.memory = mebibytes{c.intFlag("memory", 0, 0, 1<<20, "for lists larger than memory: sort them in files in the folder for temporary ones (TMPDIR), with so many `MiB`, 16 or more;\npairs then have fingerprints only")}
	f.compat = c.choiceFlag("compat", "be the `program` simhash-cpp: unsigned decimal lines in, JSON arrays out", "", simhashCPP)
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
	if *f.compat == simhashCPP {
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
		if f.memoryGiven() {
			return usagef("-memory goes with lists of fingerprints")
		}
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
	*f.k, *f.form, *f.keep, f.inputs.format = f.distance, simhashCPP, "first", corpus.Decimal
	f.equal, f.star = false, false
	return nil
}

func (f *joinFlags) memoryGiven() bool { return *f.memory.n > 0 }

// numbered reports that the lists have a number behind the key.
func (f *joinFlags) numbered() bool { return *f.keep == "longest" || *f.keep == "score" }

// memberLine is a member of a pair or a cluster in JSON, without the ID, key and number that it
// does not have.
type memberLine struct {
	ID          uint64                  `json:"id,omitempty"`
	Key         string                  `json:"key,omitempty"`
	KeyBytes    []byte                  `json:"keyBytes,omitempty"`
	Fingerprint fingerprint.Fingerprint `json:"fingerprint"`
	Documents   int                     `json:"documents,omitempty"`
}

// pairLine is printed for each pair.
type pairLine struct {
	First    memberLine `json:"first"`
	Second   memberLine `json:"second"`
	Distance int        `json:"distance"`
}

// clusterLine is printed for each cluster, member by member: no more than one is in memory.
type clusterLine struct {
	Documents int          `json:"documents"`
	Kept      memberLine   `json:"kept"`
	Others    []memberLine `json:"others"`
}

// joinWriter writes pairs and clusters, in every form, for one goroutine of several.
type joinWriter struct {
	form    string
	text    bytes.Buffer // whole lines that are not in out yet, and the one under way
	keys    *lines       // their JSON
	csv     *csv.Writer  // into text
	n       int          // pairs or clusters
	equal   uint64       // pairs of documents with one fingerprint that were not written
	unnamed int          // removals of documents without a key

	mu  *sync.Mutex
	out *bufio.Writer // of all writers; its errors stick
}

func newJoinWriters(form string, out *bufio.Writer, workers int) []*joinWriter {
	writers, mu := make([]*joinWriter, workers), new(sync.Mutex)
	for i := range writers {
		w := &joinWriter{form: form, keys: newLines(nil), mu: mu, out: out}
		w.csv = csv.NewWriter(&w.text)
		writers[i] = w
	}
	return writers
}

// lineEnded hands on lines where they are many.
func (w *joinWriter) lineEnded() error {
	if w.text.Len() < 64<<10 {
		return nil
	}
	return w.flush()
}

func (w *joinWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.text.WriteTo(w.out)
	return err
}

func (w *joinWriter) csvLine(fields ...string) {
	w.csv.Write(fields)
	w.csv.Flush()
}

func (w *joinWriter) pair(a, b *member, distance int) error {
	w.n++
	line := w.text.AvailableBuffer()
	switch w.form {
	case "json":
		line = w.appendMember(append(line, `{"first":`...), a)
		line = w.appendMember(append(line, `,"second":`...), b)
		line = strconv.AppendInt(append(line, `,"distance":`...), int64(distance), 10)
		line = append(line, "}\n"...)
	case "csv":
		w.csvLine(a.name(), b.name(), strconv.Itoa(distance))
	default:
		line = strconv.AppendUint(append(line, '['), uint64(min(a.Fingerprint, b.Fingerprint)), 10)
		line = strconv.AppendUint(append(line, ", "...), uint64(max(a.Fingerprint, b.Fingerprint)), 10)
		line = append(line, "]\n"...)
	}
	w.text.Write(line)
	return w.lineEnded()
}

// cluster writes every document of a cluster, the one to be kept first; simhash-cpp knows
// numbers, each once.
func (w *joinWriter) cluster(c *cluster) error {
	w.n++
	n, first := 0, fingerprint.Fingerprint(0)
	for m, err := range c.each(w.form != simhashCPP) {
		if err != nil {
			return err
		}
		switch w.form {
		case "json":
			w.jsonMember(c, n, &m)
		case "csv":
			w.csvLine(strconv.Itoa(w.n), strconv.FormatBool(n == 0), strconv.FormatUint(m.ID, 10),
				corpus.QuoteKey(m.Key), m.Fingerprint.String(), strconv.Itoa(m.Documents))
		case simhashCPP:
			switch n {
			case 0: // it may be the only one, which is no cluster there
				first = m.Fingerprint
			case 1:
				fmt.Fprintf(&w.text, "[%d, %d", first, m.Fingerprint)
			default:
				fmt.Fprintf(&w.text, ", %d", m.Fingerprint)
			}
		default:
			if n > 0 {
				w.removal(&m)
			}
		}
		n++
		if err := w.lineEnded(); err != nil {
			return err
		}
	}
	switch {
	case w.form == "json":
		w.text.WriteString("]}\n")
	case w.form == simhashCPP && n > 1:
		w.text.WriteString("]\n")
	}
	return w.lineEnded()
}

// appendMember appends what encoding/json gives for a memberLine, which takes twice as long:
// there may be billions of pairs.
func (w *joinWriter) appendMember(line []byte, m *member) []byte {
	line = append(line, '{')
	if m.ID > 0 {
		line = append(strconv.AppendUint(append(line, `"id":`...), m.ID, 10), ',')
	}
	if m.Key != "" {
		line = append(append(append(line, `"key":`...), w.keys.encode(m.Key)...), ',')
	}
	if b := keyBytes(m.Key); b != nil {
		line = append(append(append(line, `"keyBytes":`...), w.keys.encode(b)...), ',')
	}
	line, _ = m.Fingerprint.AppendText(append(line, `"fingerprint":"`...))
	line = append(line, '"')
	if m.Documents > 0 {
		line = strconv.AppendInt(append(line, `,"documents":`...), int64(m.Documents), 10)
	}
	return append(line, '}')
}

// jsonMember writes member n as part of a clusterLine.
func (w *joinWriter) jsonMember(c *cluster, n int, m *member) {
	line := w.text.AvailableBuffer()
	switch n {
	case 0:
		line = fmt.Appendf(line, `{"documents":%d,"kept":`, c.documents)
		line = append(w.appendMember(line, m), `,"others":[`...)
	case 1:
		line = w.appendMember(line, m)
	default:
		line = w.appendMember(append(line, ','), m)
	}
	w.text.Write(line)
}

// removal writes what to delete.
func (w *joinWriter) removal(m *member) {
	if w.form == "removals" && m.Key != "" {
		fmt.Fprintln(&w.text, corpus.QuoteKey(m.Key))
		return
	}
	fmt.Fprintln(&w.text, m.ID)
	if w.form == "removals" {
		w.unnamed++
	}
}

// name is what a member is called in a list: its key, or else its fingerprint.
func (m *member) name() string {
	if m.Key != "" {
		return corpus.QuoteKey(m.Key)
	}
	return m.Fingerprint.String()
}
