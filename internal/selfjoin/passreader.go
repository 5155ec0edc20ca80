package selfjoin

import (
	"context"
	"errors"
)

// passReader takes the fingerprints of a pass in order.
type passReader struct {
	*external
	ctx   context.Context
	step  *step
	order *permutation
	last  fp        // as sorted
	n     int       // copies of it so far; 0 at the beginning
	begin int       // of the last group, in batch
	large *tempFile // that group, if it does not fit
}

func (g *passReader) add(sorted fp) error {
	if g.n > 0 && sorted == g.last {
		if g.n++; g.n == 2 {
			return g.again(g.order.back.apply(sorted))
		}
		return nil
	}
	if g.n > 0 && (sorted^g.last)>>(64-g.order.width) != 0 {
		if err := g.endGroup(); err != nil {
			return err
		}
	}
	g.n, g.last = 1, sorted
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

func (g *passReader) addLarge(f fp) error {
	if g.large == nil {
		return nil
	}
	return g.large.add([]fp{f})
}

// makeRoom joins the groups that are complete; the last one goes to a file if it takes
// all the room there is.
func (g *passReader) makeRoom() (err error) {
	if g.begin == 0 {
		if g.large, err = g.tempFile(); err == nil {
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

func (g *passReader) endGroup() error {
	if large := g.large; large != nil {
		// The recursion uses the batch, which is empty.
		g.large = nil
		err := large.finish()
		if err == nil {
			err = g.pairsOf(g.ctx, large, g.step.constraint)
		}
		return errors.Join(err, large.remove())
	}
	g.ends = append(g.ends, len(g.batch))
	g.begin = len(g.batch)
	return nil
}

// flush joins the groups that are complete.
func (g *passReader) flush() error {
	fps := g.batch[:g.begin]
	g.parts(fps, g.ends, g.step.constraint, func(begin, end int) {
		g.joinParallel(fps[begin:end], g.room[:end-begin], g.step.constraint, true)
	})
	g.ends = g.ends[:0]
	return g.failed()
}

func (g *passReader) end() error {
	if g.n == 0 {
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
func (g *passReader) drop() error {
	if g.large == nil {
		return nil
	}
	return g.large.remove()
}
