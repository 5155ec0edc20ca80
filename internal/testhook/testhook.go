// Package testhook lets tests decide what is otherwise decided by cost. Without one, nothing
// of it has an effect.
package testhook

import "context"

type sortedBatches struct{}

// WithSortedBatches returns a context by which index.QueryBatch goes table by table with its
// queries sorted, or answers them one by one.
func WithSortedBatches(ctx context.Context, sorted bool) context.Context {
	return context.WithValue(ctx, sortedBatches{}, sorted)
}

// SortedBatches returns what WithSortedBatches has set.
func SortedBatches(ctx context.Context) (sorted, set bool) {
	sorted, set = ctx.Value(sortedBatches{}).(bool)
	return sorted, set
}
