package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
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
	"github.com/spf13/cobra"
)

// valueFlag defines a flag whose value parse reads. text is the default; "" is none.
func (c *call) valueFlag(name, text, usage string, parse func(string) error) {
	value := c.flags.String(name, text, usage)
	c.check(func() error {
		if *value == "" {
			return nil
		}
		if err := parse(*value); err != nil {
			return usagef("--%s is %q: %w", name, *value, err)
		}
		return nil
	})
}

// choiceFlag defines a flag whose value is one of several; the first one is the default.
func (c *call) choiceFlag(name, usage string, values ...string) *string {
	value := values[0]
	named := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
	c.valueFlag(name, value, usage, func(text string) error {
		if !slices.Contains(named, text) {
			return fmt.Errorf("want %s", orList(named))
		}
		value = text
		return nil
	})
	c.completeFlag(name, named)
	return &value
}

// completeFlag lets shells complete the values of a flag.
func (c *call) completeFlag(name string, values []string) {
	c.cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values,
		cobra.ShellCompDirectiveNoFileComp))
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

// distanceFlag defines --max-distance with the default k and values up to most.
func (c *call) distanceFlag(k, most int, usage string) *int {
	value := c.flags.Int("max-distance", k, usage)
	c.check(func() error {
		if *value < 0 || *value > most {
			return usagef("--max-distance is %d, want 0 to %d", *value, most)
		}
		return nil
	})
	return value
}

// givenDistance returns the value k of --max-distance as an option of the index, in which 0 is the
// default.
func (c *call) givenDistance(k int) int {
	if c.given("max-distance") {
		return cmp.Or(k, index.Exact)
	}
	return 0
}

// countFlag defines a flag with a number of documents, such as 1000000 or 1e6.
func (c *call) countFlag(name, text, usage string) *int64 {
	value := new(int64)
	c.valueFlag(name, text, usage, func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= 1) || n > maxDocuments {
			return errors.New("want a number from 1 to 1e15, such as 50000 or 2e6")
		}
		*value = int64(n)
		return nil
	})
	return value
}

// folderFlag defines a flag with the name of a folder.
func (c *call) folderFlag(value *string, name, usage string) {
	c.flags.StringVar(value, name, "", usage)
	c.cmd.MarkFlagDirname(name)
}

// sizeFlag defines a flag for an amount of memory or data of at least least bytes, up to 1 TiB. Its
// value needs a unit, because some programs read a bare number as bytes and others read it as
// megabytes. Only 0 has no unit.
func (c *call) sizeFlag(bytes *int64, name, text string, least uint64, usage string) {
	const most = 1 << 40
	c.valueFlag(name, text, usage, func(text string) error {
		n, err := humanize.ParseBytes(text)
		switch bare := strings.Trim(text, "0123456789.") == ""; {
		case err != nil || bare && n != 0:
			return errors.New("want a size with a unit, such as 64MiB")
		case n < least || n > most:
			return fmt.Errorf("want a size from %s to 1 TiB", humanize.IBytes(least))
		}
		*bytes = int64(n)
		return nil
	})
}

// parseDuration parses a duration as time.ParseDuration does, or a number of days such as 30d.
func parseDuration(text string) (time.Duration, error) {
	const most = math.MaxInt64 / (24 * time.Hour)
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		if n, err = strconv.ParseUint(days, 10, 64); err == nil && n > uint64(most) {
			return 0, fmt.Errorf("want at most %d days", most)
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return 0, errors.New("want a duration such as 30d or 12h")
	}
	return d, nil
}

// inputFlags are the flags that select the inputs and the fingerprints of their documents.
type inputFlags struct {
	corpus.Options
	call *call

	noKeys       bool
	scope        string  // none, host or field
	text, method *string // nil: the default
}

// The formats of lists of fingerprints, and of all inputs.
var (
	listFormats     = []string{"fingerprints", "decimal", "u64le", "jsonl"}
	documentFormats = append([]string{"warc", "wet", "json", "html", "text"}, listFormats...)
)

// inputFlags defines the flag for the format of the inputs, which has one of these names.
func (c *call) inputFlags(names ...string) *inputFlags {
	f := &inputFlags{call: c, Options: corpus.Options{MaxDocument: corpus.DefaultMaxDocument}}
	c.valueFlag("format", "", "`format` of all inputs: "+orList(names)+
		" (default by content and name)", func(name string) error {
		if !slices.Contains(names, name) {
			return fmt.Errorf("want %s", orList(names))
		}
		f.Format = corpus.Format(name)
		return nil
	})
	c.completeFlag("format", names)
	return f
}

// fieldFlags defines the flags for the fields of JSON documents.
func (f *inputFlags) fieldFlags() *inputFlags {
	f.keyFieldFlag()
	f.call.flags.StringVar(&f.Fields.Content, "content-field", "",
		"JSON `field` of the content (default html, main, text, content, or the field of a known "+
			"crawler)")
	return f
}

func (f *inputFlags) keyFieldFlag() {
	f.call.flags.StringVar(&f.Fields.Key, "key-field", "",
		"JSON `field` of the key; a dot leads into an object (default url, id, key, or the field "+
			"of a known crawler)")
}

// scopeFlag defines the flag for the scopes of documents.
func (f *inputFlags) scopeFlag() *inputFlags {
	f.call.valueFlag("scope", "none", "compare only documents of one `scope`: none (all are "+
		"compared), host (of the key) or field:NAME (a field of JSON documents)",
		func(text string) error {
			var name string
			if f.scope, name, _ = strings.Cut(text, ":"); (f.scope == "field") != (name != "") ||
				!slices.Contains([]string{"none", "host", "field"}, f.scope) {
				return errors.New("want none, host or field:NAME")
			}
			f.Fields.Scope = name
			return nil
		})
	return f
}

// analyzerFlags defines the flags that select the analyzer.
func (f *inputFlags) analyzerFlags() *inputFlags {
	f.text = f.call.choiceFlag("text", "`text` of an HTML page: visible, or main (without "+
		"navigation, headers and footers)", "visible", "main")
	f.method = f.call.choiceFlag("method", "`method` of the fingerprints: minhash, or simhash of "+
		"words weighted by their frequency", "minhash", "simhash")
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

// signer returns the signer that the flags select; another seed than 0 makes other hashes.
func (f *inputFlags) signer(seed uint64) (*page.Signer, error) {
	text, o := page.Visible, fingerprint.Options{Seed: seed}
	if f.text != nil && *f.text == "main" {
		text = page.Main
	}
	if f.method != nil && *f.method == "simhash" {
		o.Method = fingerprint.MethodSimhash
	}
	return page.NewSigner(text, o)
}

// asked returns the name of the analyzer if flags select it, and "" otherwise.
func (f *inputFlags) asked(signer *page.Signer) string {
	if f.call.given("text") || f.call.given("method") {
		return signer.Name()
	}
	return ""
}

// indexFlags are the flags that select an index and, if it is created, its parameters.
type indexFlags struct {
	call *call
	dir  string
	k    *int // --max-distance
	opts neardup.Options
}

// indexFlag defines --index.
func (c *call) indexFlag() *indexFlags {
	f := &indexFlags{call: c}
	c.folderFlag(&f.dir, "index", "`folder` of the index")
	return f
}

// requiredIndexFlag defines --index of a subcommand that needs it.
func (c *call) requiredIndexFlag() *indexFlags {
	f := c.indexFlag()
	c.cmd.MarkFlagRequired("index")
	return f
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
	f.call.sizeFlag(&f.opts.Index.CacheBytes, "cache", "", 0, "`size` of the cache of the index, "+
		"such as 2GiB (default automatic, at most half of the machine's memory)")
	return f
}

// distanceFlag defines --max-distance of a subcommand that may create the index.
func (f *indexFlags) distanceFlag(k int) *indexFlags {
	f.k = f.call.distanceFlag(k, plan.MaxDistance,
		"largest Hamming `distance` of near-duplicates; fixed when the index is created")
	return f
}

// retentionFlags defines the flags that limit the age and the number of documents.
func (f *indexFlags) retentionFlags() *indexFlags {
	f.call.valueFlag("retain-age", "", "delete documents that were last stored longer ago than "+
		"this `duration`, such as 30d or 12h; each verdict except duplicate and skipped stores "+
		"the document again (default never)", func(text string) (err error) {
		f.opts.Compaction.Expiry.MaxAge, err = parseDuration(text)
		return err
	})
	retained := f.call.countFlag("retain-documents", "",
		"delete documents, the least recently stored first, if the index has more than this "+
			"`number` (default never)")
	f.call.check(func() error {
		f.opts.Compaction.Expiry.MaxDocuments = uint64(*retained)
		return nil
	})
	return f
}

// options returns the options to open or create the index.
func (f *indexFlags) options(analyzer string, bare bool) *neardup.Options {
	o := f.opts
	o.Bare, o.Index.Analyzer, o.Index.MaxDistance = bare, analyzer, f.call.givenDistance(*f.k)
	return &o
}

// absent reports whether the directory of the index does not exist or is empty.
func (f *indexFlags) absent() bool {
	files, err := os.ReadDir(f.dir)
	return len(files) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist))
}

// read opens the index for reading, calls do and closes the index.
func (f *indexFlags) read(do func(x *index.Index) error) error {
	x, err := index.Open(f.dir, &index.Options{ReadOnly: true})
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

// openPages opens an index, which may be of fingerprints, to compare pages with it. analyzer is the
// name of its analyzer; "" is any.
func (f *indexFlags) openPages(analyzer string) (*neardup.Index, error) {
	return neardup.Open(f.dir, &neardup.Options{Bare: true,
		Index: index.Options{ReadOnly: true, Analyzer: analyzer}})
}

// matchFlags defines the flags of the rule of a match, except k.
func (f *indexFlags) matchFlags() *indexFlags {
	o, flags := &f.opts.Index, f.call.flags
	flags.IntVar(&o.MaxShingleDistance, "max-shingle-distance", 0,
		fmt.Sprintf("largest `sum` of the distances of the fingerprints and of the shingles of "+
			"long near-duplicates (0 means the default, %d; -1: shingles are not compared)",
			match.MaxShingleDistance))
	flags.IntVar(&o.ShortAllowance, "short-allowance", 0,
		fmt.Sprintf("how much larger, in `bits`, this sum may be for the shortest texts; the "+
			"limit of texts of 80 to 250 words is smaller (0 means the default, %d; -1: one "+
			"limit for all lengths)", match.ShortAllowance))
	flags.IntVar(&o.SiteTexts, "site-texts", match.SiteTexts,
		"keep different pages of one template apart by the distances of the stored pages of "+
			"their site (the host of their URLs); until two others are stored, fewer than this "+
			"`number` of different texts are duplicates (-1: ignore sites)")
	f.call.check(func() error {
		if o.MaxShingleDistance < -1 || o.ShortAllowance < -1 {
			return usagef("--max-shingle-distance is %d and --short-allowance is %d, want -1 "+
				"or more", o.MaxShingleDistance, o.ShortAllowance)
		}
		if o.SiteTexts != -1 && o.SiteTexts < 1 {
			return usagef("--site-texts is %d, want 1 or more, or -1 for never", o.SiteTexts)
		}
		return nil
	})
	return f
}

// rule returns the rule for the distance k.
func (f *indexFlags) rule(k int) match.Rule {
	o := &f.opts.Index
	return match.Default(k).With(o.MaxShingleDistance, o.ShortAllowance, o.MaxLengthRatio)
}
