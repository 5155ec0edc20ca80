package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
)

// inputFlags say what to read and how to make fingerprints of it.
type inputFlags struct {
	call        *call
	format      string
	maxDocument int64
	fields      corpus.Fields
	scope       string
	text        string
	window      int
	weight      string
	cap         int
	shortWords  int
}

func (c *call) inputFlags() *inputFlags {
	f := &inputFlags{call: c}
	c.flags.StringVar(&f.format, "format", "", "`format` of all inputs: warc, wet, jsonl, html, text, fingerprints, decimal or u64le (default: found by content and name)")
	c.flags.Int64Var(&f.maxDocument, "max-document", 16, "largest document in `MiB`; larger ones are skipped")
	c.flags.StringVar(&f.fields.Key, "key-field", "", "JSON `field` of the key (default url, id or key)")
	c.flags.StringVar(&f.fields.Content, "content-field", "", "JSON `field` of the content (default html, main, text or content)")
	c.flags.StringVar(&f.fields.Scope, "scope-field", "", "JSON `field` of the scope (default scope)")
	c.flags.StringVar(&f.fields.Fingerprint, "fingerprint-field", "", "JSON `field` of a ready fingerprint (default fingerprint)")
	return f
}

func (f *inputFlags) scopeFlag() *inputFlags {
	f.call.flags.StringVar(&f.scope, "scope", "none", "compare only documents of one `scope`: none, host (of the key) or field (of JSON lines)")
	return f
}

func (f *inputFlags) analyzerFlags() *inputFlags {
	f.call.flags.StringVar(&f.text, "text", "visible", "`text` of an HTML page: visible, or main (without navigation and the like)")
	f.call.flags.IntVar(&f.window, "window", 0, "`words` a feature: 1, or k for k-shingles (default 0: single words, and the first two of each new row of four)")
	f.call.flags.StringVar(&f.weight, "weight", "capped", "`weight` of a feature: capped (count, at most -cap), count, sqrt, log or once")
	f.call.flags.IntVar(&f.cap, "cap", 0, "most that a feature `counts` with -weight capped (0: 100, or 16 with -window)")
	f.call.flags.IntVar(&f.shortWords, "min-words", 0, "`words` below which only equal texts meet (0: 50, -1: never)")
	return f
}

func (f *inputFlags) reader() (*corpus.Reader, error) { return f.readerOf(f.call.args) }

// readerOf returns a reader of inputs that are not the arguments.
func (f *inputFlags) readerOf(inputs []string) (*corpus.Reader, error) {
	if len(inputs) == 0 {
		return nil, usagef("no input; - is standard input")
	}
	format, err := corpus.ParseFormat(f.format)
	if err != nil {
		return nil, usagef("%v", err)
	}
	if f.maxDocument < 1 || f.maxDocument > 1<<20 {
		return nil, usagef("-max-document is %d MiB, want 1 to %d", f.maxDocument, 1<<20)
	}
	if f.scope != "" && f.scope != "none" && f.scope != "host" && f.scope != "field" {
		return nil, usagef("-scope is %q, want none, host or field", f.scope)
	}
	return corpus.New(inputs, corpus.Options{
		Format:      format,
		MaxDocument: f.maxDocument << 20,
		Fields:      f.fields,
		Stdin:       f.call.in,
	})
}

// analyzer makes fingerprints of documents.
type analyzer struct {
	*page.Signer
	name  string // what the index records; "" where the inputs bring fingerprints
	scope string // as -scope has it
}

var weights = map[string]fingerprint.Weight{
	"capped": fingerprint.CappedCount,
	"count":  fingerprint.Count,
	"sqrt":   fingerprint.Sqrt,
	"log":    fingerprint.Log,
	"once":   fingerprint.Once,
}

// texts are the modes of -text, by name.
var texts = map[string]page.TextMode{"visible": page.Visible, "main": page.Main}

func (f *inputFlags) analyzer() (*analyzer, error) { return f.seededAnalyzer(0) }

// seededAnalyzer is the analyzer with another hash.
func (f *inputFlags) seededAnalyzer(seed uint64) (*analyzer, error) {
	weight, known := weights[f.weight]
	if !known {
		return nil, usagef("-weight is %q, want capped, count, sqrt, log or once", f.weight)
	}
	mode, known := texts[f.text]
	if !known {
		return nil, usagef("-text is %q, want visible or main", f.text)
	}
	signer, err := page.NewSigner(page.Options{Text: mode}, fingerprint.Options{
		Window: f.window, Weight: weight, Cap: f.cap, ShortWords: f.shortWords, Seed: seed,
	})
	if err != nil {
		return nil, usagef("%v", err)
	}
	a := &analyzer{Signer: signer, scope: f.scope}
	if !f.ready() {
		a.name = signer.Name()
	}
	return a, nil
}

// ready reports whether the inputs bring fingerprints.
func (f *inputFlags) ready() bool {
	format := corpus.Format(f.format)
	return format == corpus.Fingerprints || format == corpus.Decimal || format == corpus.U64LE
}

// signature returns the signature of a document, and takes its content off it, so that
// the memory is free once the text is found.
func (a *analyzer) signature(r *corpus.Record) fingerprint.Signature {
	if r.Kind == corpus.Fingerprint {
		return fingerprint.Signature{Fingerprint: r.Fingerprint, Tokens: 1}
	}
	content := r.Content
	r.Content = nil
	return a.SignKind(kindOf(r), r.ContentType, content)
}

func kindOf(r *corpus.Record) page.Kind {
	if r.Kind == corpus.HTML {
		return page.HTML
	}
	return page.PlainText
}

// scopeOf returns the scope of a record as -scope says.
func (a *analyzer) scopeOf(r *corpus.Record) string {
	switch a.scope {
	case "host":
		return corpus.Host(r.Key)
	case "field":
		return strings.Clone(r.Scope)
	}
	return ""
}

// indexFlags say which index to open and, where it is made, how.
type indexFlags struct {
	call   *call
	dir    string
	k      int
	design string
	expect float64
	cache  int64
	noSync bool
}

func (c *call) indexFlags() *indexFlags {
	f := &indexFlags{call: c}
	c.flags.StringVar(&f.dir, "index", "", "`folder` of the index")
	c.flags.Int64Var(&f.cache, "cache", 512, "memory for the index in `MiB`")
	return f
}

// makingFlags adds the flags of a subcommand that may make the index, with k unless it
// is told otherwise.
func (f *indexFlags) makingFlags(k int) *indexFlags {
	flags := f.call.flags
	flags.IntVar(&f.k, "k", k, "largest Hamming `distance` of near-duplicates; fixed when the index is made")
	flags.StringVar(&f.design, "design", "", "`design` of the tables, 2, 3, 4, 10, 16, 20 or blocks-M, fixed when the index is made (default: by -expected-documents)")
	flags.Float64Var(&f.expect, "expected-documents", 1e6, "`number` of documents to expect, which chooses the design")
	flags.BoolVar(&f.noSync, "nosync", false, "do not wait for the disk: a crash may lose the last documents printed")
	return f
}

// required says that there is no default folder.
func (f *indexFlags) required() error {
	if f.dir == "" {
		return usagef("-index is missing")
	}
	return nil
}

// options are those of an index that is opened, or made, for the documents of an analyzer. They
// settle k: that of -k; else that of the index, or of one that is made, importK where
// the design or the inputs ask for it, else the default of the flag.
func (f *indexFlags) options(a *analyzer) (*index.Options, error) {
	given := f.call.given("k")
	switch {
	case f.k < 0 || f.k > index.MaxDistanceLimit:
		return nil, usagef("-k is %d, want 0 to %d", f.k, index.MaxDistanceLimit)
	case !given && (a.name == "" || f.design != ""):
		f.k = importK // ready fingerprints have no second one to be told apart by; most designs are for it alone
	}
	o := &index.Options{Analyzer: a.name, CacheBytes: f.cache << 20, ExpectedDocuments: int64(f.expect)}
	if f.noSync {
		o.Durability = index.NoSync
	}
	if given {
		o.MaxDistance = distanceOption(f.k)
	}
	if f.design != "" {
		d, err := index.DesignNamed(f.design)
		if err == nil {
			o.Plan, err = d.Plan(f.k)
		}
		if err != nil {
			return nil, usagef("-design: %v", err)
		}
	}
	return o, nil
}

// distanceOption is k as the options of an index have it, where 0 is the default.
func distanceOption(k int) int {
	if k == 0 {
		return index.Exact
	}
	return k
}

// openReadOnly opens the index for reading.
func (f *indexFlags) openReadOnly(analyzer string) (*index.Index, error) {
	if err := f.required(); err != nil {
		return nil, err
	}
	return index.Open(f.dir, &index.Options{ReadOnly: true, CacheBytes: f.cache << 20, Analyzer: analyzer})
}

// openOrMake opens the index with the k that it has, or makes it with that of -k.
func (f *indexFlags) openOrMake(o *index.Options) (*index.Index, error) {
	if o.MaxDistance != 0 || o.Plan != nil {
		return index.Open(f.dir, o)
	}
	existing := *o
	existing.MustExist = true
	x, err := index.Open(f.dir, &existing)
	if errors.Is(err, fs.ErrNotExist) {
		o.MaxDistance = distanceOption(f.k)
		return index.Open(f.dir, o)
	}
	return x, err
}

// openOrTemporary opens the index, or makes one, or, where none is named, one that
// is gone when remove is called. remove must follow Close.
func (f *indexFlags) openOrTemporary(o *index.Options) (x *index.Index, remove func() error, err error) {
	remove = func() error { return nil }
	if f.dir == "" {
		if f.dir, err = os.MkdirTemp("", "neardup-"); err != nil {
			return nil, nil, err
		}
		f.call.logf("without -index, the index is temporary: it is gone after this run")
		remove = func() error { return os.RemoveAll(f.dir) }
		o.Durability = index.NoSync
	}
	if x, err = f.openOrMake(o); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return x, remove, nil
}

// defaultK is k where documents are texts; docs/quality.md has the figures that chose it.
const defaultK = 6

// importK is k for ready fingerprints, which come without a second one: the paper's.
const importK = 3

// matchFlags are what the match rule asks of two documents beside k.
type matchFlags struct {
	shingle int
	ratio   float64
}

func (c *call) matchFlags() *matchFlags {
	f := new(matchFlags)
	c.flags.IntVar(&f.shingle, "max-shingle-distance", index.DefaultMaxShingleDistance, "maximum `sum` of the distances of the two fingerprints of near-duplicates (-1: only the first are compared)")
	c.flags.Float64Var(&f.ratio, "max-length-ratio", index.DefaultMaxLengthRatio, "how many `times` as long as the other one of two near-duplicates may be (-1: lengths are not compared)")
	return f
}

func (f *matchFlags) check() error {
	switch {
	case f.shingle > 64+maxK:
		return usagef("-max-shingle-distance is %d, want 1 to %d, or -1 for none", f.shingle, 64+maxK)
	case f.shingle == 0:
		return usagef("-max-shingle-distance is 0, want 1 to %d, or -1 for none", 64+maxK)
	case !(f.ratio >= 1) && f.ratio != -1:
		return usagef("-max-length-ratio is %v, want 1 or more, or -1 for none", f.ratio)
	}
	return nil
}

// maxK is the largest distance of two fingerprints.
const maxK = 64

// options ask for what matches each of the documents of inputs.
func (f *matchFlags) options(inputs []*input) []index.QueryOption {
	shingles, lengths := make([]fingerprint.Fingerprint, len(inputs)), make([]int, len(inputs))
	for n, i := range inputs {
		shingles[n], lengths[n] = i.document.Shingle, i.document.Tokens
	}
	return []index.QueryOption{
		index.Shingles(shingles), index.MaxShingleDistance(f.shingle),
		index.TokenCounts(lengths), index.MaxLengthRatio(f.ratio),
	}
}

// memoryFlag is the memory that a subcommand may sort in.
type memoryFlag int64

func (c *call) memoryFlag(mib int64, usage string) *memoryFlag {
	f := new(memoryFlag)
	c.flags.Int64Var((*int64)(f), "memory", mib, usage)
	return f
}

func (f memoryFlag) check() error {
	if f < 1 {
		return usagef("-memory is %d MiB, want 1 or more", f)
	}
	return nil
}

func (f memoryFlag) bytes() int64 { return int64(f) << 20 }
