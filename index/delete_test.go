package index

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testseed"
	"github.com/neardup/neardup/internal/verify"
)

// TestDeleteBeforeBySeconds expires documents of several seconds, step by step, bare
// ones and others that share their fingerprints, over many commits.
func TestDeleteBeforeBySeconds(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	x := openMem(t, Options{FS: fs, Durability: NoSync})
	rng := rand.New(rand.NewPCG(2, 2))
	var docs []Document
	var times []time.Time
	for second := range 5 {
		times = append(times, time.Unix(time.Now().Unix()+100*int64(second+1), 0))
		batch := make([]Document, 3000)
		for i := range batch {
			batch[i].Fingerprint = fingerprint.Fingerprint(rng.Uint64N(2000) << 30)
			if i%2 == 0 {
				batch[i].Key = fmt.Sprint(second, " ", i)
			}
		}
		addAt(t, x, batch, times[second])
		docs = append(docs, batch...)
	}
	for step, at := range append(times, times[4].Add(time.Second)) {
		if step%2 == 1 { // the clock is read back
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			x = openMem(t, Options{FS: fs, Durability: NoSync})
		}
		kept := slices.DeleteFunc(slices.Clone(docs), func(d Document) bool { return d.Added.Before(at) })
		n, err := x.DeleteBefore(ctx, at)
		if err != nil || n != len(docs)-len(kept) || step > 0 && n != 3000 {
			t.Fatalf("step %d: %d expired, not %d: %v", step, n, len(docs)-len(kept), err)
		}
		docs = kept
		checkTimes(t, x, docs)
		if n, err := x.DeleteBefore(ctx, at); n != 0 || err != nil {
			t.Fatalf("step %d: %d expired again: %v", step, n, err)
		}
	}
	docs = []Document{{Key: "after"}}
	if err := x.Add(ctx, docs...); err != nil {
		t.Fatal(err)
	}
	if docs[0].ID != 15001 || docs[0].Added.After(times[0]) {
		t.Errorf("after all is gone: %+v", docs[0])
	}
}

// addAt adds documents at a time.
func addAt(t *testing.T, x *Index, docs []Document, at time.Time) {
	t.Helper()
	x.opts.Now = func() time.Time { return at }
	err := x.Add(context.Background(), docs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		if !d.Added.Equal(at) {
			t.Fatalf("document %d was added %v, not %v", d.ID, d.Added, at)
		}
	}
}

// checkTimes compares the documents, with their times, with those that should be left.
func checkTimes(t *testing.T, x *Index, docs []Document) {
	t.Helper()
	left := map[uint64]time.Time{}
	for d, err := range x.Documents(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		left[d.ID] = d.Added
	}
	if len(left) != len(docs) {
		t.Errorf("%d documents are left, not %d", len(left), len(docs))
	}
	for _, d := range docs {
		if got := left[d.ID]; !got.Equal(d.Added) {
			t.Errorf("document %d was added %v, not %v", d.ID, got, d.Added)
		}
	}
}

// TestDeleteBeforeFindsBareAmongMany: the few bare documents come behind more
// postings than one commit looks through.
func TestDeleteBeforeFindsBareAmongMany(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{MaxDistance: Exact, Durability: NoSync})
	old := bareDocuments([]uint64{1 << 63, ^uint64(0)})
	at := time.Unix(time.Now().Unix()+10, 0)
	addAt(t, x, old, at)
	addAt(t, x, bareDocuments(make([]uint64, 10)), at.Add(time.Hour))
	many := make([]Document, 2*scanChunk+10)
	for i := range many {
		many[i] = Document{Fingerprint: fingerprint.Fingerprint(i) << 40}
	}
	addAt(t, x, many, at.Add(2*time.Hour))
	n, err := x.DeleteBefore(ctx, at.Add(time.Minute))
	if n != 2 || err != nil {
		t.Errorf("%d expired: %v", n, err)
	}
	if s := x.Stats(); s.Documents != uint64(len(many)+10) || s.Bare != s.Documents {
		t.Errorf("%+v", s)
	}
}

// TestDeleteManyKeys deletes more keys than one commit takes, some of them unknown,
// empty or named twice.
func TestDeleteManyKeys(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{Durability: NoSync})
	docs := make([]Document, 2*deleteChunk+50)
	var keys []string
	for i := range docs {
		docs[i] = Document{Key: fmt.Sprint(i), Fingerprint: fingerprint.Fingerprint(i % 500)}
		if i%5 > 0 {
			keys = append(keys, docs[i].Key, docs[i].Key, "no "+docs[i].Key, "")
		}
	}
	if err := x.Add(ctx, docs...); err != nil {
		t.Fatal(err)
	}
	n, err := x.Delete(ctx, keys...)
	if n != len(keys)/4 || err != nil {
		t.Errorf("%d deleted, not %d: %v", n, len(keys)/4, err)
	}
	kept := slices.DeleteFunc(docs, func(d Document) bool { return slices.Contains(keys, d.Key) })
	checkInvariants(t, x, kept, uint64(2*deleteChunk+50))
}

// TestDeleteIDs deletes documents with and without a record by ID, among which are such as
// never were, and some whose key is another document's by now.
func TestDeleteIDs(t *testing.T) {
	ctx := context.Background()
	seed := testseed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	x := openMem(t, Options{Durability: NoSync, KeepDuplicates: true})
	docs := make([]Document, 4000)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(rng.Uint64N(3000) << 20)
		switch rng.IntN(4) {
		case 0:
			docs[i].Key = fmt.Sprint("key", rng.IntN(600)) // some are replaced
		case 1:
			docs[i].Scope = "scope"
		}
	}
	left := map[uint64]Document{}
	for chunk := range slices.Chunk(docs, 97) {
		if err := x.Add(ctx, chunk...); err != nil {
			t.Fatal(err)
		}
	}
	for d, err := range x.Documents(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		left[d.ID] = d
	}
	for _, share := range []float64{0, 0.01, 0.5, 1} {
		var ids []uint64
		want := 0
		for id := range uint64(len(docs) + 10) {
			if rng.Float64() >= share {
				continue
			}
			ids = append(ids, id, id)
			if _, found := left[id]; found {
				want++
				delete(left, id)
			}
		}
		ids = append(ids, math.MaxUint64)
		rng.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
		if n, err := x.DeleteIDs(ctx, ids...); n != want || err != nil {
			t.Fatalf("seed %d: %d deleted, want %d: %v", seed, n, want, err)
		}
		there := 0
		for d, err := range x.Documents(ctx) {
			if err != nil || d != left[d.ID] {
				t.Fatalf("seed %d: %+v is left, want %+v: %v", seed, d, left[d.ID], err)
			}
			there++
		}
		if there != len(left) {
			t.Fatalf("seed %d: %d are left, want %d", seed, there, len(left))
		}
		for _, d := range left {
			if d.Key == "" {
				continue
			}
			if got, found, err := x.Get(ctx, d.Key); !found || got != d || err != nil {
				t.Fatalf("seed %d: %q is %+v: %v", seed, d.Key, got, err)
			}
		}
		for p := range x.Verify(ctx, verify.Options{}) {
			t.Fatalf("seed %d: %v", seed, p)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := x.DeleteIDs(cancelled, 1); err != context.Canceled {
		t.Errorf("a context that is done: %v", err)
	}
}

// TestDeleteIDsNotGivenYet: what gets its ID while others are deleted stays, though its ID is
// among those.
func TestDeleteIDsNotGivenYet(t *testing.T) {
	ctx := context.Background()
	for try := range 5 {
		fs := vfs.NewMem()
		x := openMem(t, Options{FS: fs, Durability: NoSync})
		const bare = 40_000
		if err := x.Add(ctx, make([]Document, bare)...); err != nil {
			t.Fatal(err)
		}
		ids := make([]uint64, bare+20_000)
		for i := range ids {
			ids[i] = uint64(i + 1)
		}
		done := make(chan error)
		go func() {
			for i := range 300 {
				if err := x.Add(ctx, Document{Fingerprint: fingerprint.Fingerprint(i), Key: fmt.Sprint(i)}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		if _, err := x.DeleteIDs(ctx, ids...); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for p := range x.Verify(ctx, verify.Options{}) {
			t.Fatalf("try %d: %v", try, p)
		}
	}
}

// TestAgainAndAgain: a page that is added and deleted thousands of times leaves few versions of its entries in
// memory, which every look-up of it would step over.
func TestAgainAndAgain(t *testing.T) {
	ctx := context.Background()
	disk := vfs.NewMem()
	x, err := Open("index", &Options{FS: disk, Durability: NoSync})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 * maxDeletions {
		v, err := x.CheckAndAdd(ctx, Document{Key: "a", Fingerprint: 4711})
		if err != nil || v.Status != New {
			t.Fatal(n, v.Status, err)
		}
		if deleted, err := x.Delete(ctx, "a"); err != nil || deleted != 1 {
			t.Fatal(n, deleted, err)
		}
	}
	for _, n := range x.deletions.of {
		if n >= maxDeletions {
			t.Errorf("%d deletions without a flush", n)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	logs := 0
	names, err := disk.List("index")
	for _, name := range names {
		if number, isLog := strings.CutSuffix(name, ".log"); isLog {
			logs, _ = strconv.Atoi(number)
		}
	}
	if err != nil || logs < 10 { // a flush takes two numbers
		t.Errorf("the newest log is %d: %v, %v", logs, names, err)
	}
}
