package index

import (
	"context"
)

// Add stores documents as they are, whatever is stored already, in one atomic
// batch, and sets ID and Added of each in docs. A document whose Key is known
// replaces the one that has it; of several with one Key in docs the last counts,
// and the others get its ID.
//
// It returns when the batch is as durable as Options.Durability says. Errors:
// ErrTooLarge, ErrReadOnly, ErrFailed, ErrClosed, ctx's; nothing is stored then,
// unless the disk failed in the very moment (ErrFailed on the next write).
func (x *Index) Add(ctx context.Context, docs ...Document) error {
	if err := x.beginWrite(ctx); err != nil {
		return err
	}
	defer x.end()
	for i := range docs {
		if err := Validate(&docs[i]); err != nil {
			return err
		}
	}
	if err := x.checkSize(docs); err != nil {
		return err
	}
	if len(docs) == 0 {
		return nil
	}
	finish, err := x.add(ctx, docs)
	if err != nil {
		return err
	}
	return finish()
}

func (x *Index) add(ctx context.Context, docs []Document) (finish func() error, err error) {
	f := newFlight(docs)
	if err := x.flights.enter(ctx, f, x.rule()); err != nil {
		return nil, err
	}
	defer x.flights.leave(f)

	last := make(map[string]int, len(docs))
	for i := range docs {
		last[docs[i].Key] = i
	}
	var c change
	for i := range docs {
		if docs[i].Key != "" && last[docs[i].Key] != i {
			continue
		}
		c.add = append(c.add, &docs[i])
		if docs[i].Key == "" {
			continue
		}
		if _, _, err := c.replace(x, docs[i].Key); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if finish, err = x.apply(&c); err != nil {
		return nil, err
	}
	for i := range docs {
		if j := last[docs[i].Key]; docs[i].Key != "" && j != i {
			docs[i].ID, docs[i].Added = docs[j].ID, docs[j].Added
		}
	}
	return finish, nil
}
