package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/crashfs"
	"github.com/neardup/neardup/internal/join"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/store"
	"github.com/neardup/neardup/internal/testhook"
	"github.com/neardup/neardup/internal/verify"
)

// effect is what a call says that it did, with its error.
type effect struct {
	err error
	did int // documents stored (above 0) or removed (below 0), by its answer
}

// cancelledCalls are all calls that take a context, over an index of which every key is
// "page N", and which parts of their work may be done when they fail.
var cancelledCalls = []struct {
	name string
	part bool // with an error, what it says is done, and no more; without: nothing is
	call func(context.Context, *Index) effect
}{
	{"Add", false, func(ctx context.Context, x *Index) effect {
		return effect{x.Add(ctx, strangers(300)...), 300}
	}},
	{"CheckAndAdd", false, func(ctx context.Context, x *Index) effect {
		_, err := x.CheckAndAdd(ctx, strangers(1)[0])
		return effect{err, 1}
	}},
	{"CheckAndAddBatch", true, func(ctx context.Context, x *Index) effect {
		verdicts, err := x.CheckAndAddBatch(ctx, strangers(300))
		return effect{err, len(verdicts)}
	}},
	{"Delete", true, func(ctx context.Context, x *Index) effect {
		var keys []string
		for i := range cancelPages {
			keys = append(keys, fmt.Sprint("page ", i))
		}
		n, err := x.Delete(ctx, keys...)
		return effect{err, -n}
	}},
	{"DeleteIDs", true, func(ctx context.Context, x *Index) effect {
		ids := make([]uint64, cancelPages)
		for i := range ids {
			ids[i] = uint64(i + 1)
		}
		n, err := x.DeleteIDs(ctx, ids...)
		return effect{err, -n}
	}},
	{"DeleteBefore", true, func(ctx context.Context, x *Index) effect {
		n, err := x.DeleteBefore(ctx, time.Now().Add(time.Hour))
		return effect{err, -n}
	}},
	{"Expire", true, func(ctx context.Context, x *Index) effect {
		n, err := x.Expire(ctx, Expiry{MaxDocuments: 7})
		return effect{err, -n}
	}},
	{"Query", false, func(ctx context.Context, x *Index) effect {
		_, err := x.Query(ctx, nearTo(5))
		return effect{err: err}
	}},
	{"QueryBatch", false, queryBatch},
	{"QueryBatch, sorted", false, func(ctx context.Context, x *Index) effect {
		return queryBatch(testhook.WithSortedBatches(ctx, true), x)
	}},
	{"Get", false, func(ctx context.Context, x *Index) effect {
		_, _, err := x.Get(ctx, "page 7")
		return effect{err: err}
	}},
	{"Documents", false, func(ctx context.Context, x *Index) (e effect) {
		for _, err := range x.Documents(ctx) {
			e.err = errors.Join(e.err, err)
		}
		return e
	}},
	{"Pairs", false, func(ctx context.Context, x *Index) (e effect) {
		for _, err := range x.Pairs(ctx, join.Options{}) {
			e.err = errors.Join(e.err, err)
		}
		return e
	}},
	{"Clusters", false, func(ctx context.Context, x *Index) (e effect) {
		for _, err := range x.Clusters(ctx, join.Options{}) {
			e.err = errors.Join(e.err, err)
		}
		return e
	}},
	{"Verify", false, func(ctx context.Context, x *Index) (e effect) {
		for p := range x.Verify(ctx, verify.Options{}) {
			e.err = errors.Join(e.err, p.Err)
		}
		return e
	}},
	{"Checkpoint", false, func(ctx context.Context, x *Index) effect {
		return effect{err: x.Checkpoint(ctx, "checkpoint")}
	}},
	{"Rewrite", false, func(ctx context.Context, x *Index) effect { // as far as freezing; histories compact to the end
		gaveUp := errors.New("gave up")
		err := x.Rewrite(ctx, nil, nil, func(ctx context.Context, _ rewrite.Frozen) (rewrite.Packed, error) {
			return rewrite.Packed{}, errors.Join(gaveUp, ctx.Err())
		})
		if errors.Is(err, gaveUp) && !errors.Is(err, context.Canceled) {
			err = nil
		}
		return effect{err: err}
	}},
	{"Sync", false, func(ctx context.Context, x *Index) effect { return effect{err: x.Sync(ctx)} }},
}

func queryBatch(ctx context.Context, x *Index) (e effect) {
	for _, err := range x.QueryBatch(ctx, make([]Query, 100)) {
		e.err = errors.Join(e.err, err)
	}
	return e
}

const cancelPages = 1100 // more than Delete removes at once

// TestCallsAreRefused: by an index that is closed all, and by one that was opened to be read those that write, also where
// they would change nothing.
func TestCallsAreRefused(t *testing.T) {
	ctx, disk := t.Context(), vfs.NewMem()
	x := openMem(t, Options{FS: disk})
	docs := []Document{{Key: "a", Fingerprint: 1}, {Fingerprint: 2}}
	must(t, x.Add(ctx, docs...), x.Close())
	for _, c := range cancelledCalls {
		if e := c.call(ctx, x); !errors.Is(e.err, ErrClosed) {
			t.Errorf("%s of a closed index: %v", c.name, e.err)
		}
	}
	x = openMem(t, Options{FS: disk, ReadOnly: true})
	var refused []string
	for _, c := range cancelledCalls {
		if e := c.call(ctx, x); errors.Is(e.err, ErrReadOnly) {
			refused = append(refused, c.name)
		} else {
			must(t, e.err)
		}
	}
	if want := []string{"Add", "CheckAndAdd", "CheckAndAddBatch", "Delete", "DeleteIDs", "DeleteBefore", "Expire", "Rewrite"}; !slices.Equal(refused, want) {
		t.Errorf("to be read: %v are refused", refused)
	}
	_, err := x.CheckAndAdd(ctx, docs[0])
	for _, err := range []error{x.Add(ctx), err} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("nothing to be changed: %v", err)
		}
	}
	checkInvariants(t, x, docs, 2)
}

// TestLongCallsAreCancelled: calls that look through much for little look at their context meanwhile.
func TestLongCallsAreCancelled(t *testing.T) {
	const copies, seconds, scans = 1000, 1000, 3
	for name, c := range map[string]struct {
		prepare func(*Index)
		call    func(context.Context, *Index) error
		asked   int64 // at least
	}{
		"CheckAndAdd among candidates with other Shingles": {func(x *Index) {
			docs := make([]Document, copies)
			for i := range docs {
				docs[i].Shingle = ^fingerprint.Fingerprint(0)
			}
			must(t, x.Add(t.Context(), docs...))
		}, func(ctx context.Context, x *Index) error {
			_, err := x.CheckAndAdd(ctx, Document{Shingle: 1})
			return err
		}, copies},
		"DeleteIDs of a bare document among newer ones": {func(x *Index) {
			fps := make([]uint64, scans*scanChunk)
			for i := range fps {
				fps[i] = uint64(i)
			}
			fill(t, x, fps, len(fps))
		}, func(ctx context.Context, x *Index) error {
			_, err := x.DeleteIDs(ctx, 1)
			return err
		}, 2 * scans},
		"DeleteBefore with a clock of many seconds": {func(x *Index) {
			plantIn(t, x, func(b *store.Batch) {
				for i := range uint64(seconds) {
					b.SetClock(i, i)
				}
			})
		}, func(ctx context.Context, x *Index) error {
			_, err := x.DeleteBefore(ctx, time.Unix(seconds, 0))
			return err
		}, seconds},
	} {
		x := openMem(t, Options{Durability: NoSync})
		c.prepare(x)
		ctx := testhook.NewCountdown(c.asked)
		if err := c.call(ctx, x); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, asked %d times", name, err, ctx.Asked())
		}
	}
}

// strangers are documents that are near to nothing.
func strangers(n int) []Document {
	rng := rand.New(rand.NewPCG(77, 77))
	docs := make([]Document, n)
	for i := range docs {
		docs[i] = Document{Key: fmt.Sprint("stranger ", i), Fingerprint: fingerprint.Fingerprint(rng.Uint64())}
	}
	return docs
}

// TestCancelledAnywhere cancels every call at each point where it looks at its context, or
// at some of them: it says so, or it is done, and nothing is half done.
func TestCancelledAnywhere(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range cancelledCalls {
		names[c.name] = true
	}
	for i, typ := 0, reflect.TypeFor[*Index](); i < typ.NumMethod(); i++ {
		m := typ.Method(i)
		if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() && !names[m.Name] {
			t.Errorf("%s is not tried", m.Name)
		}
	}
	made := crashfs.New()
	x, err := Open("index", &Options{FS: made})
	must(t, err)
	docs := strangers(cancelPages + 300)[300:]
	for i := range docs {
		docs[i].Key = fmt.Sprint("page ", i)
	}
	must(t, x.Add(context.Background(), docs...), x.Close())
	points := int64(8)
	if testing.Short() {
		points = 1
	}
	for _, c := range cancelledCalls {
		t.Run(c.name, func(t *testing.T) {
			counted := testhook.NewCountdown(-1)
			if e := c.call(counted, openMem(t, Options{FS: made.CrashClone(vfs.CrashCloneCfg{})})); e.err != nil {
				t.Fatal(e.err)
			}
			asked, cancelled := counted.Asked(), 0
			for n := int64(1); n <= asked; n += 1 + asked/points {
				x := openMem(t, Options{FS: made.CrashClone(vfs.CrashCloneCfg{})})
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
				wantDocuments(t, x, docs, e.did)
			}
			if cancelled == 0 {
				t.Errorf("never cancelled at %d points", asked)
			}
		})
	}
}

// wantDocuments says what is wrong with an index that had docs, to which so many of
// strangers were added, or from which so many were removed.
func wantDocuments(t *testing.T, x *Index, docs []Document, did int) {
	t.Helper()
	want := slices.Clone(docs)
	if did > 0 {
		for i, d := range strangers(did) {
			d.ID = uint64(len(docs) + 1 + i)
			want = append(want, d)
		}
	}
	if did < 0 { // any of them
		if got := x.Stats().Documents; got != uint64(len(docs)+did) {
			t.Fatalf("%d documents are there, and %d were removed of %d", got, -did, len(docs))
		}
		kept := make(map[string]bool)
		for d, err := range x.Documents(context.Background()) {
			must(t, err)
			kept[d.Key] = true
		}
		want = slices.DeleteFunc(want, func(d Document) bool { return !kept[d.Key] })
	}
	checkInvariants(t, x, want, uint64(max(len(docs), len(docs)+did)))
	if len(x.pending.open) != 0 {
		t.Fatalf("%d writes are pending", len(x.pending.open))
	}
}
