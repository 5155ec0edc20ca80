package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/fingerprint"
)

// TestVerdictsThatComeWithAnErrorHold: of a batch whose log fails at some flush, the
// verdicts that are handed out are durable.
func TestVerdictsThatComeWithAnErrorHold(t *testing.T) {
	ctx := context.Background()
	partly := false
	for flushes := range int64(6) {
		mem := vfs.NewCrashableMem()
		var left atomic.Int64
		left.Store(1 << 30)
		fsys := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
			if sync && strings.HasSuffix(op.Path, ".log") && left.Add(-1) < 0 {
				return errorfs.ErrInjected
			}
			return nil
		}))
		x, err := Open("index", &Options{FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(5, uint64(flushes)))
		docs := make([]Document, 8*checkWindow)
		for i := range docs {
			docs[i] = Document{Key: fmt.Sprint(i), Fingerprint: fingerprint.Fingerprint(rng.Uint64())}
		}
		left.Store(flushes)
		verdicts, err := x.CheckAndAddBatch(ctx, docs)
		if err == nil && flushes == 0 {
			t.Error("no flush, and no error")
		}
		partly = partly || err != nil && len(verdicts) > 0
		left.Store(1 << 30)
		crashed := mem.CrashClone(vfs.CrashCloneCfg{})
		x.Close() // it says that it failed
		again := openMem(t, Options{FS: crashed, MustExist: true})
		for i, v := range verdicts {
			if d, found, err := again.Get(ctx, docs[i].Key); err != nil || !found || d != v.Document {
				t.Fatalf("%d flushes: verdict %d of %d does not hold: %v", flushes, i, len(verdicts), err)
			}
		}
		checkVerified(t, again)
	}
	if !partly {
		t.Error("no error came with verdicts")
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
				if err := x.Add(ctx, Document{Key: "page", Fingerprint: places[0]}); err != nil {
					t.Fatal(err)
				}
			}
			matches, err := x.Query(ctx, 0)
			if err != nil || len(matches) != 1 || matches[0].Added.IsZero() || calls != 2 {
				t.Fatalf("move %d, %d: %+v, %v", when, n, matches, err)
			}
		}
	}
}

// TestQueryWhileFiltersAreMadeAnew: what a query's view still has is found, though it went,
// and the filters were made anew without it, before the query could ask them.
func TestQueryWhileFiltersAreMadeAnew(t *testing.T) {
	ctx := context.Background()
	for when := range 2 {
		x := openMem(t, Options{Durability: NoSync, Plan: mustPlan(t, "4", 3)})
		if err := x.Add(ctx, Document{Key: "page", Fingerprint: 1}); err != nil {
			t.Fatal(err)
		}
		calls := 0
		x.aroundView = func() {
			if calls++; calls != when+1 {
				return
			}
			n, err := x.Delete(ctx, "page")
			if n != 1 || err != nil {
				t.Errorf("%d deleted: %v", n, err)
			}
			empty := x.live.newSet(1)
			empty.count.Store(1)
			x.live.set.Store(empty)
		}
		matches, err := x.Query(ctx, 0)
		if err != nil || len(matches) != when || calls != 2 {
			t.Errorf("gone at %d: %+v: %v", when, matches, err)
		}
	}
}

// TestQueryWhileFiltersAreReplaced: what is added behind new filters, before the query takes
// its view, is found, though the filters that it saw first never hear of it.
func TestQueryWhileFiltersAreReplaced(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{Durability: NoSync, Plan: mustPlan(t, "4", 3)})
	const a, b = 1<<63 | 1<<40 | 1<<20, 1<<40 | 1<<20 | 1 // each in one table, and not the same
	if err := x.Add(ctx, Document{Fingerprint: a}); err != nil {
		t.Fatal(err)
	}
	done := false
	x.aroundView = func() {
		if done {
			return
		}
		done = true
		set := x.live.newSet(1)
		set.add([]uint64{a})
		x.live.set.Store(set)
		if err := x.Add(ctx, Document{Fingerprint: b}); err != nil {
			t.Error(err)
		}
	}
	if matches, err := x.Query(ctx, 0); err != nil || len(matches) != 2 {
		t.Errorf("%+v, %v", matches, err)
	}
}
