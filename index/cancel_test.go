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
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testhook"
)

const cancelPages = 1100 // more than Delete removes at once

var (
	cancelTime    = time.Unix(1_800_000_000, 0).UTC()
	cancelStored  = index.Strangers(cancelPages + 300)[300:]
	cancelUnknown = index.Strangers(300)
	cancelIDs     = idsUpTo(cancelPages)
)

// cancelledCalls has all methods that take a context, and rewrite.Repack, with their arguments on
// an index of cancelStored.
var cancelledCalls = []struct {
	method  string
	arg     any  // after the context; variadic arguments are a slice
	adds    int  // number of documents that are stored if there is no error
	scanned bool // QueryBatch scans the index
}{
	{method: "Add", arg: cancelUnknown, adds: len(cancelUnknown)},
	{method: "CheckAndAdd", arg: cancelUnknown[0], adds: 1},
	{method: "CheckAndAddBatch", arg: cancelUnknown},
	{method: "Delete", arg: keysOf(cancelStored)},
	{method: "DeleteIDs", arg: cancelIDs},
	{method: "DeleteBefore", arg: cancelTime.Add(time.Hour)},
	{method: "Expire", arg: index.Expiry{MaxDocuments: 7}},
	{method: "Query", arg: index.Query{}},
	{method: "QueryBatch", arg: make([]index.Query, 100)},
	{method: "QueryBatch", arg: make([]index.Query, 100), scanned: true},
	{method: "Get", arg: "stranger 307"},
	{method: "Documents"},
	{method: "DocumentsAfter", arg: uint64(1)},
	{method: "Pairs", arg: index.JoinOptions{}},
	{method: "Clusters", arg: index.JoinOptions{}},
	{method: "Verify", arg: index.VerifyOptions{}},
	{method: "Checkpoint", arg: "checkpoint"},
	{method: "Duplicates", arg: []uint64{1, 2, 3}},
	{method: "Sync"},
	{method: "Repack"},
}

// cancelledCall makes call n. It returns the number of documents that were stored, or minus the
// number of documents that were removed.
func cancelledCall(ctx context.Context, x *index.Index, n int) (did int, err error) {
	c := cancelledCalls[n]
	if c.method == "Repack" { // only freezes; the history tests compact completely
		gaveUp := errors.New("gave up")
		err := rewrite.Repack(ctx, x, func(ctx context.Context,
			_ rewrite.Frozen) (rewrite.Packed, error) {
			return rewrite.Packed{}, errors.Join(gaveUp, ctx.Err())
		})
		if errors.Is(err, gaveUp) && !errors.Is(err, context.Canceled) {
			err = nil
		}
		return 0, err
	}
	ctx = testhook.WithScannedBatches(ctx, c.scanned)
	method := reflect.ValueOf(x).MethodByName(c.method)
	args := []reflect.Value{reflect.ValueOf(ctx)}
	if c.arg != nil {
		args = append(args, reflect.ValueOf(c.arg))
	}
	call := method.Call
	if method.Type().IsVariadic() {
		call = method.CallSlice
	}
	for _, result := range call(args) {
		switch v := result.Interface().(type) {
		case error:
			err = v
		case int:
			did = -v
		case []index.Verdict:
			did = len(v)
		case iter.Seq[index.Problem]:
			for p := range v {
				err = errors.Join(err, p.Err)
			}
		default:
			if result.Kind() == reflect.Func {
				for _, failed := range result.Seq2() {
					if !failed.IsNil() {
						err = failed.Interface().(error)
					}
				}
			}
		}
	}
	if err == nil {
		did += c.adds
	}
	return did, err
}

// openCancelled opens an index whose clock stands at cancelTime. It is closed when the test ends.
func openCancelled(t *testing.T, opts index.Options) *index.Index {
	t.Helper()
	opts.Now = func() time.Time { return cancelTime }
	x, err := index.Open("index", &opts)
	must(t, err)
	t.Cleanup(func() { x.Close() })
	return x
}

// TestCallsAreRefused tests that a closed index refuses all calls, and that a read-only index
// refuses all writes, including writes that would change nothing.
func TestCallsAreRefused(t *testing.T) {
	ctx, disk := t.Context(), vfs.NewMem()
	x := openCancelled(t, index.Options{FS: disk})
	docs := []index.Document{{Key: "a", Fingerprint: 1}, {Fingerprint: 2}}
	must(t, x.Add(ctx, docs...), x.Close())
	y := openCancelled(t, index.Options{FS: disk, ReadOnly: true})
	var refused []string
	for n, c := range cancelledCalls {
		if _, err := cancelledCall(ctx, x, n); !errors.Is(err, index.ErrClosed) {
			t.Errorf("%s of a closed index: %v", c.method, err)
		}
		if _, err := cancelledCall(ctx, y, n); errors.Is(err, index.ErrReadOnly) {
			refused = append(refused, c.method)
		} else {
			must(t, err)
		}
	}
	if want := []string{"Add", "CheckAndAdd", "CheckAndAddBatch", "Delete", "DeleteIDs",
		"DeleteBefore", "Expire", "Repack"}; !slices.Equal(refused, want) {
		t.Errorf("a read-only index refuses %v", refused)
	}
	_, err := y.CheckAndAdd(ctx, docs[0])
	for _, err := range []error{y.Add(ctx), err} {
		if !errors.Is(err, index.ErrReadOnly) {
			t.Errorf("a write that would change nothing: %v", err)
		}
	}
	m := indextest.Model{Docs: docs, NextID: 3}
	must(t, m.Compare(y), indextest.Problems(y))
}

// TestCancelledAnywhere cancels every call at each check of its context, or at some of the checks.
// The call must return the cancellation or succeed, and must not leave a change partly applied.
func TestCancelledAnywhere(t *testing.T) {
	tried := make(map[string]bool)
	for _, c := range cancelledCalls {
		tried[c.method] = true
	}
	for m := range reflect.TypeFor[*index.Index]().Methods() {
		if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() &&
			!tried[m.Name] {
			t.Errorf("%s is not tried", m.Name)
		}
	}
	made := crashfs.New()
	x := openCancelled(t, index.Options{FS: made})
	docs := slices.Clone(cancelStored)
	must(t, x.Add(t.Context(), docs...))
	before := indextest.NewModel(indextest.RuleOf(index.Options{}, x.Plan().MaxDistance))
	before.Now = cancelTime
	before.Add(docs...)
	must(t, before.Compare(x), x.Close())
	points := int64(testenv.Number(1, 8, 8, 8))
	again := func() *index.Index {
		return openCancelled(t, index.Options{FS: made.CrashClone(vfs.CrashCloneCfg{})})
	}
	for call, c := range cancelledCalls {
		t.Run(c.method, func(t *testing.T) {
			counted := testhook.NewCountdown(-1)
			_, err := cancelledCall(counted, again(), call)
			must(t, err)
			asked, cancelled := counted.Checks(), 0
			for n := int64(1); n <= asked; n += 1 + asked/points {
				x := again()
				did, err := cancelledCall(testhook.NewCountdown(n), x, call)
				if err != nil {
					cancelled++
					if !errors.Is(err, context.Canceled) {
						t.Fatalf("point %d of %d: %v", n, asked, err)
					}
				}
				if wrong := compareAfter(x, before, did); wrong != nil {
					t.Fatalf("point %d of %d, error %v: %v", n, asked, err, wrong)
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
			return fmt.Errorf("%d documents remain, and %d of %d were removed: %w", len(left),
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
