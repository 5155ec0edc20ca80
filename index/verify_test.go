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
	problems := func(ctx context.Context, each func() bool) (n int, last verify.Problem) {
		for last = range x.Verify(ctx, verify.Options{}) {
			if n++; !each() {
				break
			}
		}
		return n, last
	}
	if n, _ := problems(t.Context(), func() bool { return true }); n != 3 {
		t.Errorf("%d problems, want 3", n)
	}
	problems(t.Context(), func() bool { return false })
	ctx, cancel := context.WithCancel(t.Context())
	n, last := problems(ctx, func() bool { cancel(); return true })
	if last.Kind != verify.Unchecked || !errors.Is(last.Err, context.Canceled) {
		t.Errorf("canceled after %d problems: %v", n, last)
	}
	must(t, x.Close())
}
