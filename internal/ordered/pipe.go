// Package ordered runs tasks on several goroutines and returns their results to one goroutine, in
// the order in which the tasks were started.
//
// The number of results that wait for the receiver is bounded. If the receiver stops early or an
// error occurs, all goroutines end before the call returns.
package ordered

import (
	"context"
	"errors"
	"iter"
	"sync"
)

// errStopped is the cause of the end of a pipe's context when the receiver stops.
var errStopped = errors.New("ordered: stopped")

// Pipe accepts values and tasks, and returns the values and the results of the tasks.
type Pipe[T any] struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	queue   chan *value[T]
	tasks   chan func(worker int)
	running sync.WaitGroup
	err     error // of produce, once queue is closed
}

// value is valid after done is closed, or at once if done is nil.
type value[T any] struct {
	value T
	err   error
	done  chan struct{}
}

// New calls produce in a goroutine. Tasks run on one goroutine per worker, and at most ahead values
// and tasks wait for the receiver. The caller must call Stop, which waits for produce and all
// tasks. If produce may block outside of the Pipe, the caller may end the parent context instead,
// which does not wait.
func New[T any](parent context.Context, workers, ahead int, produce func(*Pipe[T]) error) *Pipe[T] {
	p := &Pipe[T]{queue: make(chan *value[T], ahead), tasks: make(chan func(int), ahead)}
	p.ctx, p.cancel = context.WithCancelCause(parent)
	for worker := range workers {
		p.running.Go(func() {
			for task := range p.tasks {
				task(worker)
			}
		})
	}
	p.running.Go(func() {
		defer close(p.queue)
		defer close(p.tasks)
		p.err = produce(p)
	})
	return p
}

// Context returns the context of the pipe, which ends when the receiver stops.
func (p *Pipe[T]) Context() context.Context { return p.ctx }

// Send adds a value. It waits until there is room. It is safe for concurrent use.
func (p *Pipe[T]) Send(v T) error { return p.put(&value[T]{value: v}) }

func (p *Pipe[T]) put(v *value[T]) error {
	select {
	case p.queue <- v:
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// Go runs a task in a goroutine, with the number of a worker, from 0, that no other running task
// has. The result of the task follows all values and tasks that were added before. Go waits until
// there is room.
func (p *Pipe[T]) Go(task func(worker int) (T, error)) error {
	v := &value[T]{done: make(chan struct{})}
	if err := p.put(v); err != nil {
		return err
	}
	select {
	case p.tasks <- func(worker int) {
		v.value, v.err = task(worker)
		close(v.done)
	}:
		return nil
	case <-p.ctx.Done():
		v.err = context.Cause(p.ctx)
		close(v.done)
		return v.err
	}
}

// Next returns the next value, or false if there are no more values. The error is the error of the
// value's task, of produce, or of the context.
func (p *Pipe[T]) Next() (v T, ok bool, err error) {
	if p.ctx.Err() != nil {
		return v, false, context.Cause(p.ctx)
	}
	var next *value[T]
	select {
	case next, ok = <-p.queue:
	case <-p.ctx.Done():
		return v, false, context.Cause(p.ctx)
	}
	if !ok {
		if p.err != nil && p.ctx.Err() != nil {
			return v, false, context.Cause(p.ctx)
		}
		return v, false, p.err
	}
	if next.done != nil {
		<-next.done
	}
	return next.value, next.err == nil, next.err
}

// Ready reports whether a value or task waits for the receiver.
func (p *Pipe[T]) Ready() bool { return len(p.queue) > 0 }

// Stop ends the context, with a cause, and waits for all goroutines.
func (p *Pipe[T]) Stop(cause error) {
	p.cancel(cause)
	p.running.Wait()
}

// Parts divides the numbers from 0 to n-1 into parts of size numbers, of which the last may have
// fewer. It yields the results of a task for each part, in order. The other parameters are the
// parameters of New.
func Parts[T any](
	parent context.Context, workers, ahead, n, size int,
	task func(ctx context.Context, worker, from, to int) (T, error),
) iter.Seq2[T, error] {
	return All(parent, workers, ahead, func(p *Pipe[T]) error {
		for from := 0; from < n; from += size {
			if err := p.Go(func(worker int) (T, error) {
				return task(p.Context(), worker, from, min(from+size, n))
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// All yields the values of a pipe. Its parameters are the parameters of New. It yields the first
// error and stops.
func All[T any](
	parent context.Context, workers, ahead int, produce func(*Pipe[T]) error,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p := New(parent, workers, ahead, produce)
		defer p.Stop(errStopped)
		for {
			v, ok, err := p.Next()
			if err != nil {
				var none T
				p.Stop(err)
				yield(none, err)
				return
			}
			if !ok || !yield(v, nil) {
				return
			}
		}
	}
}
