package selfjoin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"

	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/radix"
)

const (
	defaultMemory = 1 << 30
	minMemory     = 16 << 20
)

// ExternalPairs is Set.Each for more fingerprints than memory holds. It sorts them, so that
// equal ones count as one, and then distributes them to files by one block after the
// other: k+1 times or more. What agrees in a block is joined in memory; if it does not fit,
// it is distributed by further blocks. It refuses a distance beyond 64, and fails where no block
// tells the fingerprints apart (k above 12 or so). Other errors are those of the source, of files, and ctx's.
func ExternalPairs(ctx context.Context, source iter.Seq2[[]fp, error], o Options, found func(worker int, pairs []Pair) error) (err error) {
	files, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.close()) }()
	e := &external{join: newJoin(o.MaxDistance, o.Workers, found), files: files, memory: o.MemoryBytes}
	return e.pairs(ctx, source, func(fp) {})
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

// external is a join of what is in files.
type external struct {
	*join
	files       *scratch
	memory      int64
	group, room []fp // for what fits in memory, of the same capacity
}

// fpFile is distinct fingerprints.
type fpFile = recordFile[[1]uint64]

// pairs finds the pairs of a source. It tells repeated of each fingerprint that is there
// more than once.
func (e *external) pairs(ctx context.Context, source iter.Seq2[[]fp, error], repeated func(fp)) error {
	all, err := e.distinct(ctx, source, repeated)
	if err != nil || e.k == 0 {
		return err
	}
	defer context.AfterFunc(ctx, func() { e.fail(context.Cause(ctx)) })()
	fits := e.memory / 8 * 3 / 8
	e.group, e.room = make([]fp, 0, fits), make([]fp, fits)
	if err := e.pairsOf(all, constraint{free: ^fp(0), budget: e.k}); err != nil {
		return err
	}
	return errors.Join(all.remove(), e.finish())
}

// distinct sorts a source.
func (e *external) distinct(ctx context.Context, source iter.Seq2[[]fp, error], repeated func(fp)) (_ *fpFile, err error) {
	// The rest is for who reads the source, and for garbage.
	sorter := extsort.New[[1]uint64](extsort.Options{MemoryBytes: e.memory / 4 * 3, Dir: e.files.dir})
	defer func() { err = errors.Join(err, sorter.Close()) }()
	for fps, err := range source {
		if err == nil {
			err = sorter.Add(ctx, radix.Words(fps))
		}
		if err != nil {
			return nil, err
		}
	}
	all := newRecordFile[[1]uint64](e.files, bufferBytes)
	var last [1]uint64
	copies := 0 // of last
	for run, err := range sorter.Sorted(ctx) {
		if err != nil {
			return nil, err
		}
		for _, f := range run {
			if copies > 0 && f == last {
				if copies++; copies == 2 {
					repeated(fp(f[0]))
				}
				continue
			}
			last, copies = f, 1
			if err := all.add(f); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// pairsOf finds the pairs of a file.
func (e *external) pairsOf(all *fpFile, c constraint) error {
	if all.len() <= int64(cap(e.group)) {
		if err := e.load(all); err != nil {
			return err
		}
		e.joinParallel(e.group, e.room[:len(e.group)], c, true)
		return e.failed()
	}
	s := c.smaller(all.len(), e.k, fp(all.differing()))
	if s.none() {
		return fmt.Errorf("%w: %d fingerprints within %d bits would all be compared with each other; %d fit", errMemory, all.len(), e.k, cap(e.group))
	}
	for step := range c.steps(&s) {
		parts, err := e.distribute(all, step.block)
		for _, part := range parts {
			if err == nil {
				err = e.pairsOfPart(part, &step)
			}
			err = errors.Join(err, part.remove())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pairsOfPart finds the pairs of a part that agree in the step's block.
func (e *external) pairsOfPart(part *fpFile, s *step) error {
	if part.len() > int64(cap(e.group)) {
		return e.pairsOf(part, s.constraint)
	}
	if err := e.load(part); err != nil {
		return err
	}
	group, room := e.group, e.room[:len(e.group)]
	e.parts(room, e.divide(group, room, s.block), s.constraint, func(begin, end int) {
		e.joinParallel(room[begin:end], group[begin:end], s.constraint, true)
	})
	return e.failed()
}

// maxFileBits bounds how many files are written at once.
const maxFileBits = 8

// distribute writes what agrees in a block to the same one of some files: so many that
// each fits in memory, if no value of the block is too frequent. They are to be removed
// after an error too.
func (e *external) distribute(all *fpFile, block fp) (parts []*fpFile, err error) {
	filled := max(uint64(cap(e.group))/3*2, 1)
	k := keyOf(block, min(bits.Len64(uint64(all.len())/filled), maxFileBits))
	for range 1 << k.width {
		parts = append(parts, newRecordFile[[1]uint64](e.files, e.memory/8>>k.width))
	}
	for records, err := range all.all() {
		if err == nil {
			err = e.failed()
		}
		if err != nil {
			return parts, err
		}
		for _, f := range records {
			if err := parts[k.of(fp(f[0]))].add(f); err != nil {
				return parts, err
			}
		}
	}
	return parts, nil
}

// load reads a file into group.
func (e *external) load(file *fpFile) error {
	e.group = e.group[:0]
	for records, err := range file.all() {
		if err != nil {
			return err
		}
		for _, f := range records {
			e.group = append(e.group, fp(f[0]))
		}
	}
	return nil
}
