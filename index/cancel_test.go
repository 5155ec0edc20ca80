package index_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testhook"
)

// effect is the result of a call, with its error.
type effect struct {
	err error
	did int // number of documents that the call reports as stored, or minus the number removed
}

// cancelledCalls has all calls that take a context, on an index of the strangers from 300 on. part
// tells whether a failed call may have done part of its work.
var cancelledCalls = []struct {
	name string
	part bool // with an error, what it says is done, and no more; without: nothing is
	call func(context.Context, *index.Index) effect
}{
	{"Add", false, func(ctx context.Context, x *index.Index) effect {
		return effect{x.Add(ctx, index.Strangers(300)...), 300}
	}},
	{"CheckAndAdd", false, func(ctx context.Context, x *index.Index) effect {
		_, err := x.CheckAndAdd(ctx, index.Strangers(1)[0])
		return effect{err, 1}
	}},
	{"CheckAndAddBatch", true, func(ctx context.Context, x *index.Index) effect {
		verdicts, err := x.CheckAndAddBatch(ctx, index.Strangers(300))
		return effect{err, len(verdicts)}
	}},
	{"Delete", true, func(ctx context.Context, x *index.Index) effect {
		n, err := x.Delete(ctx, keysOf(index.Strangers(cancelPages + 300)[300:])...)
		return effect{err, -n}
	}},
	{"DeleteIDs", true, func(ctx context.Context, x *index.Index) effect {
		ids := make([]uint64, cancelPages)
		for i := range ids {
			ids[i] = uint64(i + 1)
		}
		n, err := x.DeleteIDs(ctx, ids...)
		return effect{err, -n}
	}},
	{"DeleteBefore", true, func(ctx context.Context, x *index.Index) effect {
		n, err := x.DeleteBefore(ctx, cancelTime.Add(time.Hour))
		return effect{err, -n}
	}},
	{"Expire", true, func(ctx context.Context, x *index.Index) effect {
		n, err := x.Expire(ctx, index.Expiry{MaxDocuments: 7})
		return effect{err, -n}
	}},
	{"Query", false, func(ctx context.Context, x *index.Index) effect {
		_, err := x.Query(ctx, index.Query{Signature: fingerprint.Signature{Fingerprint: 5}})
		return effect{err: err}
	}},
	{"QueryBatch", false, func(ctx context.Context, x *index.Index) effect {
		return ended(x.QueryBatch(ctx, make([]index.Query, 100)))
	}},
	{"QueryBatch, scanned", false, func(ctx context.Context, x *index.Index) effect {
		ctx = testhook.WithScannedBatches(ctx, true)
		return ended(x.QueryBatch(ctx, make([]index.Query, 100)))
	}},
	{"Get", false, func(ctx context.Context, x *index.Index) effect {
		_, _, err := x.Get(ctx, "stranger 307")
		return effect{err: err}
	}},
	{"Documents", false, func(ctx context.Context, x *index.Index) effect {
		return ended(x.Documents(ctx))
	}},
	{"DocumentsAfter", false, func(ctx context.Context, x *index.Index) effect {
		return ended(x.DocumentsAfter(ctx, 1))
	}},
	{"Pairs", false, func(ctx context.Context, x *index.Index) effect {
		return ended(x.Pairs(ctx, index.JoinOptions{}))
	}},
	{"Clusters", false, func(ctx context.Context, x *index.Index) effect {
		return ended(x.Clusters(ctx, index.JoinOptions{}))
	}},
	{"Verify", false, func(ctx context.Context, x *index.Index) (e effect) {
		for p := range x.Verify(ctx, index.VerifyOptions{}) {
			e.err = errors.Join(e.err, p.Err)
		}
		return e
	}},
	{"Checkpoint", false, func(ctx context.Context, x *index.Index) effect {
		return effect{err: x.Checkpoint(ctx, "checkpoint")}
	}},
	// as far as freezing; histories compact to the end
	{"rewrite.Repack", false, func(ctx context.Context, x *index.Index) effect {
		gaveUp := errors.New("gave up")
		err := rewrite.Repack(ctx, x, func(ctx context.Context,
			_ rewrite.Frozen) (rewrite.Packed, error) {
			return rewrite.Packed{}, errors.Join(gaveUp, ctx.Err())
		})
		if errors.Is(err, gaveUp) && !errors.Is(err, context.Canceled) {
			err = nil
		}
		return effect{err: err}
	}},
	{"Duplicates", false, func(ctx context.Context, x *index.Index) effect {
		_, err := x.Duplicates(ctx, 1, 2, 3)
		return effect{err: err}
	}},
	{"Sync", false, func(ctx context.Context, x *index.Index) effect {
		return effect{err: x.Sync(ctx)}
	}},
}

// ended returns the effect of a loop.
func ended[T any](loop iter.Seq2[T, error]) (e effect) {
	for _, err := range loop {
		e.err = errors.Join(e.err, err)
	}
	return e
}

const cancelPages = 1100 // more than Delete removes at once

var cancelTime = time.Unix(1_800_000_000, 0).UTC()

// openCancelled opens an index until the test ends. All its documents have the time cancelTime.
func openCancelled(t *testing.T, opts index.Options) *index.Index {
	t.Helper()
	opts.Now = func() time.Time { return cancelTime }
	x, err := index.Open("index", &opts)
	must(t, err)
	t.Cleanup(func() { x.Close() })
	return x
}

// TestCallsAreRefused tests that a closed index refuses all calls, and a read-only index all
// writes, also if they would change nothing.
func TestCallsAreRefused(t *testing.T) {
	ctx, disk := t.Context(), vfs.NewMem()
	x := openCancelled(t, index.Options{FS: disk})
	docs := []index.Document{{Key: "a", Fingerprint: 1}, {Fingerprint: 2}}
	must(t, x.Add(ctx, docs...), x.Close())
	for _, c := range cancelledCalls {
		if e := c.call(ctx, x); !errors.Is(e.err, index.ErrClosed) {
			t.Errorf("%s of a closed index: %v", c.name, e.err)
		}
	}
	x = openCancelled(t, index.Options{FS: disk, ReadOnly: true})
	var refused []string
	for _, c := range cancelledCalls {
		if e := c.call(ctx, x); errors.Is(e.err, index.ErrReadOnly) {
			refused = append(refused, c.name)
		} else {
			must(t, e.err)
		}
	}
	if want := []string{"Add", "CheckAndAdd", "CheckAndAddBatch", "Delete", "DeleteIDs",
		"DeleteBefore", "Expire", "rewrite.Repack"}; !slices.Equal(refused, want) {
		t.Errorf("to be read: %v are refused", refused)
	}
	_, err := x.CheckAndAdd(ctx, docs[0])
	for _, err := range []error{x.Add(ctx), err} {
		if !errors.Is(err, index.ErrReadOnly) {
			t.Errorf("nothing to be changed: %v", err)
		}
	}
	m := indextest.Model{Docs: docs, NextID: 3}
	must(t, m.Compare(x), indextest.Problems(x))
}

// TestCancelledAnywhere cancels every call at each check of its context, or at some of them. The
// call must report the cancellation or succeed, and no work may be partly done.
func TestCancelledAnywhere(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range cancelledCalls {
		names[c.name] = true
	}
	for i, typ := 0, reflect.TypeFor[*index.Index](); i < typ.NumMethod(); i++ {
		m := typ.Method(i)
		if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() &&
			!names[m.Name] {
			t.Errorf("%s is not tried", m.Name)
		}
	}
	made := crashfs.New()
	x := openCancelled(t, index.Options{FS: made})
	docs := index.Strangers(cancelPages + 300)[300:]
	must(t, x.Add(t.Context(), docs...))
	before := indextest.NewModel(indextest.RuleOf(index.Options{}, x.Plan().MaxDistance))
	before.Now = cancelTime
	before.Add(docs...)
	must(t, before.Compare(x), x.Close())
	points := int64(8)
	if testing.Short() {
		points = 1
	}
	for _, c := range cancelledCalls {
		t.Run(c.name, func(t *testing.T) {
			counted := testhook.NewCountdown(-1)
			if e := c.call(counted, openCancelled(t,
				index.Options{FS: made.CrashClone(vfs.CrashCloneCfg{})})); e.err != nil {
				t.Fatal(e.err)
			}
			asked, cancelled := counted.Asked(), 0
			for n := int64(1); n <= asked; n += 1 + asked/points {
				x := openCancelled(t, index.Options{FS: made.CrashClone(vfs.CrashCloneCfg{})})
				e := c.call(testhook.NewCountdown(n), x)
				if e.err != nil {
					cancelled++
					if !errors.Is(e.err, context.Canceled) {
						t.Fatalf("point %d of %d: %v", n, asked, e.err)
					}
					if !c.part {
						e.did = 0
					}
				}
				if err := compareAfter(x, before, e.did); err != nil {
					t.Fatalf("point %d of %d, error %v: %v", n, asked, e.err, err)
				}
			}
			if cancelled == 0 {
				t.Errorf("never cancelled at %d points", asked)
			}
		})
	}
}

// compareAfter returns an error if the index is wrong after documents were added or removed. did
// is the number of unrelated documents that were added, or minus the number of removed documents.
func compareAfter(x *index.Index, before *indextest.Model, did int) error {
	want := before.Clone()
	if did > 0 {
		want.Add(index.Strangers(did)...)
	}
	if did < 0 { // any of them
		left, err := indextest.AllDocuments(x)
		if err != nil || len(left) != len(before.Docs)+did {
			return fmt.Errorf("%d documents are there, and %d were removed of %d: %w", len(left),
				-did, len(before.Docs), err)
		}
		want.Docs = want.Docs.Without(func(d *index.Document) bool {
			return !slices.Contains(left, *d)
		})
	}
	for i := 0; i < len(want.Docs); i += 10 {
		if err := want.Query(x, want.Docs[i], 0, 0); err != nil {
			return err
		}
	}
	return errors.Join(want.Compare(x), indextest.Problems(x))
}
