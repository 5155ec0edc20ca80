package filter

import (
	"context"
	"iter"
)

// Loading is the loading of a set in the background. The zero Loading is finished.
type Loading struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at the end, with or without an error
}

// Start calls load in the background. It calls done with the error of load, or with nil if the
// Loading was closed.
func (l *Loading) Start(load func(context.Context) error, done func(error)) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.done = cancel, make(chan struct{})
	go func() {
		defer close(l.done)
		err := load(ctx)
		if ctx.Err() != nil {
			err = nil
		}
		done(err)
	}()
}

// Wait waits until the loading ends. If ctx ends first, it returns the error of ctx.
func (l *Loading) Wait(ctx context.Context) error {
	if l.done == nil {
		return nil
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close stops the loading and waits for its end.
func (l *Loading) Close() {
	if l.done != nil {
		l.cancel()
		<-l.done
	}
}

// untilDone yields the elements of a sequence. When the context is done, it yields its error.
func untilDone[T any](ctx context.Context, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range seq {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// atMost returns the elements of a sequence, which has about expected ones. If it has more than
// most, few is false.
func atMost(
	ctx context.Context, seq iter.Seq2[uint64, error], expected, most int64,
) (all []uint64, few bool, err error) {
	all = make([]uint64, 0, min(expected, most))
	for v, err := range untilDone(ctx, seq) {
		if err != nil || int64(len(all)) == most {
			return nil, false, err
		}
		all = append(all, v)
	}
	return all, true, nil
}
