package compaction

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/store"
)

// LoadOptions of Load. The zero value is ready to use.
type LoadOptions struct {
	// Index says how to open the index, and how to make it where there is none. A new
	// index gets a plan for the number of documents that are loaded, unless Plan or
	// ExpectedDocuments say otherwise; so does one that never had a document and has the
	// plan that Open gives without either.
	Index index.Options

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
	if err := prepare(dir, &opts); err != nil {
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
	err = work(dir, &o, &report, func(s *store.Store, plan *index.Plan) (err error) {
		r, err := s.NewReplacement(len(plan.Tables))
		if err != nil {
			return err
		}
		l := newLoad(s, r, &o, &report)
		if opts.Index.Now != nil {
			l.now = opts.Index.Now
		}
		done := false
		defer func() {
			if !done { // or docs has panicked
				err = errors.Join(err, l.close(), r.Close())
			}
		}()
		if err := l.run(ctx, docs, plan, &opts); err != nil {
			return err
		}
		done = true
		return afterwards(errors.Join(l.close(), r.Close()))
	})
	if err != nil {
		return report, fmt.Errorf("load into index %s: %w", dir, err)
	}
	return report, nil
}

// prepare makes the index where there is none, and checks the options against it.
func prepare(dir string, opts *LoadOptions) error {
	if opts.Index.ReadOnly {
		return index.ErrReadOnly
	}
	x, err := index.Open(dir, &opts.Index)
	if err != nil {
		return err
	}
	return x.Close()
}

// load is a bulk load on its way.
type load struct {
	s      *store.Store
	r      *store.Replacement
	opts   *Options
	report *Report

	now      func() time.Time
	counters store.Counters
	first    uint64 // ID of the first document loaded
	sorter   *extsort.Sorter[loaded]
	batch    []loaded
	records  recordFile
	keys     *keys // nil as long as no document has a key
}

func newLoad(s *store.Store, r *store.Replacement, opts *Options, report *Report) *load {
	counters := s.Counters()
	return &load{
		s: s, r: r, opts: opts, report: report, now: time.Now, counters: counters, first: counters.NextID,
		sorter:  extsort.New[loaded](extsort.Options{MemoryBytes: opts.memoryBytes() / 2, Dir: r.Dir(), FS: opts.fs()}),
		records: recordFile{path: opts.fs().PathJoin(r.Dir(), "records"), fs: opts.fs()},
	}
}

func (l *load) run(ctx context.Context, docs iter.Seq2[index.Document, error], plan *index.Plan, opts *LoadOptions) error {
	if err := l.read(ctx, docs); err != nil {
		return err
	}
	if l.report.Loaded == 0 {
		return nil
	}
	plan, err := l.choosePlan(plan, &opts.Index)
	if err != nil {
		return err
	}
	filter, err := newKeyFilter(ctx, l.s, l.keys.len(), l.opts.FilterBytes)
	if err != nil {
		return err
	}
	var gone *roaring64.Bitmap
	if l.keys != nil {
		if gone, err = l.keys.resolve(ctx, filter); err != nil {
			return err
		}
		l.report.Replaced = gone.GetCardinality()
		if l.report.Replaced == 0 {
			gone = nil
		}
	}
	if err := l.writeRecords(ctx, gone); err != nil {
		return err
	}
	m := merge{s: l.s, r: l.r, plan: plan, opts: l.opts, report: l.report, gone: gone}
	if err := m.run(ctx, l.sorter.Sorted(ctx)); err != nil {
		return err
	}
	if err := filter.save(l.s, l.r); err != nil {
		return err
	}
	return l.r.Commit(ctx, plan.String(), l.counters)
}

// defaultDocuments is what index.Options.ExpectedDocuments stands for where it is 0.
const defaultDocuments = 1_000_000

// choosePlan returns the plan for what was read, if nobody chose the one that there is.
func (l *load) choosePlan(plan *index.Plan, opts *index.Options) (*index.Plan, error) {
	if l.first > 1 || opts.Plan != nil || opts.ExpectedDocuments > 0 {
		return plan, nil
	}
	unasked, err := index.ChoosePlanWithin(plan.MaxDistance, defaultDocuments, opts.Limits, index.Costs{})
	if err != nil || unasked.Plan.String() != plan.String() {
		return plan, err
	}
	c, err := index.ChoosePlanWithin(plan.MaxDistance, int64(l.report.Loaded), opts.Limits, index.Costs{})
	if err != nil {
		return nil, err
	}
	l.r.SetTables(len(c.Plan.Tables))
	l.report.Tables = make([]TableReport, len(c.Plan.Tables))
	return c.Plan, nil
}

// read takes in all documents.
func (l *load) read(ctx context.Context, docs iter.Seq2[index.Document, error]) error {
	for doc, err := range docs {
		if err != nil {
			return err
		}
		if err := l.take(ctx, &doc); err != nil {
			return err
		}
		if l.report.Loaded%tellEvery == 0 {
			l.opts.progress(Progress{Stage: StageRead, Done: l.report.Loaded})
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	if err := l.sorter.Add(ctx, l.batch); err != nil {
		return err
	}
	l.batch = nil
	return l.records.flush()
}

func (l *load) take(ctx context.Context, doc *index.Document) error {
	if err := doc.Validate(); err != nil {
		return err
	}
	id := l.counters.NextID
	l.counters.NextID++
	l.counters.Documents++
	l.report.Loaded++
	l.batch = append(l.batch, loaded{store.Stored(uint64(doc.Fingerprint), doc.Scope), id})
	if len(l.batch) == batchLen {
		if err := l.sorter.Add(ctx, l.batch); err != nil {
			return err
		}
		l.batch = l.batch[:0]
	}
	record := store.Record{Fingerprint: uint64(doc.Fingerprint), Shingle: uint64(doc.Shingle), Tokens: uint32(doc.Tokens), Scope: doc.Scope, Key: doc.Key}
	if record.Bare() {
		l.counters.Bare++
		return nil
	}
	if err := l.records.add(id, record); err != nil {
		return err
	}
	if doc.Key == "" {
		return nil
	}
	if l.keys == nil {
		l.keys = newKeys(l.s, l.r, l.opts)
	}
	return l.keys.add(ctx, id, doc.Key)
}

// writeRecords deletes the records of what is replaced, writes those of what is
// loaded, and notes the time.
func (l *load) writeRecords(ctx context.Context, gone *roaring64.Bitmap) error {
	if gone != nil {
		for it := gone.Iterator(); it.HasNext(); {
			id := it.Next()
			l.counters.Documents--
			if id >= l.first {
				continue
			}
			if err := l.r.DeleteRecord(id); err != nil {
				return err
			}
		}
	}
	err := l.records.each(ctx, func(id uint64, record store.Record) error {
		if gone != nil && gone.Contains(id) {
			return nil
		}
		return l.r.AddRecord(id, record)
	})
	if err != nil {
		return err
	}
	return l.noteTime()
}

// noteTime writes when the documents arrived, unless the last entry of the clock
// says so already.
func (l *load) noteTime() (err error) {
	v, err := l.s.View()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	last, found, err := v.LastSecond()
	if err != nil {
		return err
	}
	second := uint64(max(l.now().Unix(), 0))
	if found && second == last {
		return nil
	}
	return l.r.AddClock(l.first, second)
}

func (l *load) close() error {
	err := errors.Join(l.sorter.Close(), l.records.close())
	if l.keys != nil {
		err = errors.Join(err, l.keys.close())
	}
	return err
}
