package index

import (
	"context"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
)

// A query without a view looks at the number of changes to know whether what it saw is of
// one moment.
func TestEveryChangeIsCounted(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{})
	changes := []struct {
		name string
		do   func() error
	}{
		{"Add", func() error { return x.Add(ctx, Document{Key: "a", Fingerprint: 1}, Document{Fingerprint: 1 << 40}) }},
		{"CheckAndAdd", func() error {
			_, err := x.CheckAndAdd(ctx, Document{Key: "b", Fingerprint: ^fingerprint.Fingerprint(0)})
			return err
		}},
		{"Delete", func() error { _, err := x.Delete(ctx, "a"); return err }},
		{"DeleteIDs", func() error { _, err := x.DeleteIDs(ctx, 2); return err }},
		{"DeleteBefore", func() error { _, err := x.DeleteBefore(ctx, time.Now().Add(time.Hour)); return err }},
	}
	for _, c := range changes {
		before, documents := x.applied.Load(), x.Stats().Documents
		must(t, c.do())
		if x.Stats().Documents == documents {
			t.Errorf("%s changed nothing", c.name)
		}
		if x.applied.Load() == before {
			t.Errorf("%s is not counted", c.name)
		}
	}
}

// TestQueryWhileItsMatchMoves: a page goes to another fingerprint, by one commit, after a
// query has looked at the filters and before it has its view, or just after that. Near both
// the query finds it once.
func TestQueryWhileItsMatchMoves(t *testing.T) {
	ctx := context.Background()
	places := []fingerprint.Fingerprint{1 << 60, 1 << 3, 1<<40 | 1<<20, 1 << 30}
	for when := range 2 {
		x := openMem(t, Options{Durability: NoSync, Plan: mustPlan(t, "4", 3)})
		for n := range 20 {
			calls := 0
			x.aroundView = func() {
				if calls++; calls == when+1 {
					if err := x.Add(ctx, Document{Key: "page", Fingerprint: places[(n+1)%len(places)]}); err != nil {
						t.Error(err)
					}
				}
			}
			if n == 0 {
				must(t, x.Add(ctx, Document{Key: "page", Fingerprint: places[0]}))
			}
			matches, err := x.Query(ctx, nearTo(0))
			if err != nil || len(matches) != 1 || matches[0].Added.IsZero() || calls != 2 {
				t.Fatalf("move %d, %d: %+v, %v", when, n, matches, err)
			}
		}
	}
}
