// Package neardup tells a crawler whether a similar page is already stored, and which page that is.
//
//	x, err := neardup.Open("pages.neardup", nil) // creates the index if there is none
//	v, err := x.Check(ctx, neardup.Page{URL: url, ContentType: contentType, Body: body})
//	switch v.Status {
//	case neardup.New:       // stored; no stored page was similar
//	case neardup.Duplicate: // not stored; v.Of is the nearest stored page
//	case neardup.Unchanged: // this URL is stored with an equal text
//	case neardup.Changed:   // this URL had another text: v.Of is the earlier version
//	case neardup.Skipped:   // nothing to compare; v.Reason says why
//	}
//
// An error means that there is no verdict, and the zero Status is not a verdict. A verdict is
// durable before Check returns. If near-duplicates are checked concurrently, exactly one is New.
//
// An Index also has the methods of [index.Index], such as Delete, DeleteBefore, Get, Query, Stats,
// Pairs, Clusters, Checkpoint and Verify. Its methods return the errors of package index.
//
// A crawler drops a page that is a Duplicate and saves all others. It saves a page that is
// Unchanged because the last run may have died between Check and saving. A page that is Skipped was
// not compared. If saving fails, the crawler deletes the URL, so that the next copy of the page is
// New.
//
// The neardup command can open the indexes of this package, and this package can open the indexes
// of the command.
package neardup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
)

// DefaultMaxBody is the default of Options.MaxBody: 16 MiB.
const DefaultMaxBody = 16 << 20

// Options configures Open. With nil or the zero value, Open uses the defaults.
type Options struct {
	// Signer extracts the text of a page and computes its signature. The index records its name. If
	// Signer is nil, Open uses the Signer that the index records. A new index gets a Signer of
	// visible text with the default options.
	Signer *page.Signer

	// MaxBody is the maximum size of a page in bytes. A larger page is Skipped. 0: DefaultMaxBody.
	MaxBody int

	// Bare also opens an index that records no Signer, or a Signer that this version does not know.
	// A new index then records no Signer and gets the default k of package index, which is 3.
	// Without a Signer, Check returns an error. CheckDocuments compares fingerprints of any kind.
	Bare bool

	// Index has the other options, such as k, memory and durability. If k is 0, a new index gets 7,
	// since pages also have a shingle signature and a length. Its Analyzer is the Signer's name.
	Index index.Options

	// Compaction determines when the index is compacted in the background while it is open, and
	// which documents expire. The zero Policy compacts by default bounds, and expires no document.
	Compaction compaction.Policy
}

// Index is an open index of pages. Its methods may be called from any goroutine. Functions of
// packages compaction and metrics take its field Index.
type Index struct {
	*index.Index
	watcher *compaction.Watcher // nil if the index is open for reading only
	signer  *page.Signer
	maxBody int
	rule    match.Rule

	unsigned error // why signer is nil; nil if signer is set
}

// Open opens the index in dir, or creates it if it does not exist. It returns the errors of
// [index.Open]. It also returns index.ErrMismatch if the index records no Signer, or a Signer that
// this version does not know, unless Bare is set.
func Open(dir string, opts *Options) (*Index, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxBody < 0 {
		return nil, fmt.Errorf("open index %s: MaxBody is %d, want 0 for the default, or more",
			dir, o.MaxBody)
	}
	x := &Index{signer: o.Signer, maxBody: cmp.Or(o.MaxBody, DefaultMaxBody)}
	var err error
	if x.signer != nil {
		o.Index.Analyzer = x.signer.Name()
	} else if name := o.Index.Analyzer; name != "" && !o.Bare {
		x.signer, err = parseSigner(name)
	}
	if err == nil {
		x.Index, err = o.open(dir)
	}
	if err != nil {
		return nil, err
	}
	if x.unsigned = x.recordedSigner(); x.unsigned != nil && !o.Bare {
		return nil, fmt.Errorf("open index %s: %w", dir, errors.Join(x.unsigned, x.Close()))
	}
	if !o.Index.ReadOnly {
		x.watcher, err = compaction.Background(context.Background(), x.Index, o.Compaction)
		if err != nil {
			return nil, fmt.Errorf("open index %s: %w", dir, errors.Join(err, x.Close()))
		}
	}
	x.rule = match.Default(x.Plan().MaxDistance).With(o.Index.MaxShingleDistance,
		o.Index.ShortAllowance, o.Index.MaxLengthRatio)
	return x, nil
}

// Close ends the background compaction and closes the index: see [index.Index.Close].
func (x *Index) Close() error {
	err := x.Index.Close()
	if x.watcher != nil {
		x.watcher.Close()
	}
	return err
}

// Compaction returns the state of the background compaction.
func (x *Index) Compaction() compaction.BackgroundStats {
	if x.watcher == nil {
		return compaction.BackgroundStats{}
	}
	return x.watcher.Stats()
}

// open opens the index with its own analyzer and k, or creates it with the defaults.
func (o *Options) open(dir string) (*index.Index, error) {
	existing := o.Index
	existing.MustExist = true
	x, err := index.Open(dir, &existing)
	if errors.Is(err, fs.ErrNotExist) && !o.Index.MustExist && !o.Index.ReadOnly {
		made := o.Index
		if made.MaxDistance == 0 && made.Plan == nil && !o.Bare {
			made.MaxDistance = check.DefaultMaxDistance
		}
		if made.Analyzer == "" && !o.Bare {
			made.Analyzer = check.DefaultSigner().Name()
		}
		return index.Open(dir, &made)
	}
	if err != nil || o.Bare || o.Index.Analyzer != "" || o.Index.ReadOnly || !unused(x) {
		return x, err
	}
	if err := x.Close(); err != nil { // an unused index may still get an analyzer
		return nil, err
	}
	existing.Analyzer = check.DefaultSigner().Name()
	return index.Open(dir, &existing)
}

// unused reports whether an index has no analyzer and never had a document.
func unused(x *index.Index) bool {
	s := x.Stats()
	return s.Analyzer == "" && s.NextID == 1
}

// recordedSigner sets the signer to the one that the index records, unless it is already set.
func (x *Index) recordedSigner() (err error) {
	if x.signer != nil {
		return nil
	}
	name := x.Stats().Analyzer
	if name == "" {
		return fmt.Errorf("%w: it records no analyzer, so pages cannot be compared with its "+
			"fingerprints", index.ErrMismatch)
	}
	x.signer, err = parseSigner(name)
	return err
}

func parseSigner(name string) (*page.Signer, error) {
	s, err := page.ParseSigner(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", index.ErrMismatch, err)
	}
	return s, nil
}

// Signer returns the Signer of the pages of the index. It is nil if the index is Bare and its
// Signer is unknown.
func (x *Index) Signer() *page.Signer { return x.signer }
