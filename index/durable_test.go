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
		docs := make([]Document, 8*windowLimit)
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
			matches, err := x.Query(ctx, nearTo(0))
			if err != nil || len(matches) != 1 || matches[0].Added.IsZero() || calls != 2 {
				t.Fatalf("move %d, %d: %+v, %v", when, n, matches, err)
			}
		}
	}
}
