package index

import (
	"context"
	"errors"
	"testing"

	"github.com/neardup/neardup/internal/verify"
	"github.com/neardup/neardup/store"
)

// checkVerified sees to it that Verify finds nothing.
func checkVerified(t testing.TB, x *Index) {
	t.Helper()
	for p := range x.Verify(context.Background(), verify.Options{}) {
		t.Fatalf("verify: %v", p)
	}
}

func plantIn(t *testing.T, x *Index, plant func(*store.Batch)) {
	t.Helper()
	b := x.store.NewBatch()
	plant(b)
	must(t, x.store.Apply(b, false))
}

// TestVerifyEnds tests that Verify ends with its context, and with the loop.
func TestVerifyEnds(t *testing.T) {
	x := openMem(t, Options{Plan: mustPlan(t, "4", 3)})
	plantIn(t, x, func(b *store.Batch) {
		for table := 1; table < 4; table++ {
			b.SetEntry(table, 5)
		}
	})
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
}
