package compaction

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
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
// Errors: those of index.Open, of what docs yields, ErrTooLarge and ErrNoText as of Add, ctx's, those of the file system, and
// ErrDone, with which all documents are loaded. With any other none is: the index is as it
// was, or there and empty if it was to be made. Only index.ErrFailed without ErrDone, of a
// disk that failed in the very moment and still does, leaves open which of the two: see
// Stats of the index once it can be opened.
func Load(ctx context.Context, dir string, docs iter.Seq2[index.Document, error], opts LoadOptions) (report Report, err error) {
	defer report.timed(time.Now())
	o := Options{
		MemoryBytes: opts.MemoryBytes,
		FilterBytes: opts.Index.FilterBytes,
		CacheBytes:  opts.Index.CacheBytes,
		Progress:    opts.Progress,
		FS:          opts.Index.FS,
		Logger:      opts.Index.Logger,
	}
	if err := o.check(); err != nil {
		return report, fmt.Errorf("load into index %s: %w", dir, err)
	}
	if err := makeIndex(dir, &opts.Index); err != nil {
		return report, err
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
		now := time.Now
		if opts.Index.Now != nil {
			now = opts.Index.Now
		}
		if err := b.read(docs, match.Second(now()), opts.KeepAdded); err != nil || report.Loaded == 0 {
			return err
		}
		if err := b.choosePlan(&opts.Index); err != nil {
			return err
		}
		if err := b.finish(); err != nil {
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

// work opens the closed index in dir, calls do, and completes the report. Once do has
// succeeded, any error is ErrDone.
func work(dir string, opts *Options, report *Report, do func(*store.Store, *plan.Plan) error) (err error) {
	if report.BytesBefore, err = size(dir, opts.fs()); err != nil {
		return err
	}
	s, err := openStore(dir, opts)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // or a function of the caller's has panicked
			err = errors.Join(err, s.Close())
		}
		if !done && errors.Is(err, index.ErrFailed) {
			err = checkDone(dir, opts, s.Now().Generation(), err)
		}
	}()
	plan, err := plan.Parse(s.Header().Plan)
	if err == nil {
		err = report.measureBefore(s, len(plan.Tables))
	}
	if err == nil {
		err = do(s, plan)
	}
	if err != nil {
		return err
	}
	done = true
	return afterwards(errors.Join(s.Close(), report.complete(dir, opts)))
}

// checkDone opens an index whose store has failed with err. If there is a generation
// after the given one, the work took effect although the store did not see it, and the
// error becomes ErrDone.
func checkDone(dir string, opts *Options, generation uint64, err error) error {
	s, openErr := openStore(dir, opts)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	if s.Now().Generation() > generation {
		err = afterwards(err)
	}
	return errors.Join(err, s.Close())
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

// read adds all documents.
func (b *builder) read(docs iter.Seq2[index.Document, error], now uint64, keepAdded bool) error {
	ofTexts := match.TextAnalyzer(b.s.Header().Analyzer) != nil
	for doc, err := range docs {
		if err == nil {
			err = b.ctx.Err() // here, since docs may take its time
		}
		if err == nil {
			err = match.Validate(&doc)
		}
		if err == nil && ofTexts && doc.Signature() == (fingerprint.Signature{}) {
			err = fmt.Errorf("%w: document %d, key %.80q: skip what has 0 Tokens", index.ErrNoText, b.report.Loaded+1, doc.Key)
		}
		if err != nil {
			return err
		}
		record := store.Record{
			Fingerprint: uint64(doc.Fingerprint), Time: now, Shingle: uint64(doc.Shingle), Digest: uint64(doc.Digest), Tokens: uint32(doc.Tokens), Scope: doc.Scope, Key: doc.Key,
		}
		if keepAdded && !doc.Added.IsZero() {
			record.Time = match.Second(doc.Added)
		}
		if record.Bare() {
			record.Time = 0 // it is stored without a record
		}
		if err := b.add(b.counters.NextID, record); err != nil {
			return err
		}
	}
	return nil
}

// defaultDocuments is what index.Options.ExpectedDocuments stands for where it is 0.
const defaultDocuments = 1_000_000

// choosePlan takes the plan for what was added, if nobody chose the one that there is.
func (b *builder) choosePlan(opts *index.Options) error {
	if b.first > 1 || opts.Plan != nil || opts.ExpectedDocuments > 0 {
		return nil
	}
	unasked, err := plan.Choose(b.plan.MaxDistance, defaultDocuments)
	if err != nil || unasked.Plan.String() != b.plan.String() {
		return err
	}
	c, err := plan.Choose(b.plan.MaxDistance, int64(b.report.Loaded))
	if err != nil {
		return err
	}
	b.replan(c.Plan)
	return nil
}
