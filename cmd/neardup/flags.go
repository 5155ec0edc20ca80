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
	"github.com/dustin/go-humanize/english"
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

// valueFlag defines a flag whose value parse accepts. text is the default value; "" means none.
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

// choiceFlag defines a flag that accepts only the given values. The first value is the default.
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

// orList joins names, as in "a, b or c".
func orList[S ~string](names []S) string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = string(name)
	}
	return english.WordSeries(words, "or")
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

// givenDistance converts k, the value of --max-distance, to an option of the index. In the option,
// 0 is the default.
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

// dirFlag defines a flag for the name of a directory.
func (c *call) dirFlag(value *string, name, usage string) {
	c.flags.StringVar(value, name, "", usage)
	c.cmd.MarkFlagDirname(name)
}

// sizeFlag defines a flag for a size from least bytes to 1 TiB. Sizes other than 0 must have a
// unit, because some programs read a number without unit as bytes, and others as megabytes.
func (c *call) sizeFlag(bytes *int64, name, text string, least uint64, usage string) {
	const most = 1 << 40
	c.valueFlag(name, text, usage, func(text string) error {
		n, err := humanize.ParseBytes(text)
		switch noUnit := strings.Trim(text, "0123456789.") == ""; {
		case err != nil || noUnit && n != 0:
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

// inputFlags defines --format, whose value is one of names.
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
		"JSON `field` of the key; a dot selects a field of an object (default url, id, key, or "+
			"the field of a known crawler)")
}

// scopeFlag defines the flag for the scopes of documents.
func (f *inputFlags) scopeFlag() *inputFlags {
	f.call.valueFlag("scope", "none", "compare only documents of the same `scope`: none (compare "+
		"all documents), host (of the key) or field:NAME (a JSON field)",
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
	f.text = f.call.choiceFlag("text", "compared `text` of HTML pages: visible, or main (without "+
		"navigation, headers and footers)", "visible", "main")
	f.method = f.call.choiceFlag("method", "fingerprint `method`: minhash, or simhash of words "+
		"weighted by frequency", "minhash", "simhash")
	return f
}

func (f *inputFlags) readerOf(inputs ...string) (*corpus.Reader, error) {
	if len(inputs) == 0 {
		return nil, usagef("no input: name files or directories, or - for standard input")
	}
	o := f.Options
	o.Stdin = f.call.in
	if file := f.call.outFile(); file != nil {
		o.Output, _ = file.Stat()
	}
	return corpus.New(inputs, o)
}

// signer returns the signer that the flags select. The seed selects the hash functions; indexes
// have seed 0.
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

// asked returns the name of the analyzer if a flag selects it, and "" otherwise.
func (f *inputFlags) asked(signer *page.Signer) string {
	if f.call.given("text") || f.call.given("method") {
		return signer.Name()
	}
	return ""
}

// indexFlags are the flags that select an index and the parameters of a new index.
type indexFlags struct {
	call *call
	dir  string
	k    *int // --max-distance
	opts neardup.Options
}

// indexFlag defines --index.
func (c *call) indexFlag() *indexFlags {
	f := &indexFlags{call: c}
	c.dirFlag(&f.dir, "index", "`directory` of the index")
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
	// maxDocuments is the largest number of documents of a plan.
	maxDocuments = 1e15
)

// cacheFlag defines --cache.
func (f *indexFlags) cacheFlag() *indexFlags {
	f.call.sizeFlag(&f.opts.Index.CacheBytes, "cache", "", 0, "`size` of the cache of the index, "+
		"such as 2GiB (default automatic, at most half of the machine's memory)")
	return f
}

// distanceFlag defines --max-distance of a subcommand that can create the index.
func (f *indexFlags) distanceFlag(k int) *indexFlags {
	f.k = f.call.distanceFlag(k, plan.MaxDistance,
		"largest Hamming `distance` of near-duplicates; of an existing index, only compact "+
			"changes it")
	return f
}

// retentionFlags defines the flags that limit the age and the number of documents.
func (f *indexFlags) retentionFlags() *indexFlags {
	f.call.valueFlag("retain-age", "", "delete documents that were last stored longer ago than "+
		"this `duration`, such as 30d or 12h; the verdicts new, changed and unchanged store the "+
		"document (default never)", func(text string) (err error) {
		f.opts.Compaction.Expiry.MaxAge, err = parseDuration(text)
		return err
	})
	retained := f.call.countFlag("retain-documents", "",
		"delete the least recently stored documents if the index has more than this `number` "+
			"(default never)")
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

// exist reports whether the index exists, even if it cannot be opened.
func (f *indexFlags) exist() bool {
	err := f.read(func(*index.Index) error { return nil })
	return !errors.Is(err, fs.ErrNotExist)
}

// openPages opens an index to compare inputs with it. The index can be bare. analyzer is the name
// of its analyzer; "" allows any.
func (f *indexFlags) openPages(analyzer string) (*neardup.Index, error) {
	return neardup.Open(f.dir, &neardup.Options{Bare: true,
		Index: index.Options{ReadOnly: true, Analyzer: analyzer}})
}

// matchFlags defines the flags of the rule of a match, except k.
func (f *indexFlags) matchFlags() *indexFlags {
	o, flags := &f.opts.Index, f.call.flags
	flags.IntVar(&o.MaxShingleDistance, "max-shingle-distance", 0,
		fmt.Sprintf("largest `sum` of the distances of the fingerprints and of the shingle "+
			"signatures of long texts (0: the default, %d; -1: do not compare shingle signatures)",
			match.MaxShingleDistance))
	flags.IntVar(&o.ShortAllowance, "short-allowance", 0,
		fmt.Sprintf("`bits` by which this sum can be larger for the shortest texts; the limit for "+
			"texts of 80 to 250 words is smaller (0: the default, %d; -1: one limit for all "+
			"lengths)", match.ShortAllowance))
	flags.IntVar(&o.SiteTexts, "site-texts", match.SiteTexts,
		"separate pages of one site (the host of the URL) that share a template: a match must be "+
			"much nearer than other stored pages of the site; until there are two of them, fewer "+
			"than this `number` of different texts are duplicates (-1: ignore sites)")
	f.call.check(func() error {
		if o.MaxShingleDistance < -1 || o.ShortAllowance < -1 {
			return usagef("--max-shingle-distance is %d and --short-allowance is %d, want -1 "+
				"or more", o.MaxShingleDistance, o.ShortAllowance)
		}
		if o.SiteTexts != -1 && o.SiteTexts < 1 {
			return usagef("--site-texts is %d, want 1 or more, or -1 to ignore sites", o.SiteTexts)
		}
		return nil
	})
	return f
}

// rule returns the rule of a match for an index with this k.
func (f *indexFlags) rule(k int) match.Rule {
	o := &f.opts.Index
	return match.Default(k).With(o.MaxShingleDistance, o.ShortAllowance, o.MaxLengthRatio)
}
