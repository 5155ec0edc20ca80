package selfjoin

import (
	"iter"

	"github.com/neardup/neardup/internal/extsort"
)

// cursor reads records one after the other. stop must follow.
type cursor[R extsort.Record] struct {
	next func() ([]R, error, bool)
	stop func()
	part []R
}

func newCursor[R extsort.Record](records iter.Seq2[[]R, error]) *cursor[R] {
	next, stop := iter.Pull2(records)
	return &cursor[R]{next: next, stop: stop}
}

// read returns the next record; none is left if it reports false.
func (c *cursor[R]) read() (r R, ok bool, err error) {
	for len(c.part) == 0 {
		if c.part, err, ok = c.next(); !ok || err != nil {
			return r, false, err
		}
	}
	r, c.part = c.part[0], c.part[1:]
	return r, true, nil
}
