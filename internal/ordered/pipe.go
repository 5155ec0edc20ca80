// Package ordered runs tasks on several goroutines and hands their results over in the
// order in which the tasks were begun, to one goroutine, however long each takes.
//
// What is made ahead of the one who takes it is bounded. Whoever stops early, and every
// error, ends all goroutines before the call returns.
package ordered

import (
	"context"
	"errors"
	"iter"
	"sync"
)

// errStopped is why a pipe's context ends when nobody takes its values any more.
var errStopped = errors.New("ordered: stopped")

// Pipe takes values and tasks in, and gives the values, and what the tasks return, out.
type Pipe[T any] struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	queue   chan *value[T]
	tasks   chan func(worker int)
	running sync.WaitGroup
	err     error // of produce, once queue is closed
}

// value is good once done is closed; nil: at once.
type value[T any] struct {
	value T
	err   error
	done  chan struct{}
}

// New calls produce in a goroutine. Tasks run on as many goroutines as there are
// workers, and at most ahead values and tasks wait to be taken. Stop must follow, or the
// parent's end where produce may hang.
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

// Context ends when nothing more is wanted.
func (p *Pipe[T]) Context() context.Context { return p.ctx }

// Send puts a value in. It waits until there is room. Several goroutines may call it.
func (p *Pipe[T]) Send(v T) error { return p.put(&value[T]{value: v}) }

func (p *Pipe[T]) put(v *value[T]) error {
	select {
	case p.queue <- v:
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// Go runs a task in a goroutine, with the number of a worker, from 0, that no other task
// has meanwhile. What it returns comes out behind all that was put in before. Go waits
// until there is room.
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

// Next returns the next value; ok is false when there is none left. An error is that of
// the value's task, of produce, or of the context.
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

// Ready reports whether there is a value that was put in, or begun, and not taken.
func (p *Pipe[T]) Ready() bool { return len(p.queue) > 0 }

// Stop ends the context, with a cause, and waits for all goroutines.
func (p *Pipe[T]) Stop(cause error) {
	p.cancel(cause)
	p.running.Wait()
}

// All yields what a pipe gives, whose workers, room and input are those of New. It stops
// at the first error, which it yields.
func All[T any](parent context.Context, workers, ahead int, produce func(*Pipe[T]) error) iter.Seq2[T, error] {
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
