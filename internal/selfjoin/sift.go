package selfjoin

import (
	"context"
	"errors"

	"github.com/neardup/neardup/internal/extsort"
)

// sift calls f with all records of a file, which it removes, and returns one of those
// that f does not take, and of what f adds to it.
func sift[R extsort.Record](ctx context.Context, scratch *scratch, file *recordFile[R], f func(rest *recordFile[R], r R) (taken bool, err error)) (*recordFile[R], error) {
	if err := file.finish(); err != nil {
		return nil, err
	}
	rest, err := newRecordFile[R](scratch)
	if err != nil {
		return nil, err
	}
	for part, err := range file.all() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		for _, r := range part {
			taken, err := f(rest, r)
			if err == nil && !taken {
				err = rest.add(r)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return rest, errors.Join(rest.finish(), file.remove())
}
