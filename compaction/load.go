package compaction

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/store"
)

// LoadOptions of Load. The zero value is ready to use.
type LoadOptions struct {
	// Index says how to open the index, and how to make it where there is none. A new
	// index gets a plan for the number of documents that are loaded, unless Plan or
	// ExpectedDocuments say otherwise; so does one that never had a document and has the
	// plan that Open gives without either.
	Index index.Options

	// KeepAdded gives documents the time of their Added, where it is not zero. Default: all arrive now.
	KeepAdded bool

	MemoryBytes int64          // as Options has it
	Progress    func(Progress) // as Options has it
}

// Load adds documents to the index in dir, which is made where there is none and must
// not be open: as Add of one after the other would, but in one atomic step, durable
// when it returns. Documents get their IDs in the order in which they come, those as
// well that a later one with their key replaces. The index is compacted with it.
//
// It sorts instead of inserting, so it is many times faster than Add for a number of
// documents that is not small beside what the index has. It takes time in proportion
// to both, memory as MemoryBytes says, and free disk as Run does, and 32 bytes a
// document for sorting, and its record once more if it has one.
//
// Errors: those of index.Open, of what docs yields, ctx's, those of the file system, and
// ErrDone, with which all documents are loaded. With any other none is: the index is as it
// was, or there and empty if it was to be made. Only index.ErrFailed without ErrDone, of a
// disk that failed in the very moment and still does, leaves open which of the two: see
// Stats of the index once it can be opened.
func Load(ctx context.Context, dir string, docs iter.Seq2[index.Document, error], opts LoadOptions) (report Report, err error) {
	defer report.timed(time.Now())
	if err := makeIndex(dir, &opts.Index); err != nil {
		return report, err
	}
	o := Options{
		MemoryBytes: opts.MemoryBytes,
		FilterBytes: opts.Index.FilterBytes,
		CacheBytes:  opts.Index.CacheBytes,
		Progress:    opts.Progress,
		FS:          opts.Index.FS,
		Logger:      opts.Index.Logger,
	}
	err = work(dir, &o, &report, func(s *store.Store, plan *plan.Plan) (err error) {
		b, err := newBuilder(ctx, s, plan, &o, &report)
		if err != nil {
			return err
		}
		done := false
		defer func() {
			if !done { // or docs has panicked
				err = errors.Join(err, b.close())
			}
		}()
		if err := b.load(docs, &opts); err != nil {
			return err
		}
		done = true
		return afterwards(b.close())
	})
	if err != nil {
		return report, fmt.Errorf("load into index %s: %w", dir, err)
	}
	return report, nil
}

// makeIndex makes the index where there is none, and checks the options against it.
func makeIndex(dir string, opts *index.Options) error {
	if opts.ReadOnly {
		return index.ErrReadOnly
	}
	x, err := index.Open(dir, opts)
	if err != nil {
		return err
	}
	return x.Close()
}

// load adds all documents and finishes, unless there are none.
func (b *builder) load(docs iter.Seq2[index.Document, error], opts *LoadOptions) error {
	now := time.Now
	if opts.Index.Now != nil {
		now = opts.Index.Now
	}
	for doc, err := range docs {
		if err == nil {
			err = index.Validate(&doc)
		}
		if err != nil {
			return err
		}
		id := b.counters.NextID
		if opts.KeepAdded {
			if doc.Added.IsZero() {
				doc.Added = now()
			}
			if err := b.noteTime(id, doc.Added); err != nil {
				return err
			}
		}
		if err := b.add(id, store.Record{
			Fingerprint: uint64(doc.Fingerprint), Shingle: uint64(doc.Shingle), Tokens: uint32(doc.Tokens), Scope: doc.Scope, Key: doc.Key,
		}); err != nil {
			return err
		}
	}
	if b.report.Loaded == 0 {
		return nil
	}
	if err := b.choosePlan(&opts.Index); err != nil {
		return err
	}
	if !opts.KeepAdded {
		if err := b.noteTime(b.first, now()); err != nil {
			return err
		}
	}
	return b.finish()
}

// defaultDocuments is what index.Options.ExpectedDocuments stands for where it is 0.
const defaultDocuments = 1_000_000

// choosePlan takes the plan for what was added, if nobody chose the one that there is.
func (b *builder) choosePlan(opts *index.Options) error {
	if b.first > 1 || opts.Plan != nil || opts.ExpectedDocuments > 0 {
		return nil
	}
	unasked, err := plan.Choose(b.plan.MaxDistance, defaultDocuments, opts.Limits, plan.Costs{})
	if err != nil || unasked.Plan.String() != b.plan.String() {
		return err
	}
	c, err := plan.Choose(b.plan.MaxDistance, int64(b.report.Loaded), opts.Limits, plan.Costs{})
	if err != nil {
		return err
	}
	b.replan(c.Plan)
	return nil
}

// noteTime writes when the documents from an ID on arrived, unless the last entry of the clock
// says so already.
func (b *builder) noteTime(id uint64, at time.Time) error {
	if b.second == nil {
		b.second = new(uint64)
		v, err := b.s.View()
		if err != nil {
			return err
		}
		last, found, err := v.LastSecond()
		if *b.second = last; !found {
			*b.second = math.MaxUint64
		}
		if err := errors.Join(err, v.Close()); err != nil {
			return err
		}
	}
	second := uint64(max(at.Unix(), 0))
	if second == *b.second {
		return nil
	}
	*b.second = second
	return b.r.AddClock(id, second)
}
