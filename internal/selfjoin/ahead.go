package selfjoin

import (
	"context"
	"errors"
)

// aheadLen is the number of slices that may wait to be used.
const aheadLen = 32

var errStopped = errors.New("stopped by the caller")

// Ahead runs produce in a goroutine, which sends what it has, from any number of
// goroutines, and calls use with it, in this one, until that returns false. A few
// slices are made ahead; then send waits. It returns the error of produce, which has ended
// by then, and nil when use stopped it.
func Ahead[T any](parent context.Context, produce func(ctx context.Context, send func([]T) error) error, use func([]T) bool) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	made := make(chan []T, aheadLen)
	done := make(chan error, 1)
	go func() {
		err := produce(ctx, func(part []T) error {
			select {
			case made <- part:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		close(made)
		done <- err
	}()
	stopped := false
	for part := range made {
		if !stopped && !use(part) {
			stopped = true
			cancel(errStopped)
		}
	}
	err := <-done
	if stopped {
		return nil
	}
	return err
}
