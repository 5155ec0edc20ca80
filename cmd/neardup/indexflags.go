package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/neardup/neardup/index"
)

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

// setDefaultK says what a new index is made with unless -k is given: what comes without
// a second fingerprint needs a smaller distance to be told apart.
func (f *indexFlags) setDefaultK(inputs *inputFlags) {
	if !f.call.given("k") && inputs.ready() {
		f.k = importK
	}
}

// required says that there is no default folder.
func (f *indexFlags) required() error {
	if f.dir == "" {
		return usagef("-index is missing")
	}
	return nil
}

func (f *indexFlags) options(analyzer string) (*index.Options, error) {
	o := &index.Options{Analyzer: analyzer, CacheBytes: f.cache << 20, ExpectedDocuments: int64(f.expect)}
	if f.noSync {
		o.Durability = index.NoSync
	}
	if f.call.given("k") {
		o.MaxDistance = f.k
		if f.k == 0 {
			o.MaxDistance = index.Exact
		}
		if f.k < 0 || f.k > index.MaxDistanceLimit {
			return nil, usagef("-k is %d, want 0 to %d", f.k, index.MaxDistanceLimit)
		}
	}
	if f.design != "" {
		d, err := index.DesignNamed(f.design)
		if err != nil {
			return nil, usagef("-design: %v", err)
		}
		k := f.k
		if !f.call.given("k") {
			k = importK // most designs are for it alone
		}
		if o.Plan, err = d.Plan(k); err != nil {
			return nil, usagef("-design: %v", err)
		}
	}
	return o, nil
}

// openReadOnly opens the index for reading.
func (f *indexFlags) openReadOnly(analyzer string) (*index.Index, error) {
	if err := f.required(); err != nil {
		return nil, err
	}
	return index.Open(f.dir, &index.Options{ReadOnly: true, CacheBytes: f.cache << 20, Analyzer: analyzer})
}

// open opens the index, or makes it.
func (f *indexFlags) open(analyzer string) (*index.Index, error) {
	if err := f.required(); err != nil {
		return nil, err
	}
	o, err := f.options(analyzer)
	if err != nil {
		return nil, err
	}
	return f.openOrMake(o)
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
		o.MaxDistance = f.k
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
