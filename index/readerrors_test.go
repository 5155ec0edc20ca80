package index_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/indextest"
)

var errUnreadable = errors.New("injected: a file cannot be read")

// failingRead fails one read of the files of an index.
type failingRead struct {
	armed atomic.Bool
	left  atomic.Int64 // reads until the one that fails
}

func (f *failingRead) MaybeError(op errorfs.Op) error {
	if !f.armed.Load() || op.Kind != errorfs.OpFileReadAt && op.Kind != errorfs.OpFileRead {
		return nil
	}
	if f.left.Add(-1) == 0 {
		return errUnreadable
	}
	return nil
}

func (f *failingRead) String() string { return "one read" }

// If any read of a commit fails, the call returns the error, and nothing has changed, except for
// the documents that a call of several commits has counted as removed: no document is stored twice,
// and no entry of another document is removed.
func TestReadErrorsInACommit(t *testing.T) {
	ctx := t.Context()
	now := time.Unix(2_000_000, 0)
	docs := numbered(24)
	for i := range docs {
		switch i % 6 {
		case 1: // a bare document
			docs[i] = index.Document{Fingerprint: docs[i].Fingerprint}
		case 2: // the fingerprint of the one before
			docs[i].Fingerprint = docs[i-1].Fingerprint
		case 3:
			docs[i].Scope = "scope"
		}
	}
	recrawl := func(i, change int) index.Document {
		d := docs[i]
		d.Fingerprint ^= fingerprint.Fingerprint(change)
		d.Digest = 7
		return d
	}
	for _, packed := range []string{"live", "packed and live"} {
		disk := crashfs.New()
		opts := index.Options{FS: disk, MaxDistance: 2, KeepDuplicates: true,
			Now: func() time.Time { return now }}
		x, err := index.Open("ix", &opts)
		must(t, err)
		half := len(docs) / 2
		must(t, x.Add(ctx, docs[:half]...))
		if packed == "packed and live" {
			_, err = compaction.Compact(ctx, x, compaction.Options{})
			must(t, err)
		}
		now = now.Add(time.Minute)
		must(t, x.Add(ctx, docs[half:]...))
		must(t, x.Close())

		none := func(err error) (int, error) { return 0, err }
		for what, call := range map[string]func(*index.Index) (removed int, err error){
			"Delete": func(x *index.Index) (int, error) {
				return x.Delete(ctx, docs[0].Key, docs[2].Key, docs[half+2].Key, docs[half+3].Key)
			},
			"DeleteIDs": func(x *index.Index) (int, error) {
				return x.DeleteIDs(ctx, 1, 2, 3, 8, 9, 10)
			},
			"DeleteBefore": func(x *index.Index) (int, error) { return x.DeleteBefore(ctx, now) },
			"Expire": func(x *index.Index) (int, error) {
				return x.Expire(ctx, index.Expiry{MaxDocuments: 10})
			},
			"Add of known keys": func(x *index.Index) (int, error) {
				return none(x.Add(ctx, recrawl(0, 0), recrawl(2, 1<<9), recrawl(half+2, 0)))
			},
			"recrawl": func(x *index.Index) (int, error) {
				_, err := x.CheckAndAdd(ctx, recrawl(2, 0))
				return none(err)
			},
			"recrawl with another fingerprint": func(x *index.Index) (int, error) {
				_, err := x.CheckAndAdd(ctx, recrawl(half+2, 1<<9|1<<20|1<<30))
				return none(err)
			},
			"recrawls in a batch": func(x *index.Index) (int, error) {
				_, err := x.CheckAndAddBatch(ctx, []index.Document{recrawl(0, 1), recrawl(2, 0),
					recrawl(half, 1<<9|1<<20|1<<30), recrawl(half+3, 0)})
				return none(err)
			},
		} {
			t.Run(packed+", "+what, func(t *testing.T) { failEachRead(t, disk, opts, call) })
		}
	}
}

// failEachRead makes a call on a newly opened index once for each of its reads, which fails.
func failEachRead(
	t *testing.T, disk *crashfs.FS, opts index.Options, call func(*index.Index) (int, error),
) {
	failed, reads := 0, 0
	var want indextest.Documents // after the call, if no read fails
	for n := int64(0); ; n++ {
		f := new(failingRead)
		opts := opts
		clone := disk.CrashClone(vfs.CrashCloneCfg{})
		opts.FS = errorfs.Wrap(clone, f)
		opts.CacheBytes = 1 // every block is read anew
		x, err := index.Open("ix", &opts)
		must(t, err)
		before, err := indextest.AllDocuments(x)
		must(t, err)
		stats := x.Stats()
		if f.left.Store(n); n == 0 {
			f.left.Store(1 << 40)
		}
		f.armed.Store(true)
		removed, err := call(x)
		f.armed.Store(false)
		what := fmt.Sprintf("read %d fails", n)
		if n == 0 || err == nil { // a read in the background, whose error is no error of the call
			after, readErr := indextest.AllDocuments(x)
			must(t, err, readErr)
			if n == 0 {
				want = after
			} else if diff := indextest.Difference(after, want); diff != "" {
				t.Errorf("%s: no error, but %s", what, diff)
			}
		}
		if f.left.Load() > 0 && n > 0 { // there are fewer reads
			must(t, err, x.Close())
			break
		}
		if n > 0 {
			reads++
		}
		if err != nil {
			failed++
			if !errors.Is(err, errUnreadable) {
				t.Errorf("%s: %v", what, err)
			}
			check := func(when string) {
				t.Helper()
				after, err := indextest.AllDocuments(x)
				must(t, err)
				left := before.Without(func(d *index.Document) bool {
					return !slices.Contains(after, *d)
				})
				if diff := indextest.Difference(after, left); diff != "" ||
					len(before)-len(after) != removed {
					t.Errorf("%s%s: %d documents before, %d removed, %d after: %s", what, when,
						len(before), removed, len(after), diff)
				}
				if s := x.Stats(); s.Documents != uint64(len(after)) || s.NextID != stats.NextID {
					t.Errorf("%s%s: counters %d and next ID %d; want %d and %d", what, when,
						s.Documents, s.NextID, len(after), stats.NextID)
				}
				if err := indextest.Problems(x); err != nil {
					t.Errorf("%s%s: %v", what, when, err)
				}
			}
			check("")
			if n%8 == 1 {
				must(t, x.Close())
				opts.FS = clone
				if x, err = index.Open("ix", &opts); err != nil {
					t.Fatal(what, err)
				}
				check(", after another Open")
			}
		}
		must(t, x.Close())
	}
	if reads == 0 || failed == 0 {
		t.Errorf("%d reads, %d of them failed the call", reads, failed)
	}
	t.Logf("%d reads, %d of them failed the call", reads, failed)
}
