package index

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// addAt adds documents with the clock at a second.
func addAt(t *testing.T, x *Index, second int64, docs ...Document) {
	t.Helper()
	x.opts.Now = func() time.Time { return time.Unix(second, 0) }
	must(t, x.Add(t.Context(), docs...))
}

// TestDeleteBeforeFindsOldAmongMany tests that DeleteBefore continues after scanChunk records,
// which it reads in one view.
func TestDeleteBeforeFindsOldAmongMany(t *testing.T) {
	x := openMem(t, Options{MaxDistance: Exact, Durability: NoSync})
	for range 2 {
		addAt(t, x, 2000, make([]Document, scanChunk)...)
		addAt(t, x, 1000, Document{Fingerprint: 1 << 63})
	}
	n, err := x.DeleteBefore(t.Context(), time.Unix(1500, 0))
	if s := x.Stats(); n != 2 || err != nil || s.Documents != 2*scanChunk || s.Removed != 2 {
		t.Errorf("%d removed, %v: %+v", n, err, s)
	}
}

// TestDeleteBeforeWithinSecond notes the time, adds documents and deletes all older documents.
// All added documents must remain.
func TestDeleteBeforeWithinSecond(t *testing.T) {
	x := openMem(t, Options{})
	second := time.Unix(1000, 0)
	for i, at := range []time.Duration{-time.Millisecond, 0, 600 * time.Millisecond} {
		x.opts.Now = func() time.Time { return second.Add(at) }
		must(t, x.Add(t.Context(), Document{Key: strconv.Itoa(i)}))
	}
	n, err := x.DeleteBefore(t.Context(), second.Add(500*time.Millisecond))
	if _, found, _ := x.Get(t.Context(), "2"); n != 1 || err != nil || !found {
		t.Errorf("%d removed, %v; the last document is stored: %v", n, err, found)
	}
}

// TestTimesOutOfRange tests that a time before 1970 or after the year 9999 is stored as the nearest
// time in these years. DeleteBefore and Expire use the stored time.
func TestTimesOutOfRange(t *testing.T) {
	ctx := t.Context()
	x := openMem(t, Options{Durability: NoSync})
	addAt(t, x, -5, Document{Key: "first"})
	addAt(t, x, math.MaxInt64, Document{Key: "last"})
	for key, want := range map[string]time.Time{"first": time.Unix(0, 0),
		"last": time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		if d, _, err := x.Get(ctx, key); err != nil || !d.Added.Equal(want) {
			t.Errorf("%s: %v, %v", key, d, err)
		}
	}
	for second := range 2 {
		n, err := x.DeleteBefore(ctx, time.Unix(int64(second), 0))
		if n != second || err != nil {
			t.Errorf("%d documents deleted before second %d: %v", n, second, err)
		}
	}
	if n, err := x.Expire(ctx, Expiry{MaxAge: time.Hour}); n != 0 || err != nil {
		t.Errorf("%d documents expired, %v", n, err)
	}
	if n, err := x.Expire(ctx, Expiry{MaxAge: -time.Hour}); n != 0 || err == nil ||
		!strings.Contains(err.Error(), "MaxAge is -1h0m0s") {
		t.Errorf("negative MaxAge: %d, %v", n, err)
	}
}

// TestExpireDuringDeletions deletes old documents while Expire reads the records. Expire must then
// remove fewer documents, and only old ones.
func TestExpireDuringDeletions(t *testing.T) {
	const pass = 1000 // records that one pass reads
	for _, c := range []struct {
		after   int // records that Expire has read
		deletes int // of the 200 oldest documents
	}{{1, 0}, {1, 50}, {1, 120}, {pass + 1, 50}, {pass + 1, 105}, {3*pass + 1, 200}} {
		x := openMem(t, Options{Durability: NoSync})
		docs := Strangers(pass)
		old := docs[800:]
		addAt(t, x, 2000, docs[:800]...)
		addAt(t, x, 1000, old...)
		calls := 0
		ctx := WhenAsked{t.Context(), func() {
			if calls++; calls == c.after {
				for i := range c.deletes {
					_, err := x.Delete(t.Context(), old[i].Key)
					must(t, err)
				}
			}
		}}
		n, err := x.deleteOldest(ctx, 900)
		must(t, err)
		left, young := min(pass-c.deletes, 891), 0
		for d, err := range x.Documents(t.Context()) {
			must(t, err)
			if d.ID <= 800 {
				young++
			}
		}
		if got := int(x.Stats().Documents); got != left || n != pass-c.deletes-left || young != 800 {
			t.Errorf("%+v: %d documents remain, not %d; %d are young, and %d expired", c, got,
				left, young, n)
		}
	}
}

// TestCloseEndsExpire tests that Close does not wait until all documents are removed.
func TestCloseEndsExpire(t *testing.T) {
	x := openMem(t, Options{Durability: NoSync})
	addAt(t, x, 1000, Strangers(300)...)
	closing := make(chan error, 1)
	begin := sync.OnceFunc(func() { go func() { closing <- x.Close() }() })
	x.opts.Now = func() time.Time { // Expire reads the clock with the commit lock held
		begin()
		<-x.stopping.Done()
		time.Sleep(10 * time.Millisecond) // for the context of Expire to end
		return time.Unix(5000, 0)
	}
	n, err := x.Expire(t.Context(), Expiry{MaxAge: time.Second})
	if !errors.Is(err, ErrClosed) || n == 300 {
		t.Errorf("Expire removed %d documents and ended with %v", n, err)
	}
	must(t, <-closing)
}
