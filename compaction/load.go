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

// LoadOptions configures Load. The zero value is ready to use.
type LoadOptions struct {
	// Index has the options for opening the index, or for creating it if it does not exist. A new
	// index gets a plan for the number of loaded documents, unless Plan or ExpectedDocuments is
	// set. An index that never had a document and has the default plan of Open also gets such a
	// plan.
	Index index.Options

	// KeepAdded keeps the times of documents whose Added is not zero. By default, all documents get
	// the time of the load.
	KeepAdded bool

	MemoryBytes int64          // as in Options
	Progress    func(Progress) // as in Options
}

// Load adds documents to the index in dir, which must not be open, and creates the index if it does
// not exist. All documents are added in one atomic step, which is durable when Load returns. Each
// document gets an ID, in the order of docs. A document replaces an earlier document of the index
// or of docs with the same key. A document that has only a fingerprint is stored without a record,
// so it has no time. Load also compacts the index.
//
// Load sorts the entries instead of inserting them. It is many times faster than Add, unless there
// are few documents compared with the size of the index. Its time is proportional to the number of
// documents and the size of the index. MemoryBytes bounds its memory. It needs as much free disk
// space as Run, and 32 bytes per document. If docs repeats a key, it also needs twice the size of
// the records.
//
// Errors: index.ErrTooLarge, index.ErrNoText, ErrDone, and the errors of index.Open, docs, ctx and
// the file system. After ErrDone, all documents are loaded. After any other error, no documents are
// loaded: the index is unchanged, or empty if Load has created it. There is one exception. If the
// disk fails while Load installs the documents and cannot be read afterwards, the error is
// index.ErrFailed without ErrDone. When the index can be opened again, its Stats show whether the
// documents were loaded.
func Load(
	ctx context.Context, dir string, docs iter.Seq2[index.Document, error], opts LoadOptions,
) (report Report, err error) {
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
	if err := createIndex(dir, &opts.Index); err != nil {
		return report, err
	}
	err = work(dir, &o, &report, func(s *store.Store, plan *plan.Plan) (err error) {
		b, err := newBuilder(ctx, s, plan, &o, &report)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.close()) }() // docs may panic
		now := time.Now
		if opts.Index.Now != nil {
			now = opts.Index.Now
		}
		if err := b.read(docs, match.Second(now()), opts.KeepAdded); err != nil ||
			report.Loaded == 0 {
			return err
		}
		if err := b.choosePlan(&opts.Index); err != nil {
			return err
		}
		if err := b.finish(); err != nil {
			return err
		}
		return afterwards(b.close())
	})
	if err != nil {
		return report, fmt.Errorf("load into index %s: %w", dir, err)
	}
	return report, nil
}

// work opens the closed index in dir, calls do, and completes the report. If do has succeeded, a
// later error is ErrDone.
func work(
	dir string, opts *Options, report *Report, do func(*store.Store, *plan.Plan) error,
) (err error) {
	if report.BytesBefore, err = size(dir, opts.fs()); err != nil {
		return err
	}
	s, err := openStore(dir, opts)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // a function of the caller may have panicked
			err = errors.Join(err, s.Close())
		}
		if !done && errors.Is(err, index.ErrFailed) {
			err = checkDone(dir, opts, s.Now().Generation(), err)
		}
	}()
	meta := s.Meta()
	plan, err := plan.Parse(meta.Plan)
	if err == nil {
		report.Documents, report.Plan = meta.Counters.Documents, meta.Plan
		err = do(s, plan)
	}
	if err != nil {
		return err
	}
	done = true
	err = s.Close()
	if err == nil {
		report.BytesAfter, err = size(dir, opts.fs())
	}
	return afterwards(err)
}

// checkDone opens an index whose store has failed with err. If its generation is later than the
// given one, the work took effect although the store has failed, and the error becomes ErrDone.
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

// createIndex creates the index if it does not exist, and checks the options.
func createIndex(dir string, opts *index.Options) error {
	if opts.ReadOnly {
		return index.ErrReadOnly
	}
	x, err := index.Open(dir, opts)
	if err != nil {
		return err
	}
	return x.Close()
}

// read adds docs, with the time now unless keepAdded is set and the document has a time.
func (b *builder) read(docs iter.Seq2[index.Document, error], now uint64, keepAdded bool) error {
	needText := match.TextAnalyzer(b.s.Meta().Analyzer) != nil
	for doc, err := range docs {
		if err == nil {
			err = b.ctx.Err() // per document, since docs may be slow
		}
		if err == nil {
			err = match.Validate(&doc)
		}
		if err == nil && needText && doc.Signature() == (fingerprint.Signature{}) {
			err = fmt.Errorf("%w: document %d, key %.80q: skip documents with 0 Tokens",
				index.ErrNoText, b.report.Loaded+1, doc.Key)
		}
		if err != nil {
			return err
		}
		record := store.Record{
			ID: b.counters.NextID, Fingerprint: uint64(doc.Fingerprint), Time: now,
			Shingles: doc.Shingles, Digest: uint64(doc.Digest), Tokens: uint32(doc.Tokens),
			Scope: doc.Scope, Key: doc.Key,
		}
		if keepAdded && !doc.Added.IsZero() {
			record.Time = match.Second(doc.Added)
		}
		if record.Bare() {
			record.Time = 0 // it is stored without a record
		}
		if err := b.add(record); err != nil {
			return err
		}
	}
	return nil
}

// choosePlan chooses a plan for the number of loaded documents if the index has the default plan
// and never had a document.
func (b *builder) choosePlan(opts *index.Options) error {
	if b.first > 1 || opts.Plan != nil || opts.ExpectedDocuments > 0 {
		return nil
	}
	byDefault, err := plan.Choose(b.plan.MaxDistance, plan.DefaultDocuments)
	if err != nil || byDefault.Plan.String() != b.plan.String() {
		return err
	}
	c, err := plan.Choose(b.plan.MaxDistance, int64(b.report.Loaded))
	if err != nil {
		return err
	}
	b.replan(c.Plan)
	return nil
}
