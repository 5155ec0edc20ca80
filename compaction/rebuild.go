package compaction

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/store"
)

// rebuild makes a new index of what was salvaged, in one commit.
func (r *repair) rebuild(ctx context.Context) error {
	survey := r.salvage.Survey(ctx, r.fault, nil)
	meta, err := survey.Meta()
	if err != nil {
		return err
	}
	plan, err := r.plan(meta)
	if err != nil {
		return err
	}
	header := store.Header{Plan: plan.String()}
	if meta.Header != nil {
		header.Analyzer = meta.Header.Analyzer
	}
	opts := Options{MemoryBytes: r.opts.MemoryBytes, FilterBytes: r.opts.FilterBytes, CacheBytes: r.opts.CacheBytes,
		Progress: r.opts.Progress, FS: r.opts.FS, Logger: r.opts.Logger}
	s, err := store.Open(r.dest, store.Options{Create: &header, CacheBytes: opts.CacheBytes, FS: opts.FS, Logger: opts.Logger})
	if err != nil {
		return err
	}
	b := &rebuilding{repair: r, ctx: ctx, survey: survey, s: s, opts: &opts, recorded: roaring64.New(), posted: roaring64.New()}
	b.counters.NextID = 1
	if c := meta.Counters; c != nil {
		b.counters.NextID, b.known = c.NextID, true
		r.report.DocumentsBefore, r.report.BareBefore = c.Documents, c.Bare
	}
	if b.r, err = s.NewReplacement(len(plan.Tables)); err != nil {
		return errors.Join(err, s.Close())
	}
	err = b.run(plan)
	return errors.Join(err, b.r.Close(), s.Close())
}

func (r *repair) plan(meta store.Meta) (*index.Plan, error) {
	if meta.Header != nil {
		if plan, err := index.ParsePlan(meta.Header.Plan); err == nil {
			return plan, nil
		}
	}
	if r.opts.Plan == nil {
		return nil, fmt.Errorf("%w: its plan cannot be read; say with which it was made", ErrNotRepaired)
	}
	return index.NewPlan(r.opts.Plan.MaxDistance, r.opts.Plan.Tables...)
}

// rebuilding is a new index on its way.
type rebuilding struct {
	*repair
	ctx    context.Context
	survey *store.Survey
	s      *store.Store
	r      *store.Replacement
	opts   *Options

	counters store.Counters
	known    bool              // the next ID is, so what is beyond cannot be
	recorded *roaring64.Bitmap // documents with a record
	posted   *roaring64.Bitmap // documents in a posting, bare ones
	sorter   *extsort.Sorter[loaded]
	batch    []loaded
	keys     *keys
	first    uint64 // the smallest ID
}

func (b *rebuilding) run(plan *index.Plan) (err error) {
	b.sorter = extsort.New[loaded](extsort.Options{MemoryBytes: b.opts.memoryBytes() / 2, Dir: b.r.Dir(), FS: b.opts.fs()})
	b.keys = newKeys(b.s, b.r, b.opts)
	defer func() { err = errors.Join(err, b.sorter.Close(), b.keys.close()) }()
	for _, step := range []func() error{b.readRecords, b.readPostings, b.countLost} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := b.sorter.Add(b.ctx, b.batch); err != nil {
		return err
	}
	report := &Report{Loaded: uint64(b.sorter.Len()), Tables: make([]TableReport, len(plan.Tables))}
	filter, err := newKeyFilter(b.ctx, b.s, b.keys.len(), b.opts.FilterBytes)
	if err != nil {
		return err
	}
	gone, err := b.keys.resolve(b.ctx, filter)
	if err != nil {
		return err
	}
	if b.report.Replaced = gone.GetCardinality(); b.report.Replaced == 0 {
		gone = nil
	}
	if err := b.writeRecords(gone); err != nil {
		return err
	}
	if err := b.writeClock(); err != nil {
		return err
	}
	m := merge{s: b.s, r: b.r, plan: plan, opts: b.opts, report: report, gone: gone}
	if err := m.run(b.ctx, b.sorter.Sorted(b.ctx)); err != nil {
		return err
	}
	if err := filter.save(b.s, b.r); err != nil {
		return err
	}
	b.counters.Documents = report.Loaded - b.report.Replaced
	b.counters.Bare = b.posted.GetCardinality()
	return b.r.Commit(b.ctx, plan.String(), b.counters)
}

// take notes a document and its fingerprint.
func (b *rebuilding) take(id, stored uint64) error {
	if b.first == 0 || id < b.first {
		b.first = id
	}
	b.counters.NextID = max(b.counters.NextID, id+1)
	b.batch = append(b.batch, loaded{stored, id})
	if len(b.batch) < batchLen {
		return nil
	}
	err := b.sorter.Add(b.ctx, b.batch)
	b.batch = b.batch[:0]
	return err
}

// usable reports whether an ID may be that of a document.
func (b *rebuilding) usable(id uint64) bool {
	return id > 0 && id < maxRepairedID && (!b.known || id < b.counters.NextID)
}

// maxRepairedID is beyond what a packed block can hold.
const maxRepairedID = 1 << 56

// readRecords takes every document that has a record.
func (b *rebuilding) readRecords() (err error) {
	scanErr := b.survey.Records(func(d store.DocumentRecord) bool {
		if !b.usable(d.ID) {
			b.report.Dropped++
			return true
		}
		b.recorded.Add(d.ID)
		if err = b.take(d.ID, store.Stored(d.Fingerprint, d.Scope)); err == nil && d.Key != "" {
			err = b.keys.add(b.ctx, d.ID, d.Key)
		}
		return err == nil
	})
	return errors.Join(err, scanErr)
}

// readPostings takes the documents that a posting has and no record.
func (b *rebuilding) readPostings() (err error) {
	_, scanErr := b.survey.Postings(func(p store.SurveyedPosting) bool {
		for id := range p.IDs.All() {
			if b.recorded.Contains(id) {
				continue
			}
			if !b.usable(id) || !b.posted.CheckedAdd(id) {
				b.report.Dropped++
				continue
			}
			if err = b.take(id, p.Stored); err != nil {
				return false
			}
		}
		return true
	})
	return errors.Join(err, scanErr)
}

// countLost counts the documents that an entry of a key names and that have no record.
func (b *rebuilding) countLost() error {
	return b.survey.Keys(func(_ uint64, ids store.IDs) bool {
		for id := range ids.All() {
			if !b.recorded.Contains(id) {
				b.report.RecordsLost++
			}
		}
		return true
	})
}

func (b *rebuilding) writeRecords(gone *roaring64.Bitmap) (err error) {
	again := b.salvage.Survey(b.ctx, func(store.Fault) {}, nil)
	scanErr := again.Records(func(d store.DocumentRecord) bool {
		if b.recorded.Contains(d.ID) && (gone == nil || !gone.Contains(d.ID)) {
			err = b.r.AddRecord(d.ID, d.Record)
		}
		return err == nil
	})
	return errors.Join(err, scanErr)
}

// writeClock writes the clock as far as it makes sense. Documents from before its first
// entry count as that old.
func (b *rebuilding) writeClock() (err error) {
	any := false
	scanErr := b.survey.Clock(func(first, second uint64) bool {
		if first == 0 || first > b.counters.NextID || second > math.MaxInt64 {
			b.report.Faults++
			return true
		}
		if !any && b.first != 0 {
			first = min(first, b.first)
		}
		any = true
		err = b.r.AddClock(first, second)
		return err == nil
	})
	if err = errors.Join(err, scanErr); err == nil && !any {
		err = b.r.AddClock(1, uint64(time.Now().Unix()))
	}
	return err
}
