package selfjoin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/neardup/neardup/internal/extsort"
)

// ErrMemory: the memory does not hold fingerprints that have to be compared at once.
var ErrMemory = errors.New("selfjoin: not enough memory")

// ExternalOptions of External.
type ExternalOptions struct {
	Options

	// MemoryBytes is about what is taken in all; default 1 GiB, at least 16 MiB.
	MemoryBytes int64

	// Dir is where temporary files go: at most 16 bytes a fingerprint, as a rule. They
	// are gone when External returns. Default os.TempDir().
	Dir string
}

const (
	defaultMemory = 1 << 30
	minMemory     = 16 << 20
)

// External is Each for more fingerprints than memory holds: it writes them to a file
// and sorts this by one block after the other, so it takes k+1 external sorts or
// more. Equal fingerprints count as one. Fingerprints that share more bits than a
// block are spooled and divided again. Errors: ErrDistance; ErrMemory, where that comes
// to nothing (k above 12 or so); those of the source, of files, and ctx's.
func External(ctx context.Context, source iter.Seq2[[]fp, error], o ExternalOptions, found func(worker int, pairs []Pair) error) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = defaultMemory
	}
	dir, err := os.MkdirTemp(o.Dir, "neardup-selfjoin-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	e := newExternal(dir, max(o.MemoryBytes, minMemory), newJoin(o.MaxDistance, o.Workers, found))
	stop := context.AfterFunc(ctx, func() { e.fail(context.Cause(ctx)) })
	defer stop()
	all, err := e.spool()
	for fps, sourceErr := range source {
		if err == nil {
			err = errors.Join(sourceErr, ctx.Err())
		}
		if err == nil {
			err = all.add(fps)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = all.finish()
	}
	if err != nil || o.MaxDistance == 0 {
		return err
	}
	if err := e.pairsOf(ctx, all, constraint{free: ^fp(0), budget: o.MaxDistance}); err != nil {
		return err
	}
	return e.finish()
}

type external struct {
	*join
	dir    string
	memory int64
	batch  []fp  // groups that are complete, and the one that is not
	ends   []int // of those
	room   []fp
	depth  int // of groups that did not fit within others
}

func newExternal(dir string, memory int64, j *join) *external {
	// Half is for sorting.
	n := memory / 4 / 8
	return &external{join: j, dir: dir, memory: memory, batch: make([]fp, 0, n), room: make([]fp, n)}
}

// pairsOf finds the pairs of what was spooled, which it removes.
func (e *external) pairsOf(ctx context.Context, all *spool, c constraint) (err error) {
	defer func() { err = errors.Join(err, all.remove()) }()
	if all.len <= int64(cap(e.batch)) {
		return e.inMemory(all, c)
	}
	e.depth++
	defer func() { e.depth-- }()
	n := int(min(all.len, 1<<40))
	s := c.smaller(n, e.k, all.differing())
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
func (e *external) distinctOf(ctx context.Context, all *spool, c constraint) error {
	distinct, err := e.spool()
	if err != nil {
		return err
	}
	distinct.distinct = true
	var last fp
	err = e.sorted(ctx, all, func(f fp) fp { return f }, func(f fp) error {
		if f == last && distinct.len > 0 {
			return nil
		}
		last = f
		return distinct.add([]fp{f})
	})
	if err = errors.Join(err, distinct.finish()); err != nil {
		return errors.Join(err, distinct.remove())
	}
	return e.pairsOf(ctx, distinct, c)
}

// sorted calls f with what order makes of each fingerprint that was spooled, ascending.
func (e *external) sorted(ctx context.Context, all *spool, order func(fp) fp, f func(fp) error) (err error) {
	sorter := extsort.New[[1]uint64](extsort.Options{MemoryBytes: e.memory >> e.depth, Dir: e.dir})
	defer func() { err = errors.Join(err, sorter.Close()) }()
	var records [][1]uint64
	for fps, err := range all.read() {
		if err == nil {
			err = e.failed()
		}
		if err != nil {
			return err
		}
		records = records[:0]
		for _, f := range fps {
			records = append(records, [1]uint64{uint64(order(f))})
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

func (e *external) inMemory(all *spool, c constraint) error {
	e.batch = e.batch[:0]
	for fps, err := range all.read() {
		if err != nil {
			return err
		}
		e.batch = append(e.batch, fps...)
	}
	fps := e.batch
	sortAll(fps) // equal ones may be there
	distinct := fps[:0]
	for i, f := range fps {
		if i == 0 || f != fps[i-1] {
			distinct = append(distinct, f)
		}
	}
	e.large(distinct, e.room[:len(distinct)], c, true)
	e.batch = e.batch[:0]
	return e.failed()
}

// pass sorts what was spooled by a block, and finds the pairs that agree in it.
func (e *external) pass(ctx context.Context, all *spool, s *step) (err error) {
	order := newPermutation(s.block)
	g := &grouping{external: e, ctx: ctx, step: s, order: order}
	e.batch, e.ends = e.batch[:0], e.ends[:0]
	if err := e.sorted(ctx, all, order.forth.apply, g.add); err != nil {
		return errors.Join(err, g.drop())
	}
	return g.end()
}
