package selfjoin

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/neardup/neardup/internal/extsort"
)

// ErrMemory: the memory does not hold fingerprints that have to be compared at once.
var ErrMemory = errors.New("selfjoin: not enough memory")

const (
	defaultMemory = 1 << 30
	minMemory     = 16 << 20
)

// External is Each for more fingerprints than memory holds: it writes them to a file
// and sorts this by one block after the other, so it takes k+1 external sorts or
// more. Equal fingerprints count as one. Fingerprints that share more bits than a
// block are spooled and divided again. Errors: ErrDistance; ErrMemory, where that comes
// to nothing (k above 12 or so); those of the source, of files, and ctx's.
func External(ctx context.Context, source iter.Seq2[[]fp, error], o Options, found func(worker int, pairs []Pair) error) (err error) {
	scratch, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.close()) }()
	e := newExternal(scratch, o.MemoryBytes, newJoin(o.MaxDistance, o.Workers, found))
	all, err := e.read(ctx, source)
	if err != nil {
		return err
	}
	return errors.Join(e.pairs(ctx, all), all.remove())
}

// open checks the options, fills in defaults and makes the folder of temporary files.
func (o *Options) open() (*scratch, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = defaultMemory
	}
	o.MemoryBytes = max(o.MemoryBytes, minMemory)
	return newScratch(o.Dir)
}

// read spools a source.
func (e *external) read(ctx context.Context, source iter.Seq2[[]fp, error]) (*tempFile, error) {
	all, err := e.tempFile()
	if err != nil {
		return nil, err
	}
	for fps, err := range source {
		if err = errors.Join(err, ctx.Err()); err == nil {
			err = all.add(fps)
		}
		if err != nil {
			return nil, errors.Join(err, all.remove())
		}
	}
	return all, all.finish()
}

// pairs finds the pairs of all that was spooled.
func (e *external) pairs(ctx context.Context, all *tempFile) error {
	stop := context.AfterFunc(ctx, func() { e.fail(context.Cause(ctx)) })
	defer stop()
	var err error
	switch {
	case e.k > 0:
		err = e.pairsOf(ctx, all, constraint{free: ^fp(0), budget: e.k})
	case e.repeated != nil:
		err = e.eachDistinct(ctx, all, func(fp) error { return nil })
	}
	if err != nil {
		return err
	}
	return e.finish()
}

type external struct {
	*join
	scratch *scratch
	memory  int64
	batch   []fp  // groups that are complete, and the one that is not
	ends    []int // of those
	room    []fp
	depth   int // of groups that did not fit within others

	// repeated is told, at least once, of each fingerprint that is there twice or more;
	// nil: nobody wants to know.
	repeated func(fp) error
}

func newExternal(scratch *scratch, memory int64, j *join) *external {
	// Half is for sorting.
	n := memory / 4 / 8
	return &external{join: j, scratch: scratch, memory: memory, batch: make([]fp, 0, n), room: make([]fp, n)}
}

// again notes that a fingerprint is there once more.
func (e *external) again(f fp) error {
	if e.repeated == nil {
		return nil
	}
	return e.repeated(f)
}

// pairsOf finds the pairs of what was spooled.
func (e *external) pairsOf(ctx context.Context, all *tempFile, c constraint) error {
	if all.len <= int64(cap(e.batch)) {
		return e.inMemory(all, c)
	}
	e.depth++
	defer func() { e.depth-- }()
	s := c.smaller(all.len, e.k, all.differing())
	if s.none() && !all.distinct {
		return e.distinctOf(ctx, all, c)
	}
	if s.none() {
		return fmt.Errorf("%w: %d fingerprints within %d bits would all be compared with each other; %d fit", ErrMemory, all.len, e.k, cap(e.batch))
	}
	for step := range c.steps(&s) {
		if err := e.pass(ctx, all, &step); err != nil {
			return err
		}
	}
	return nil
}

// distinctOf finds the pairs of the distinct ones of what was spooled.
func (e *external) distinctOf(ctx context.Context, all *tempFile, c constraint) error {
	distinct, err := e.tempFile()
	if err != nil {
		return err
	}
	distinct.distinct = true
	err = errors.Join(e.eachDistinct(ctx, all, func(f fp) error { return distinct.add([]fp{f}) }), distinct.finish())
	if err == nil {
		err = e.pairsOf(ctx, distinct, c)
	}
	return errors.Join(err, distinct.remove())
}

// eachDistinct calls f with the distinct ones of what was spooled, ascending.
func (e *external) eachDistinct(ctx context.Context, all *tempFile, f func(fp) error) error {
	var last fp
	n := 0 // copies of it so far
	return e.sorted(ctx, all, func(f fp) fp { return f }, func(next fp) error {
		if n > 0 && next == last {
			if n++; n == 2 {
				return e.again(next)
			}
			return nil
		}
		last, n = next, 1
		return f(next)
	})
}

// sorted calls f with what order makes of each fingerprint that was spooled, ascending.
func (e *external) sorted(ctx context.Context, all *tempFile, order func(fp) fp, f func(fp) error) (err error) {
	sorter := extsort.New[[1]uint64](extsort.Options{MemoryBytes: e.memory >> e.depth, Dir: e.scratch.dir})
	defer func() { err = errors.Join(err, sorter.Close()) }()
	for records, err := range all.all() {
		if err == nil {
			err = e.failed()
		}
		if err != nil {
			return err
		}
		for i := range records {
			records[i][0] = uint64(order(fp(records[i][0])))
		}
		if err := sorter.Add(ctx, records); err != nil {
			return err
		}
	}
	for run, err := range sorter.Sorted(ctx) {
		if err != nil {
			return err
		}
		for i := range run {
			if err := f(fp(run[i][0])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *external) inMemory(all *tempFile, c constraint) error {
	e.batch = e.batch[:0]
	for f, err := range all.each() {
		if err != nil {
			return err
		}
		e.batch = append(e.batch, fp(f[0]))
	}
	fps := e.batch
	sortAll(fps) // equal ones may be there
	distinct := fps[:0]
	n := 0 // copies so far
	for i, f := range fps {
		if i == 0 || f != fps[i-1] {
			distinct, n = append(distinct, f), 1
			continue
		}
		if n++; n == 2 {
			if err := e.again(f); err != nil {
				return err
			}
		}
	}
	e.joinParallel(distinct, e.room[:len(distinct)], c, true)
	e.batch = e.batch[:0]
	return e.failed()
}

// pass sorts what was spooled by a block, and finds the pairs that agree in it.
func (e *external) pass(ctx context.Context, all *tempFile, s *step) (err error) {
	order := newPermutation(s.block)
	g := &passReader{external: e, ctx: ctx, step: s, order: order}
	e.batch, e.ends = e.batch[:0], e.ends[:0]
	if err := e.sorted(ctx, all, order.forth.apply, g.add); err != nil {
		return errors.Join(err, g.drop())
	}
	return g.end()
}
