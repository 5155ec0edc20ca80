package indextest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// nest makes calls within other calls: when the outer call checks its context, takes a snapshot,
// commits, or writes a file of a compaction or a checkpoint. Such histories depend on chance only
// by their seed, and reach moments that hardly ever occur between goroutines.
type nest struct {
	inner *worker
	rng   *rand.Rand
	calls sync.WaitGroup
	mu    sync.Mutex // held during an inner call, which gets no calls within
	left  int        // moments until the next inner call
	err   error
}

// innerPatience is how long an outer call waits for an inner one, which may itself wait for the
// outer call to release a lock.
const innerPatience = 2 * time.Millisecond

// write and read make an inner call of that sort now and then. The nest may be nil.
func (n *nest) write() { n.hook((*worker).writes) }
func (n *nest) read()  { n.hook((*worker).reads) }

func (n *nest) hook(sort func(*worker) func(context.Context) ([]*call, error)) {
	if n == nil || !n.mu.TryLock() {
		return
	}
	if n.left--; n.left > 0 {
		n.mu.Unlock()
		return
	}
	n.left = 1 + n.rng.IntN(1<<n.rng.IntN(6))
	done := make(chan struct{})
	n.calls.Go(func() {
		defer close(done)
		defer n.mu.Unlock()
		n.err = errors.Join(n.err, n.inner.callOrCompact(context.Background(), sort))
	})
	select {
	case <-done:
	case <-time.After(innerPatience):
	}
}

// hooked is a context that may make an inner call at each check.
type hooked struct {
	context.Context
	nest *nest
}

func (h hooked) Err() error {
	h.nest.write()
	return h.Context.Err()
}

// callOrCompact makes a call, or calls Meanwhile.
func (k *worker) callOrCompact(
	ctx context.Context, draw func(*worker) func(context.Context) ([]*call, error),
) error {
	if k.w.Meanwhile != nil && k.rng.IntN(16) == 0 {
		return k.w.Meanwhile(ctx, k.w.Index)
	}
	return k.call(ctx, draw(k))
}

// nested makes the calls of a round with one outer and one inner worker.
func (w *World) nested(outer, inner *worker) (err error) {
	n := &nest{inner: inner, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 2))}
	w.nest = n
	w.Around(w.Index, n.write, n.read)
	for range outer.plan.Calls * Workers {
		if err = outer.callOrCompact(hooked{context.Background(), n}, (*worker).draws); err != nil {
			break
		}
	}
	n.calls.Wait()
	w.nest = nil
	w.Around(w.Index, nil, nil)
	return errors.Join(err, n.err)
}
