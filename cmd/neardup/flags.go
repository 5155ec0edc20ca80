package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/wire"
)

// choiceFlag is a flag that takes one of some values, by default the first.
func (c *call) choiceFlag(name, usage string, values ...string) *string {
	value := c.flags.String(name, values[0], usage)
	c.check(func() error {
		if slices.Contains(values, *value) {
			return nil
		}
		named := slices.DeleteFunc(values, func(v string) bool { return v == "" })
		return usagef("-%s is %q, want %s", name, *value, orList(named))
	})
	return value
}

func orList[S ~string](names []S) string {
	list := string(names[0])
	for n, name := range names[1:] {
		separator := ", "
		if n == len(names)-2 {
			separator = " or "
		}
		list += separator + string(name)
	}
	return list
}

// intFlag is a flag that takes a number from low to high.
func (c *call) intFlag(name string, value, low, high int, usage string) *int {
	c.flags.IntVar(&value, name, value, usage)
	c.check(func() error {
		switch {
		case !c.given(name) || low <= value && value <= high:
			return nil
		case high == math.MaxInt:
			return usagef("-%s is %d, want %d or more", name, value, low)
		}
		return usagef("-%s is %d, want %d to %d", name, value, low, high)
	})
	return &value
}

// listFlag is a flag that may be given several times.
func (c *call) listFlag(list *[]string, name, usage string) {
	c.flags.Func(name, usage, func(value string) error {
		if value == "" {
			return errors.New("the name is empty")
		}
		*list = append(*list, value)
		return nil
	})
}

// distanceFlag is -k where it must be one that an index can be made with.
func (c *call) distanceFlag(k int, usage string) *int {
	return c.intFlag("k", k, 0, plan.MaxDistance, usage)
}

// size is the value of a flag for an amount of memory or data, in bytes.
type size struct{ n *uint64 }

func (s size) bytes() int64 { return int64(*s.n) }

// maxSize is the largest value of a flag for an amount of memory or data: 1 TiB.
const maxSize = 1 << 40

// sizeFlag defines a flag for an amount of memory or data of at least least bytes. Its value needs
// a unit, because some programs read a bare number as bytes and others read it as megabytes. Only 0
// has no unit.
func (c *call) sizeFlag(name string, value, least uint64, usage string) size {
	s := sizeValue{n: &value, least: least}
	c.flags.Var(&s, name, usage)
	return size{s.n}
}

// sizeValue is the flag.Value of a size.
type sizeValue struct {
	n     *uint64
	least uint64
}

func (s *sizeValue) String() string {
	if s.n == nil || *s.n == 0 { // package flag asks the zero value
		return "0"
	}
	return strings.ReplaceAll(humanize.IBytes(*s.n), " ", "")
}

func (s *sizeValue) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	switch bare := strings.Trim(text, "0123456789.") == ""; {
	case err != nil || bare && n != 0:
		return errors.New("want a size with a unit, such as 64MiB")
	case n < s.least || n > maxSize:
		least := sizeValue{n: &s.least}
		return fmt.Errorf("want a size from %v to 1TiB", &least)
	}
	*s.n = n
	return nil
}

// durationFlag defines a flag for a duration, which may be given in days.
func (c *call) durationFlag(d *time.Duration, name, usage string) {
	c.flags.Func(name, usage, func(text string) (err error) {
		*d, err = parseDuration(text)
		return err
	})
}

// days is a number of days that a duration begins with.
var days = regexp.MustCompile(`^([0-9]+)d`)

// parseDuration parses a duration as time.ParseDuration does. It may begin with a number of days:
// 30d, 1d12h.
func parseDuration(text string) (time.Duration, error) {
	total, rest := time.Duration(0), text
	if found := days.FindStringSubmatch(text); found != nil {
		n, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil || n > int64(math.MaxInt64/(24*time.Hour)) {
			return 0, fmt.Errorf("%s is too long", text)
		}
		total, rest = time.Duration(n)*24*time.Hour, text[len(found[0]):]
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || total+d < 0 {
			return 0, errors.New("want a duration such as 30d or 12h")
		}
		total += d
	}
	if text == "" {
		return 0, errors.New("want a duration such as 30d or 12h")
	}
	return total, nil
}

// inputFlags say what to read and how to make fingerprints of it.
type inputFlags struct {
	corpus.Options
	call        *call
	maxDocument size

	keyPrefix           string
	noKeys              bool
	scope, text, method *string
}

func (c *call) inputFlags() *inputFlags {
	f := &inputFlags{call: c, maxDocument: c.documentSizeFlag()}
	c.flags.Func("format", "`format` of all inputs: warc, wet, jsonl, json, html, text, fingerprints, decimal or u64le (default by content and name)", func(name string) (err error) {
		f.Format, err = corpus.ParseFormat(name)
		return err
	})
	c.flags.StringVar(&f.Fields.Key, "key-field", "", "JSON `field` of the key, where a dot leads into an object (default url, id, key, or that of a known crawler)")
	c.flags.StringVar(&f.Fields.Content, "content-field", "", "JSON `field` of the content (default html, main, text, content, or that of a known crawler)")
	c.flags.StringVar(&f.Fields.Scope, "scope-field", "", "JSON `field` of the scope (default scope)")
	c.flags.StringVar(&f.Fields.Fingerprint, "fingerprint-field", "", "JSON `field` of a ready fingerprint (default fingerprint, in lists also hash.body_simhash)")
	c.flags.BoolVar(&c.allowEmpty, "allow-empty", false, "inputs that hold not one document are no error")
	return f
}

// documentSizeFlag defines the flag for the size of the largest document.
func (c *call) documentSizeFlag() size {
	return c.sizeFlag("document-size-limit", corpus.DefaultMaxDocument, 1<<20, "skip documents larger than this `size`")
}

// keyFlags defines the flags that change the keys of documents.
func (f *inputFlags) keyFlags() *inputFlags {
	c := f.call
	c.flags.StringVar(&f.keyPrefix, "key-prefix", "", "put this `text` before each key, so that equal keys of several data sets differ")
	c.flags.BoolVar(&f.noKeys, "no-keys", false, "store documents without their keys: no document replaces an earlier one")
	c.check(func() error {
		if f.noKeys && (f.keyPrefix != "" || f.Fields.Key != "") {
			return usagef("-no-keys excludes -key-prefix and -key-field")
		}
		return nil
	})
	return f
}

func (f *inputFlags) scopeFlag() *inputFlags {
	f.scope = f.call.choiceFlag("scope", "compare only documents of one `scope`: none (all are compared), host (of the key) or field (of JSON lines)", "none", "host", "field")
	f.call.check(func() error {
		if f.call.given("scope-field") && *f.scope != "field" {
			return usagef("-scope-field is of use with -scope field only")
		}
		return nil
	})
	return f
}

func (f *inputFlags) analyzerFlags() *inputFlags {
	c := f.call
	f.text = c.choiceFlag("text", "`text` of an HTML page: visible, or main (without navigation, headers and footers)", "visible", "main")
	f.method = c.choiceFlag("method", "`method` of the fingerprints: minhash, or simhash of words weighted by their frequency", "minhash", "simhash")
	return f
}

func (f *inputFlags) readerOf(inputs ...string) (*corpus.Reader, error) {
	if len(inputs) == 0 {
		return nil, usagef("no input; name files or folders, or - for standard input")
	}
	o := f.Options
	o.MaxDocument, o.Stdin = f.maxDocument.bytes(), f.call.in
	if file := f.call.outFile(); file != nil {
		o.Output, _ = file.Stat()
	}
	return corpus.New(inputs, o)
}

// analyzer makes fingerprints of documents.
type analyzer struct {
	*page.Signer
	asked string // its name where flags ask for it; else it is that of the index, if it has one
	bare  bool   // the inputs bring fingerprints
	scope string // as -scope has it

	keyPrefix string
	noKeys    bool
}

// analyzer is the one that the flags ask for; other seeds than 0 make other hashes.
func (f *inputFlags) analyzer(seed uint64) (*analyzer, error) {
	text := map[string]page.TextMode{"visible": page.Visible, "main": page.Main}[*f.text]
	signer, err := page.NewSigner(text, fingerprint.Options{
		Method: map[string]fingerprint.Method{"minhash": fingerprint.MethodMinHash, "simhash": fingerprint.MethodSimhash}[*f.method],
		Seed:   seed,
	})
	if err != nil {
		return nil, usagef("%v", err)
	}
	a := &analyzer{Signer: signer, keyPrefix: f.keyPrefix, noKeys: f.noKeys, bare: slices.Contains([]corpus.Format{corpus.Fingerprints, corpus.Decimal, corpus.U64LE}, f.Format)}
	if f.scope != nil {
		a.scope = *f.scope
	}
	if !a.bare && slices.ContainsFunc([]string{"text", "method"}, f.call.given) {
		a.asked = signer.Name()
	}
	return a, nil
}

// document makes a document of a record, and takes its content off it, so that the memory is free
// once the text is found. The reason, if there is one, is why it is none.
func (a *analyzer) document(key string, r *corpus.Record) (d index.Document, reason string, err error) {
	p := neardup.Page{URL: key, ContentType: r.ContentType, Body: r.Content, Scope: a.scopeOf(r), Kind: r.Kind}
	r.Content = nil
	switch {
	case r.Kind == corpus.Fingerprint && r.Fingerprint == 0 && a.Signer != nil:
		return d, wire.NoText, nil // among fingerprints of texts
	case r.Kind == corpus.Fingerprint:
		d = index.Document{Key: key, Fingerprint: r.Fingerprint, Scope: p.Scope}
		if match.Validate(&d) != nil {
			reason = fmt.Sprintf("too large: key of %d bytes, scope of %d", len(d.Key), len(d.Scope))
		}
		return d, reason, nil
	case a.Signer == nil:
		return d, "", fmt.Errorf("%s: %w: its fingerprints are of no analyzer that this version knows, so documents cannot be compared with them: build a new index from the documents", key, index.ErrMismatch)
	}
	d, reason = check.Analyze(a.Signer, p)
	return d, reason, nil
}

// key returns the key under which the document of a record is stored; "" if it is stored without
// one. The position of a record is never a key: it may be the position of another document in the
// next run.
func (a *analyzer) key(r *corpus.Record) string {
	if a.noKeys || r.Key == "" {
		return ""
	}
	return a.keyPrefix + r.Key
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
	call         *call
	dir          string
	cache        size
	k            *int
	design       string
	expect       float64
	mustExist    bool
	noSync       bool
	noCompaction bool
	expiry       index.Expiry
	expired      atomic.Int64 // documents that the background deleted
}

func (c *call) indexFlags() *indexFlags {
	f := &indexFlags{call: c, cache: c.sizeFlag("cache", 0, 0, "`size` of the cache of the index, such as 2GiB (default automatic, at most half of the machine's memory)")}
	c.flags.StringVar(&f.dir, "index", "", "`folder` of the index")
	return f
}

// requiredIndexFlags are indexFlags of a subcommand that does nothing without an index.
func (c *call) requiredIndexFlags() *indexFlags {
	f := c.indexFlags()
	c.check(f.required)
	return f
}

func (f *indexFlags) required() error {
	if f.dir == "" {
		return usagef("-index is missing: it names the folder of the index")
	}
	return nil
}

const (
	defaultK = check.DefaultMaxDistance
	// importK is k for ready fingerprints, which come without a second one: the paper's.
	importK = 3
	// maxDocuments is the most that a plan is made for.
	maxDocuments = 1e15
)

// makingFlags adds the flags of a subcommand that may make the index, with k unless it
// is told otherwise.
func (f *indexFlags) makingFlags(k int) *indexFlags {
	flags := f.call.flags
	f.k = f.call.distanceFlag(k, "largest Hamming `distance` of near-duplicates; fixed when the index is made")
	flags.StringVar(&f.design, "design", "", "`design` of the tables, 2, 3, 4, 10, 16, 20 or blocks-M, fixed when the index is made (default by -expected-documents)")
	flags.Float64Var(&f.expect, "expected-documents", 1e6, "`number` of documents to expect, which chooses the design")
	if f.call.command.name != "import" {
		flags.BoolVar(&f.noCompaction, "no-compaction", false, "do not compact the index while it is written to")
		f.call.durationFlag(&f.expiry.MaxAge, "retain-for", "delete documents that were last seen longer ago than this `duration`, such as 30d or 12h (default never)")
		flags.Uint64Var(&f.expiry.MaxDocuments, "retain-documents", 0, "delete documents, the least recently seen first, if the index has more than this `number` (default never)")
	}
	flags.BoolVar(&f.mustExist, "must-exist", false, "fail if there is no index, instead of creating one")
	flags.BoolVar(&f.noSync, "nosync", false, "do not wait for the disk: a crash may lose the last documents printed")
	f.call.check(func() error {
		if !(f.expect >= 0) || f.expect > maxDocuments {
			return usagef("-expected-documents is %g, want 0 to %g", f.expect, maxDocuments)
		}
		return nil
	})
	return f
}

// expire deletes the documents that exceed the retention limits at the end of a run, which may have
// been too short for the background.
func (f *indexFlags) expire(ctx context.Context, x *neardup.Index) error {
	n, err := x.Expire(ctx, f.expiry)
	f.expired.Add(int64(n))
	return err
}

// close closes the index and reports how many documents the retention limits have deleted since it was
// opened.
func (f *indexFlags) close(x *neardup.Index) error {
	err := x.Close() // ends the background, which deletes documents too
	if n := f.expired.Load(); n > 0 {
		f.call.logf("%d documents were deleted from the index by the retention limits%s", n, f.retention())
	}
	return err
}

// retention lists the retention limits that were given.
func (f *indexFlags) retention() string {
	var limits []string
	if f.expiry.MaxAge > 0 {
		limits = append(limits, fmt.Sprintf("-retain-for %v", f.expiry.MaxAge))
	}
	if f.expiry.MaxDocuments > 0 {
		limits = append(limits, fmt.Sprintf("-retain-documents %d", f.expiry.MaxDocuments))
	}
	return " (" + strings.Join(limits, ", ") + ")"
}

// optionsFor are options for documents of an analyzer: k is importK for bare fingerprints, unless it is given.
func (f *indexFlags) optionsFor(a *analyzer) (*neardup.Options, error) {
	if a.bare && !f.call.given("k") {
		*f.k = importK // without a second fingerprint to tell documents apart, 6 is too many
	}
	return f.options(a.asked, a.bare)
}

// options are those of an index that is opened, or made, then with *k.
func (f *indexFlags) options(analyzer string, bare bool) (o *neardup.Options, err error) {
	o = &neardup.Options{Bare: bare, Index: index.Options{MustExist: f.mustExist, Analyzer: analyzer, CacheBytes: f.cache.bytes(), ExpectedDocuments: int64(f.expect)}}
	if f.call.given("k") {
		o.Index.MaxDistance = distanceOption(*f.k)
	}
	o.Compaction.Off, o.Compaction.Expiry = f.noCompaction, f.expiry
	o.Compaction.Expired = func(documents int, _ error) { f.expired.Add(int64(documents)) } // expire returns what fails again
	if f.noSync {
		o.Index.Durability = index.NoSync
	}
	if f.design == "" {
		return o, nil
	}
	k := *f.k
	if !f.call.given("k") && f.dir != "" {
		f.read(func(x *index.Index) error { // if there is one; what is wrong with it, Open says
			k = x.Plan().MaxDistance
			return nil
		})
	}
	o.Index.Plan, err = planNamed("design", f.design, k)
	return o, err
}

// open opens the index, or creates it and says so: a misspelt name creates an empty index.
func (f *indexFlags) open(o *neardup.Options) (*neardup.Index, error) {
	absent := f.absent()
	x, err := neardup.Open(f.dir, o)
	if err == nil && absent {
		f.call.logf("created index %s", f.dir)
	}
	return x, err
}

// absent reports whether the directory of the index does not exist or is empty.
func (f *indexFlags) absent() bool {
	files, err := os.ReadDir(f.dir)
	return len(files) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist))
}

// planNamed is the plan of a design that a flag names.
func planNamed(flag, design string, k int) (*plan.Plan, error) {
	p, err := plan.Named(design, k)
	if err != nil {
		return nil, usagef("-%s: %v", flag, err)
	}
	return p, nil
}

// distanceOption is k as the options of an index have it, where 0 is the default.
func distanceOption(k int) int {
	if k == 0 {
		return index.Exact
	}
	return k
}

// read opens the index for reading, and closes it once do has returned.
func (f *indexFlags) read(do func(x *index.Index) error) error {
	x, err := index.Open(f.dir, &index.Options{ReadOnly: true, CacheBytes: f.cache.bytes()})
	if err != nil {
		return err
	}
	return errors.Join(do(x), x.Close())
}

// exist reports whether there is an index, whatever its state.
func (f *indexFlags) exist() bool {
	err := f.read(func(*index.Index) error { return nil })
	return !errors.Is(err, fs.ErrNotExist)
}

// openToCompare opens an index for reading, and for documents to be compared with; bare: for fingerprints too.
func (f *indexFlags) openToCompare(dir, analyzer string, bare bool, m *matchFlags) (*neardup.Index, error) {
	o := &neardup.Options{Bare: bare, Index: index.Options{ReadOnly: true, CacheBytes: f.cache.bytes(), Analyzer: analyzer}}
	m.set(&o.Index)
	return neardup.Open(dir, o)
}

// matchFlags are what makes a match of two documents, besides k.
type matchFlags struct {
	shingle int
	ratio   float64
}

func (c *call) matchFlags() *matchFlags {
	f := new(matchFlags)
	c.flags.IntVar(&f.shingle, "max-shingle-distance", 0, "maximum `sum` of the distances of the two fingerprints of near-duplicates (0: as the analyzer needs, 13 and more for short texts, or 16 with simhash; -1: only the first are compared)")
	c.flags.Float64Var(&f.ratio, "max-length-ratio", match.MaxLengthRatio, "how many `times` as long as the other one of two near-duplicates may be (-1: lengths are not compared)")
	c.check(func() error {
		switch {
		case f.shingle < -1 || f.shingle > 128:
			return usagef("-max-shingle-distance is %d, want 1 to 128, 0 for the default, or -1 for any", f.shingle)
		case f.ratio != -1 && !(f.ratio >= 1):
			return usagef("-max-length-ratio is %v, want 1 or more, or -1 for any", f.ratio)
		}
		return nil
	})
	return f
}

// set has an index follow the rule.
func (f *matchFlags) set(o *index.Options) {
	o.MaxShingleDistance, o.MaxLengthRatio = f.shingle, f.ratio
}
