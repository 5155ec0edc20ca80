// Package bench measures the index on the machine at hand, against the paper's
// tables held in memory as sorted arrays (Manku, Jain and Das Sarma, "Detecting
// Near-Duplicates for Web Crawling", WWW 2007, section 3), in the same run and in
// turns, so that what else the machine does falls on both.
//
// No figure of a query is given before the answers were found to be those of
// comparing with every stored fingerprint; ErrWrongAnswer is what Run returns when
// they are not. All data comes from a seed and is the same on every machine.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/neardup/neardup/index"
)

// Options of Run.
type Options struct {
	Documents   int
	MaxDistance int
	Bare        bool          // documents have no second fingerprint, which pages have
	Only        []string      // names of sections; none: all of them
	Dir         string        // where the temporary folder is made; "": os.TempDir
	Time        time.Duration // about how long each comparison takes
	CacheBytes  int64         // as index.Options has it
	NoReference bool          // leave out what takes 8 (k+1) bytes a document of memory
	Seed        uint64

	Emit func(Figure)                     // called with each figure once it is there
	Logf func(format string, args ...any) // called with what begins
}

// Section measures what belongs together.
type Section struct {
	Name, Summary string
	run           func(*run, context.Context) error
}

// Sections are all there are, in an order in which each finds what the ones before made.
var Sections = []Section{
	{"load", "bulk load: speed, memory, disk", (*run).load},
	{"query", "queries of a compacted index, warm", (*run).query},
	{"live", "adding one by one, queries before compaction, compacting", (*run).live},
	{"check", "check-and-add of documents with keys", (*run).check},
}

// run is one run under way.
type run struct {
	Options
	dir    string
	stored collection

	compared *reference // nil until it is needed
	packed   *loaded    // the compacted index that several sections look at; nil: it is not there
}

// Run measures. Its files lie in a folder of its own, which is gone when it returns,
// however it comes to that. Errors: ErrWrongAnswer, ctx's and those of the index and the file system.
func Run(ctx context.Context, o Options) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "neardup-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &run{Options: o, dir: dir, stored: collection{seed: o.Seed, n: o.Documents, shingles: !o.Bare}}
	for _, s := range Sections {
		if len(o.Only) > 0 && !slices.Contains(o.Only, s.Name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.run(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// figure gives a figure without a ratio.
func (r *run) figure(section, name string, value float64, unit string) {
	r.Emit(Figure{section, name, value, unit, 0})
}

func (r *run) path(name string) string { return filepath.Join(r.dir, name) }

func (r *run) options() *index.Options {
	o := &index.Options{
		MaxDistance:       r.MaxDistance,
		ExpectedDocuments: int64(r.Documents),
		CacheBytes:        r.CacheBytes,
		Durability:        index.NoSync,
	}
	if r.MaxDistance == 0 {
		o.MaxDistance = index.Exact
	}
	return o
}

// withIndex opens an index for the time of a call.
func withIndex(dir string, o *index.Options, do func(*index.Index) error) error {
	x, err := index.Open(dir, o)
	if err != nil {
		return err
	}
	return errors.Join(do(x), x.Close())
}
