package selfjoin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
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

// grouping takes the fingerprints of a pass in order.
type grouping struct {
	*external
	ctx   context.Context
	step  *step
	order *permutation
	last  fp
	any   bool
	begin int    // of the last group, in batch
	large *spool // that group, if it does not fit
}

func (g *grouping) add(sorted fp) error {
	if g.any && sorted == g.last {
		return nil
	}
	if g.any && (sorted^g.last)>>(64-g.order.width) != 0 {
		if err := g.endGroup(); err != nil {
			return err
		}
	}
	g.any, g.last = true, sorted
	f := g.order.back.apply(sorted)
	if g.large != nil {
		return g.large.add([]fp{f})
	}
	if len(g.batch) == cap(g.batch) {
		if err := g.makeRoom(); err != nil || g.large != nil {
			return errors.Join(err, g.addLarge(f))
		}
	}
	g.batch = append(g.batch, f)
	return nil
}

func (g *grouping) addLarge(f fp) error {
	if g.large == nil {
		return nil
	}
	return g.large.add([]fp{f})
}

// makeRoom joins the groups that are complete; the last one goes to a file if it takes
// all the room there is.
func (g *grouping) makeRoom() (err error) {
	if g.begin == 0 {
		if g.large, err = g.spool(); err == nil {
			err = g.large.add(g.batch)
		}
		g.batch = g.batch[:0]
		return err
	}
	last := g.batch[g.begin:]
	if err := g.flush(); err != nil {
		return err
	}
	g.batch = append(g.batch[:0], last...)
	g.begin = 0
	return nil
}

func (g *grouping) endGroup() error {
	if large := g.large; large != nil {
		// The recursion uses the batch, which is empty.
		g.large = nil
		if err := large.finish(); err != nil {
			return errors.Join(err, large.remove())
		}
		return g.pairsOf(g.ctx, large, g.step.constraint)
	}
	g.ends = append(g.ends, len(g.batch))
	g.begin = len(g.batch)
	return nil
}

// flush joins the groups that are complete.
func (g *grouping) flush() error {
	fps := g.batch[:g.begin]
	threshold := max(minLarge, len(fps)/(minShare*len(g.workers)))
	g.parts(fps, g.ends, threshold, g.step.constraint)
	begin := 0
	for _, end := range g.ends {
		if end-begin > threshold {
			g.external.large(fps[begin:end], g.room[:end-begin], g.step.constraint, true)
		}
		begin = end
	}
	g.ends = g.ends[:0]
	return g.failed()
}

func (g *grouping) end() error {
	if !g.any {
		return nil
	}
	if err := g.endGroup(); err != nil {
		return err
	}
	err := g.flush()
	g.batch = g.batch[:0]
	return err
}

// drop removes what was begun.
func (g *grouping) drop() error {
	if g.large == nil {
		return nil
	}
	return g.large.remove()
}

// permutation moves the bits of a block to the top, and back.
type permutation struct {
	forth, back bitMap
	width       int
}

// bitMap has what each byte of a fingerprint adds.
type bitMap [8][256]fp

func (m *bitMap) apply(f fp) fp {
	return m[0][byte(f)] | m[1][byte(f>>8)] | m[2][byte(f>>16)] | m[3][byte(f>>24)] |
		m[4][byte(f>>32)] | m[5][byte(f>>40)] | m[6][byte(f>>48)] | m[7][byte(f>>56)]
}

func (m *bitMap) set(from, to int) {
	for value := range 256 {
		if value>>(from%8)&1 != 0 {
			m[from/8][value] |= 1 << to
		}
	}
}

func newPermutation(block fp) *permutation {
	p := &permutation{width: bits.OnesCount64(uint64(block))}
	high, low := 64-p.width, 0
	for bit := range 64 {
		to := &low
		if block>>bit&1 != 0 {
			to = &high
		}
		p.forth.set(bit, *to)
		p.back.set(*to, bit)
		*to++
	}
	return p
}
