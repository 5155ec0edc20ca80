package index

import (
	"context"
	"errors"
	"math/rand/v2"
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

// TestVerifyStreamsEveryProblem tests that Verify reports all problems in bounded memory, and
// that it stops if the loop ends.
func TestVerifyStreamsEveryProblem(t *testing.T) {
	const entries = 5000
	x := openMem(t, Options{Plan: mustPlan(t, "4", 3)})
	rng := rand.New(rand.NewPCG(3, 4))
	plantIn(t, x, func(b *store.Batch) {
		for range entries {
			b.SetEntry(1+rng.IntN(3), rng.Uint64())
		}
	})
	n := 0
	for p := range x.Verify(context.Background(), verify.Options{}) {
		if p.Kind != verify.Unexpected {
			t.Fatal(p)
		}
		n++
	}
	if n != entries {
		t.Errorf("%d problems, of %d", n, entries)
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
		t.Errorf("cancelled after %d problems: %v", n, last)
	}
}
