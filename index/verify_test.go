package index

import (
	"context"
	"errors"
	"testing"

	"github.com/neardup/neardup/internal/verify"
)

// TestVerifyEnds tests that Verify ends with its context, and with the loop.
func TestVerifyEnds(t *testing.T) {
	x := openMem(t, Options{Plan: mustPlan(t, "4", 3)})
	b := x.store.NewBatch()
	for table := 1; table < 4; table++ {
		b.SetEntry(table, 5)
	}
	must(t, x.store.Apply(b, false))
	n := 0
	for range x.Verify(context.Background(), verify.Options{}) {
		n++
	}
	if n != 3 {
		t.Errorf("%d problems, want 3", n)
	}
	for range x.Verify(context.Background(), verify.Options{}) {
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last verify.Problem
	n = 0
	for p := range x.Verify(ctx, verify.Options{}) {
		last = p
		n++
		cancel()
	}
	if last.Kind != verify.Unchecked || !errors.Is(last.Err, context.Canceled) {
		t.Errorf("canceled after %d problems: %v", n, last)
	}
	must(t, x.Close())
}
