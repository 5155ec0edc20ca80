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
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/spf13/cobra"
)

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, not %q", cmd.Name(), args[0])
	}
	return nil
}

// flagValue is a pflag.Value.
type flagValue struct {
	text, kind string
	set        func(string) error
}

func (v *flagValue) String() string { return v.text }
func (v *flagValue) Type() string   { return v.kind }

func (v *flagValue) Set(text string) error {
	err := v.set(text)
	if err == nil {
		v.text = text
	}
	return err
}

// valueFlag defines a flag with a value that set parses. text is the default.
func (c *call) valueFlag(name, kind, text, usage string, set func(string) error) {
	c.flags.Var(&flagValue{text, kind, set}, name, usage)
}

// choiceFlag defines a flag whose value is one of several; the first one is the default.
func (c *call) choiceFlag(name, usage string, values ...string) *string {
	value := values[0]
	named := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
	c.valueFlag(name, "string", value, usage, func(text string) error {
		if !slices.Contains(named, text) {
			return fmt.Errorf("want %s", orList(named))
		}
		value = text
		return nil
	})
	c.cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(named, cobra.ShellCompDirectiveNoFileComp))
	return &value
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

// intFlag defines a flag with a number from low to high. text is the default; "" stands for 0, which
// the help does not show.
func (c *call) intFlag(name, text string, low, high int, usage string) *int {
	value, _ := strconv.Atoi(text)
	c.valueFlag(name, "int", text, usage, setInt(&value, low, high))
	return &value
}

// setInt returns a function that parses a number from low to high.
func setInt(value *int, low, high int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		switch {
		case (err != nil || n < low) && high == math.MaxInt:
			return fmt.Errorf("want a number of at least %d", low)
		case err != nil || n < low || n > high:
			return fmt.Errorf("want a number from %d to %d", low, high)
		}
		*value = n
		return nil
	}
}

// countFlag defines a flag with a number of documents, such as 1000000, 1e6 or 1M.
func (c *call) countFlag(name, text, usage string) *int64 {
	value := new(int64)
	set := func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			var unit string
			if n, unit, err = humanize.ParseSI(text); unit != "" {
				err = errors.New("a number has no unit")
			}
		}
		if err != nil || !(n >= 1) || n > maxDocuments {
			return errors.New("want a number from 1 to 1e15, such as 50000, 1e6 or 20M")
		}
		*value = int64(n)
		return nil
	}
	if text != "" {
		set(text)
	}
	c.valueFlag(name, "count", text, usage, set)
	return value
}

// folderFlag defines a flag with the name of a folder.
func (c *call) folderFlag(value *string, name, usage string) {
	c.flags.StringVar(value, name, "", usage)
	c.cmd.MarkFlagDirname(name)
}

// listFlag defines a flag that may be given several times.
func (c *call) listFlag(list *[]string, name, usage string) {
	c.valueFlag(name, "string", "", usage, func(value string) error {
		if value == "" {
			return errors.New("the name is empty")
		}
		*list = append(*list, value)
		return nil
	})
}

// distanceFlag defines --max-distance of an index.
func (c *call) distanceFlag(k int, usage string) *int {
	return c.intFlag("max-distance", strconv.Itoa(k), 0, plan.MaxDistance, usage)
}

// maxSize is the largest value of a flag for an amount of memory or data: 1 TiB.
const maxSize = 1 << 40

// sizeFlag defines a flag for an amount of memory or data of at least least bytes. Its value needs
// a unit, because some programs read a bare number as bytes and others read it as megabytes. Only 0
// has no unit.
func (c *call) sizeFlag(name string, value, least uint64, usage string) *int64 {
	bytes := int64(value)
	c.valueFlag(name, "size", sizeText(value), usage, func(text string) error {
		n, err := humanize.ParseBytes(text)
		switch bare := strings.Trim(text, "0123456789.") == ""; {
		case err != nil || bare && n != 0:
			return errors.New("want a size with a unit, such as 64MiB")
		case n < least || n > maxSize:
			return fmt.Errorf("want a size from %s to 1TiB", sizeText(least))
		}
		bytes = int64(n)
		return nil
	})
	return &bytes
}

// sizeText returns a size without a space.
func sizeText(n uint64) string {
	if n == 0 {
		return "0"
	}
	return strings.ReplaceAll(strings.ReplaceAll(humanize.IBytes(n), " ", ""), ".0", "")
}

// durationFlag defines a flag for a duration, which may be given in days.
func (c *call) durationFlag(d *time.Duration, name, usage string) {
	text := ""
	if *d != 0 {
		text = d.String()
	}
	c.valueFlag(name, "duration", text, usage, func(text string) (err error) {
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

// inputFlags are the flags that select the inputs and the fingerprints of their documents.
type inputFlags struct {
	corpus.Options
	call *call

	keyPrefix    string
	noKeys       bool
	scope        string  // none, host or field
	text, method *string // nil: the default
}

// inputFlags defines the flag for the format of the inputs.
func (c *call) inputFlags() *inputFlags {
	f := &inputFlags{call: c, Options: corpus.Options{MaxDocument: corpus.DefaultMaxDocument}}
	names := []string{"warc", "wet", "jsonl", "json", "html", "text", "fingerprints", "decimal", "u64le"}
	c.valueFlag("format", "string", "", "`format` of all inputs: "+orList(names)+" (default by content and name)", func(name string) (err error) {
		f.Format, err = corpus.ParseFormat(name)
		return err
	})
	c.cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// fieldFlags defines the flags for the fields of JSON documents.
func (f *inputFlags) fieldFlags() *inputFlags {
	f.keyFieldFlag()
	f.call.flags.StringVar(&f.Fields.Content, "content-field", "", "JSON `field` of the content (default html, main, text, content, or the field of a known crawler)")
	return f
}

func (f *inputFlags) keyFieldFlag() {
	f.call.flags.StringVar(&f.Fields.Key, "key-field", "", "JSON `field` of the key; a dot leads into an object (default url, id, key, or the field of a known crawler)")
}

// documentSizeFlag defines the flag for the size of the largest document.
func (c *call) documentSizeFlag() *int64 {
	return c.sizeFlag("max-document-size", corpus.DefaultMaxDocument, 1<<20, "skip documents larger than this `size`")
}

// keyFlags defines the flags that change the keys of documents.
func (f *inputFlags) keyFlags() *inputFlags {
	c := f.call
	c.flags.StringVar(&f.keyPrefix, "key-prefix", "", "put this `text` before each key, so that equal keys of several data sets differ")
	c.flags.BoolVar(&f.noKeys, "no-keys", false, "store documents without their keys: no document replaces an earlier one")
	c.cmd.MarkFlagsMutuallyExclusive("no-keys", "key-prefix")
	c.cmd.MarkFlagsMutuallyExclusive("no-keys", "key-field")
	return f
}

// scopeFlag defines the flag for the scopes of documents.
func (f *inputFlags) scopeFlag() *inputFlags {
	f.call.valueFlag("scope", "string", "none", "compare only documents of one `scope`: none (all are compared), host (of the key) or field:NAME (a field of JSON documents)", func(text string) error {
		var name string
		if f.scope, name, _ = strings.Cut(text, ":"); (f.scope == "field") != (name != "") || !slices.Contains([]string{"none", "host", "field"}, f.scope) {
			return errors.New("want none, host or field:NAME")
		}
		f.Fields.Scope = name
		return nil
	})
	return f
}

// analyzerFlags defines the flags that select the analyzer.
func (f *inputFlags) analyzerFlags() *inputFlags {
	f.text = f.call.choiceFlag("text", "`text` of an HTML page: visible, or main (without navigation, headers and footers)", "visible", "main")
	f.method = f.call.choiceFlag("method", "`method` of the fingerprints: minhash, or simhash of words weighted by their frequency", "minhash", "simhash")
	return f
}

func (f *inputFlags) readerOf(inputs ...string) (*corpus.Reader, error) {
	if len(inputs) == 0 {
		return nil, usagef("no input; name files or folders, or - for standard input")
	}
	o := f.Options
	o.Stdin = f.call.in
	if file := f.call.outFile(); file != nil {
		o.Output, _ = file.Stat()
	}
	return corpus.New(inputs, o)
}

// analyzer makes fingerprints of documents.
type analyzer struct {
	*page.Signer
	asked string // name of the analyzer that flags select; "" for the analyzer of the index
	bare  bool   // the inputs are fingerprints
	scope string // none, host or field

	keyPrefix string
	noKeys    bool
	asKey     string // the key of all documents, if it is given
}

// analyzer returns the analyzer that the flags select; another seed than 0 makes other hashes.
func (f *inputFlags) analyzer(seed uint64) (*analyzer, error) {
	text, o := page.Visible, fingerprint.Options{Seed: seed}
	if f.text != nil && *f.text == "main" {
		text = page.Main
	}
	if f.method != nil && *f.method == "simhash" {
		o.Method = fingerprint.MethodSimhash
	}
	signer, err := page.NewSigner(text, o)
	if err != nil {
		return nil, usagef("%v", err)
	}
	a := &analyzer{Signer: signer, keyPrefix: f.keyPrefix, noKeys: f.noKeys, scope: f.scope, bare: slices.Contains([]corpus.Format{corpus.Fingerprints, corpus.Decimal, corpus.U64LE}, f.Format)}
	if !a.bare && (f.call.given("text") || f.call.given("method")) {
		a.asked = signer.Name()
	}
	return a, nil
}

// document returns the document of a record, or the reason why the record has none. It removes the content
// from the record, so that its memory is free after the analysis.
func (a *analyzer) document(key string, r *corpus.Record) (d index.Document, reason string, err error) {
	p := neardup.Page{URL: key, ContentType: r.ContentType, Body: r.Content, Scope: a.scopeOf(r), Kind: r.Kind}
	r.Content = nil
	switch {
	case r.Kind == corpus.Fingerprint && r.Fingerprint == 0 && a.Signer != nil:
		return d, api.NoText, nil // the fingerprint of a document without text
	case r.Kind == corpus.Fingerprint:
		d = index.Document{Key: key, Fingerprint: r.Fingerprint, Scope: p.Scope}
		if match.Validate(&d) != nil {
			reason = fmt.Sprintf("too large: key of %d bytes, scope of %d", len(d.Key), len(d.Scope))
		}
		return d, reason, nil
	case a.Signer == nil:
		return d, "", fmt.Errorf("%s: %w: this version does not know the analyzer of the index, so it cannot compare documents with it: build a new index from the documents", key, index.ErrMismatch)
	}
	d, reason = check.Analyze(a.Signer, p)
	return d, reason, nil
}

// key returns the key under which the document of a record is stored; "" if it is stored without
// one. The position of a record is never a key: it may be the position of another document in the
// next run.
func (a *analyzer) key(r *corpus.Record) string {
	if a.asKey != "" {
		return a.asKey
	}
	if a.noKeys || r.Key == "" {
		return ""
	}
	return a.keyPrefix + r.Key
}

// scopeOf returns the scope of a record as --scope says.
func (a *analyzer) scopeOf(r *corpus.Record) string {
	switch a.scope {
	case "host":
		return corpus.Host(r.Key)
	case "field":
		return strings.Clone(r.Scope)
	}
	return ""
}

// indexFlags are the flags that select an index and, if it is created, its parameters.
type indexFlags struct {
	call      *call
	dir       string
	cache     int64
	k         *int   // --max-distance
	expected  *int64 // nil: not known
	mustExist bool
	expiry    index.Expiry
	expired   atomic.Int64 // documents that the background deleted
}

// indexFlag defines --index.
func (c *call) indexFlag() *indexFlags {
	f := &indexFlags{call: c}
	c.folderFlag(&f.dir, "index", "`folder` of the index")
	return f
}

// requiredIndexFlag defines --index of a subcommand that needs it.
func (c *call) requiredIndexFlag() *indexFlags {
	c.check(func() error {
		if !c.given("index") {
			return usagef("--index is missing: it names the folder of the index")
		}
		return nil
	})
	return c.indexFlag()
}

const (
	defaultK = check.DefaultMaxDistance
	// importK is the default maximum distance of bare fingerprints, as in the paper.
	importK = 3
	// maxDocuments is the largest number of documents that a plan is made for.
	maxDocuments = 1e15
)

// cacheFlag defines --cache.
func (f *indexFlags) cacheFlag() *indexFlags {
	value := f.call.sizeFlag("cache", 0, 0, "`size` of the cache of the index, such as 2GiB (default automatic, at most half of the machine's memory)")
	f.call.check(func() error { f.cache = *value; return nil })
	return f
}

// createFlags defines the flags of a subcommand that may create the index.
func (f *indexFlags) createFlags(k int) *indexFlags {
	f.k = f.call.distanceFlag(k, "largest Hamming `distance` of near-duplicates; fixed when the index is created")
	f.call.flags.BoolVar(&f.mustExist, "must-exist", false, "fail if the index does not exist, instead of creating it")
	return f
}

// retentionFlags defines the flags for the expected and the largest size of the index.
func (f *indexFlags) retentionFlags() *indexFlags {
	f.expected = f.call.countFlag("expected-documents", "1e6", "expected `number` of documents; it chooses the tables of an index that is created")
	f.call.durationFlag(&f.expiry.MaxAge, "retain-age", "delete documents that were last seen longer ago than this `duration`, such as 30d or 12h (default never)")
	retained := f.call.countFlag("retain-documents", "", "delete documents, the least recently seen first, if the index has more than this `number` (default never)")
	f.call.check(func() error { f.expiry.MaxDocuments = uint64(*retained); return nil })
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
		limits = append(limits, fmt.Sprintf("--retain-age %v", f.expiry.MaxAge))
	}
	if f.expiry.MaxDocuments > 0 {
		limits = append(limits, fmt.Sprintf("--retain-documents %d", f.expiry.MaxDocuments))
	}
	return " (" + strings.Join(limits, ", ") + ")"
}

// optionsFor returns the options for documents of an analyzer: k of bare fingerprints is importK by default.
func (f *indexFlags) optionsFor(a *analyzer) *neardup.Options {
	if a.bare && !f.call.given("max-distance") {
		*f.k = importK // without shingles to tell documents apart, 6 is too many
	}
	return f.options(a.asked, a.bare)
}

// options returns the options to open or create the index.
func (f *indexFlags) options(analyzer string, bare bool) *neardup.Options {
	o := &neardup.Options{Bare: bare, Index: index.Options{MustExist: f.mustExist, Analyzer: analyzer, CacheBytes: f.cache}}
	if f.expected != nil {
		o.Index.ExpectedDocuments = *f.expected
	}
	if f.call.given("max-distance") {
		o.Index.MaxDistance = distanceOption(*f.k)
	}
	o.Compaction.Expiry = f.expiry
	o.Compaction.Expired = func(documents int, _ error) { f.expired.Add(int64(documents)) } // expire returns the error again
	return o
}

// open opens or creates the index. It reports a created index, because a misspelt name creates one.
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

// planNamed returns the plan of a design that --plan names.
func planNamed(design string, k int) (*plan.Plan, error) {
	p, err := plan.Named(design, k)
	if err != nil {
		return nil, usagef("--plan: %v", err)
	}
	return p, nil
}

// distanceOption returns k for the options of an index, in which 0 is the default.
func distanceOption(k int) int {
	if k == 0 {
		return index.Exact
	}
	return k
}

// read opens the index for reading, calls do and closes the index.
func (f *indexFlags) read(do func(x *index.Index) error) error {
	x, err := index.Open(f.dir, &index.Options{ReadOnly: true, CacheBytes: f.cache})
	if err != nil {
		return err
	}
	return errors.Join(do(x), x.Close())
}

// exist reports whether the index exists, in any state.
func (f *indexFlags) exist() bool {
	err := f.read(func(*index.Index) error { return nil })
	return !errors.Is(err, fs.ErrNotExist)
}

// openToCompare opens an index for reading, to compare documents with it. If bare is set, the index may be
// of fingerprints.
func (f *indexFlags) openToCompare(dir, analyzer string, bare bool, m *matchFlags) (*neardup.Index, error) {
	o := &neardup.Options{Bare: bare, Index: index.Options{ReadOnly: true, CacheBytes: f.cache, Analyzer: analyzer}}
	m.set(&o.Index)
	return neardup.Open(dir, o)
}

// matchFlags are the flags of the rule of a match, except k.
type matchFlags struct {
	shingle   int
	allowance int
	ratio     float64
	templates bool
}

func (c *call) matchFlags() *matchFlags {
	f := new(matchFlags)
	c.flags.IntVar(&f.shingle, "max-shingle-distance", 0, fmt.Sprintf("largest `sum` of the distances of the fingerprints and of the shingles of long near-duplicates (0: %d; -1: shingles are not compared)", match.MaxShingleDistance))
	c.flags.IntVar(&f.allowance, "short-allowance", 0, fmt.Sprintf("how much larger, in `bits`, this sum may be for the shortest texts; the limit of texts of 80 to 250 words is smaller (0: %d; -1: one limit for all lengths)", match.ShortAllowance))
	c.flags.Float64Var(&f.ratio, "max-length-ratio", match.MaxLengthRatio, "how many `times` as long as the other one of two near-duplicates may be (-1: lengths are not compared)")
	c.check(func() error {
		switch {
		case f.shingle < -1 || f.shingle > 384:
			return usagef("--max-shingle-distance is %d, want 1 to 384, 0 for the default, or -1 for any", f.shingle)
		case f.allowance < -1 || f.allowance > 384:
			return usagef("--short-allowance is %d, want 1 to 384, 0 for the default, or -1 for none", f.allowance)
		case f.ratio != -1 && !(f.ratio >= 1):
			return usagef("--max-length-ratio is %v, want 1 or more, or -1 for any", f.ratio)
		}
		return nil
	})
	return f
}

// siteTemplatesFlag adds the flag that separates pages of one template.
func (f *matchFlags) siteTemplatesFlag(c *call) *matchFlags {
	c.flags.BoolVar(&f.templates, "site-templates", false, "separate pages of one site (the host of their URLs) that share a template, by how different the stored pages of the site are")
	c.check(func() error {
		if f.templates && f.shingle < 0 {
			return usagef("--site-templates compares shingles, and --max-shingle-distance is %d", f.shingle)
		}
		return nil
	})
	return f
}

// set sets the rule of an index.
func (f *matchFlags) set(o *index.Options) {
	o.MaxShingleDistance, o.ShortAllowance, o.MaxLengthRatio, o.SiteTemplates = f.shingle, f.allowance, f.ratio, f.templates
}

// rule returns the rule for the distance k.
func (f *matchFlags) rule(k int) match.Rule {
	return match.Default(k).With(f.shingle, f.allowance, f.ratio)
}
