package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// stuckIndex returns an index on a Redis that does not answer before the channel is closed.
func stuckIndex(until chan struct{}) (*Index, *fake) {
	f := &fake{keys: map[string]string{}, time: 10_000}
	var mu sync.Mutex // a fake handles one call at a time
	return testIndex(func(ctx context.Context, durable bool, commands []*command) error {
		<-until
		mu.Lock()
		defer mu.Unlock()
		return f.run(ctx, durable, commands)
	}), f
}

// checkedOne returns the verdict of a call with one document.
func checkedOne(ctx context.Context, x *Index, d index.Document) (index.Verdict, error) {
	verdicts, err := x.checkAndAdd(ctx, []index.Document{d})
	if err != nil {
		return index.Verdict{}, err
	}
	return verdicts[0], nil
}

// TestCanceledCalls tests calls whose context ends while Redis does not answer. Their memory must
// not accumulate, and Close must wait for flights in progress.
func TestCanceledCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		x, f := stuckIndex(until)
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := checkedOne(ctx, x,
				index.Document{Fingerprint: fingerprint.Fingerprint(i)}); !errors.Is(err,
				context.DeadlineExceeded) {
				t.Fatalf("call %d: %v", i, err)
			}
			cancel()
		}
		closed := make(chan struct{})
		go func() { x.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed with calls in progress")
		default:
		}
		close(until)
		<-closed
		logs := 0
		for key := range f.keys {
			if strings.HasPrefix(key, "m:g") {
				logs++
			}
		}
		if logs != maxFlights {
			t.Errorf("%d documents of canceled calls were stored, want %d", logs, maxFlights)
		}
	})
}

// TestDrawHonoursContext tests a call that waits for the numbers of another call. It must return
// when its context ends.
func TestDrawHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		x, _ := stuckIndex(until)
		go x.draw(context.Background(), 1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := x.draw(ctx, 1); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(start) > time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		close(until)
	})
}

// TestNumbersNeverRepeat tests that no number is drawn twice, by any client and with any clock of
// the server.
func TestNumbersNeverRepeat(t *testing.T) {
	f, r := &fake{keys: map[string]string{}}, rand.New(rand.NewPCG(1, 1))
	clients, drawn := []*Index{testIndex(f.run), testIndex(f.run)}, make(map[uint64]bool)
	for range 20_000 {
		// mostly single numbers, so that blocks are used up
		n := []uint64{1, 2 * minBlock}[r.IntN(1000)/999]
		f.time = 10_000 + r.Uint64N(1_000_000)
		first, err := clients[r.IntN(2)].draw(t.Context(), n)
		must(t, err)
		for seq := first; seq < first+n; seq++ {
			if drawn[seq] {
				t.Fatalf("%d was drawn twice", seq)
			}
			drawn[seq] = true
		}
	}
}

// TestReadsWhileASlotMoves reads from a slot that moves to another node. The slot refuses the
// write of a barrier, so the barrier must be in another slot. The node that still has the slot
// must answer the reads.
func TestReadsWhileASlotMoves(t *testing.T) {
	c, x, ctx := sharedCluster(t), openShared(t, Options{Bare: true, Patience: 10 * time.Second}),
		t.Context()
	from, to := c.all[0], c.all[1]
	var reads []*command // of two slots of one master
	for g := uint32(0); len(reads) < 2; g++ {
		if key := x.name.group(g); from.client.Set(ctx, key, "value", 0).Err() == nil {
			reads = append(reads, newCommand(get, key))
		}
	}
	slot := from.client.ClusterKeySlot(ctx, reads[0].key).Val()
	must(t, to.client.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.id).Err())
	must(t, from.client.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id).Err())
	defer to.client.Do(context.Background(), "CLUSTER", "SETSLOT", slot, "STABLE")
	defer from.client.Do(context.Background(), "CLUSTER", "SETSLOT", slot, "STABLE")
	for range 20 {
		must(t, x.run(ctx, true, reads))
		if reads[0].value != "value" || reads[1].value != "value" {
			t.Fatalf("read %q and %q", reads[0].value, reads[1].value)
		}
	}
}

// counted returns a runner that records the maximal number of commands per call, and the number
// of reads of each key.
func counted(run runner) (_ runner, most *int, reads map[string]int) {
	most, reads = new(int), make(map[string]int)
	return func(ctx context.Context, durable bool, commands []*command) error {
		*most = max(*most, len(commands))
		for _, cmd := range commands {
			if cmd.verb == get {
				reads[cmd.key]++
			}
		}
		return run(ctx, durable, commands)
	}, most, reads
}

// TestRoundTripsOfBatch tests that a batch takes a few round trips, also if its documents are
// copies, or have equal fingerprints and do not match.
func TestRoundTripsOfBatch(t *testing.T) {
	for _, shingles := range []uint64{1, 1000} {
		f, trips := &fake{keys: map[string]string{}, time: 10_000}, 0
		x := testIndex(func(ctx context.Context, durable bool, commands []*command) error {
			trips += min(len(commands), 1)
			return f.run(ctx, durable, commands)
		})
		x.rule.MaxShingleDistance, x.rule.ShortAllowance = 0, 0
		docs, news := make([]index.Document, 64), 0
		for i := range docs {
			docs[i].Shingles[3] = 1 + uint64(i)%shingles
		}
		verdicts, err := x.checkAndAdd(t.Context(), docs)
		must(t, err)
		for _, v := range verdicts {
			if v.Status == index.New {
				news++
			}
		}
		if want := min(int(shingles), len(docs)); news != want ||
			len(verdicts) != len(docs) || trips > 12 {
			t.Errorf("%d verdicts, %d new, want %d; %d round trips", len(verdicts),
				news, want, trips)
		}
	}
}

// TestSweepReadsOnce tests that a sweep reads each log once, for any number of entries per
// document and documents per log.
func TestSweepReadsOnce(t *testing.T) {
	x := openShared(t, Options{Bare: true, MaxDistance: 3})
	if _, err := x.checkAndAdd(t.Context(), made(60, 1000)); err != nil {
		t.Fatal(err)
	}
	run, _, reads := counted(x.run)
	x.run, x.grace = run, 0
	if s, err := x.Sweep(t.Context()); err != nil || s.Entries > 0 || s.Documents > 0 ||
		s.Buckets == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	for key, n := range reads {
		if n > 1 {
			t.Errorf("%s was read %d times", key, n)
		}
	}
}

// TestDeleteBeforeInParts tests that DeleteBefore runs a bounded number of commands at once, for
// any number of documents in a step of the scan.
func TestDeleteBeforeInParts(t *testing.T) {
	x := openShared(t, Options{Bare: true, MaxDistance: 3, Expected: 1})
	if _, err := x.checkAndAdd(t.Context(), made(0, 1000)); err != nil {
		t.Fatal(err)
	}
	run, most, _ := counted(x.run)
	x.run = run
	if n, err := x.DeleteBefore(t.Context(), time.Now().Add(time.Hour)); err != nil || n != 1000 {
		t.Fatalf("%d documents, %v", n, err)
	}
	if *most > window*len(x.plan.Tables) {
		t.Errorf("%d commands at once", *most)
	}
}

// TestRepeatedCommit tests a commit that is repeated within Patience, after other checks of its
// page. The repeated commit must be recognized as done. Otherwise no call would return New for
// the page.
func TestRepeatedCommit(t *testing.T) {
	f := &fake{keys: map[string]string{}, time: 1 << 40}
	x, y, clock := testIndex(f.run), testIndex(f.run), time.Unix(1_800_000_000, 0)
	for _, x := range []*Index{x, y} {
		x.grace, x.longLog, x.now = time.Minute, longLog, func() time.Time { return clock }
	}
	d := index.Document{Key: "https://example.org/" + strings.Repeat("a", 40)}
	x.run = func(ctx context.Context, durable bool, commands []*command) error {
		err := f.run(ctx, durable, commands)
		if len(commands) == 0 || commands[0].verb != say ||
			!strings.HasPrefix(commands[0].key, "m:g") {
			return err
		}
		for range 2000 { // the reply to the commit is lost, and it is repeated later
			f.time, clock = f.time+ticksSecond/100, clock.Add(time.Second/100)
			d.Fingerprint++
			if v, err := checkedOne(t.Context(), y, d); err != nil || v.Status != index.Known {
				t.Fatal(v, err)
			}
		}
		return f.run(ctx, durable, commands)
	}
	if v, err := checkedOne(t.Context(), x, d); err != nil || v.Status != index.New {
		t.Errorf("%v, %v", v.Status, err)
	}
}
