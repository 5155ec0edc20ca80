// Package testhook lets tests override choices that the index otherwise makes by cost or by caller.
// A context without hooks has no effect.
package testhook

import (
	"context"
	"sync/atomic"
)

type scannedBatches struct{}

// WithScannedBatches returns a context that selects the method of index.QueryBatch: one scan of
// the index, or single queries.
func WithScannedBatches(ctx context.Context, scanned bool) context.Context {
	return context.WithValue(ctx, scannedBatches{}, scanned)
}

// ScannedBatches returns the value set by WithScannedBatches.
func ScannedBatches(ctx context.Context) (scanned, set bool) {
	scanned, set = ctx.Value(scannedBatches{}).(bool)
	return scanned, set
}

type parts struct{ searched, applied int }

// WithParts returns a context that makes index.CheckAndAddBatch search and apply a window in
// parts of the given numbers of documents.
func WithParts(ctx context.Context, searched, applied int) context.Context {
	return context.WithValue(ctx, parts{}, parts{searched, applied})
}

// Parts returns the values set by WithParts.
func Parts(ctx context.Context) (searched, applied int, set bool) {
	p, set := ctx.Value(parts{}).(parts)
	return p.searched, p.applied, set
}

// Countdown is a context that is cancelled at its n-th check.
type Countdown struct {
	context.Context
	cancel context.CancelFunc
	asked  atomic.Int64
	n      int64
}

// NewCountdown returns a Countdown that is cancelled at check n, or never if n is negative.
func NewCountdown(n int64) *Countdown {
	ctx, cancel := context.WithCancel(context.Background())
	return &Countdown{Context: ctx, cancel: cancel, n: n}
}

// Asked returns the number of checks so far.
func (c *Countdown) Asked() int64 { return c.asked.Load() }

func (c *Countdown) ask() {
	if c.asked.Add(1) == c.n {
		c.cancel()
	}
}

// Err and Done count a check.
func (c *Countdown) Err() error            { c.ask(); return c.Context.Err() }
func (c *Countdown) Done() <-chan struct{} { c.ask(); return c.Context.Done() }
