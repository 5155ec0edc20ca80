// Package testhook lets tests override decisions of the index by values in a context. A context
// without these values has no effect.
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

// Countdown is a context that is cancelled at its n-th check. Each call of Err or Done is a check.
type Countdown struct {
	context.Context
	cancel context.CancelFunc
	checks atomic.Int64
	n      int64
}

// NewCountdown returns a Countdown that is cancelled at check n, or never if n is negative.
func NewCountdown(n int64) *Countdown {
	ctx, cancel := context.WithCancel(context.Background())
	return &Countdown{Context: ctx, cancel: cancel, n: n}
}

// Checks returns the number of checks so far.
func (c *Countdown) Checks() int64 { return c.checks.Load() }

func (c *Countdown) check() {
	if c.checks.Add(1) == c.n {
		c.cancel()
	}
}

func (c *Countdown) Err() error            { c.check(); return c.Context.Err() }
func (c *Countdown) Done() <-chan struct{} { c.check(); return c.Context.Done() }
