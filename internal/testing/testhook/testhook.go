// Package testhook lets tests decide what is otherwise decided by cost, or by who calls. Without one, nothing
// of it has an effect.
package testhook

import (
	"context"
	"sync/atomic"
)

type scannedBatches struct{}

// WithScannedBatches returns a context in which index.QueryBatch answers its queries by a pass
// over the index, or one by one.
func WithScannedBatches(ctx context.Context, scanned bool) context.Context {
	return context.WithValue(ctx, scannedBatches{}, scanned)
}

// ScannedBatches returns the value set by WithScannedBatches.
func ScannedBatches(ctx context.Context) (scanned, set bool) {
	scanned, set = ctx.Value(scannedBatches{}).(bool)
	return scanned, set
}

type parts struct{ searched, applied int }

// WithParts returns a context by which index.CheckAndAddBatch applies a window in parts of so many documents,
// and searches for so many at a time.
func WithParts(ctx context.Context, searched, applied int) context.Context {
	return context.WithValue(ctx, parts{}, parts{searched, applied})
}

// Parts returns what WithParts has set.
func Parts(ctx context.Context) (searched, applied int, set bool) {
	p, set := ctx.Value(parts{}).(parts)
	return p.searched, p.applied, set
}

// Countdown is a context that is cancelled when it is asked for the n-th time.
type Countdown struct {
	context.Context
	cancel context.CancelFunc
	asked  atomic.Int64
	n      int64
}

// NewCountdown returns one that is never cancelled if n is negative.
func NewCountdown(n int64) *Countdown {
	ctx, cancel := context.WithCancel(context.Background())
	return &Countdown{Context: ctx, cancel: cancel, n: n}
}

// Asked returns how many times it was asked.
func (c *Countdown) Asked() int64 { return c.asked.Load() }

func (c *Countdown) ask() {
	if c.asked.Add(1) == c.n {
		c.cancel()
	}
}

// Err and Done are those of a context.
func (c *Countdown) Err() error            { c.ask(); return c.Context.Err() }
func (c *Countdown) Done() <-chan struct{} { c.ask(); return c.Context.Done() }
