package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index/verify"
	"github.com/neardup/neardup/internal/store"
)

// checkVerified sees to it that Verify finds nothing.
func checkVerified(t failer, x *Index) {
	t.Helper()
	for p := range x.Verify(context.Background(), verify.Options{}) {
		t.Fatalf("verify: %v", p)
	}
}

func plantIn(t *testing.T, x *Index, plant func(*store.Batch)) {
	t.Helper()
	b := x.store.NewBatch()
	plant(b)
	finish, err := x.store.Apply(b, false)
	if err == nil {
		err = finish()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestVerifyFindsPlantedDamage: each damage that a lost, doubled or wrong write would do
// is found, with its kind and its keyspace, and all of them at once too.
func TestVerifyFindsPlantedDamage(t *testing.T) {
	type plant struct {
		what  string
		do    func(b *store.Batch, x *Index, d []Document)
		wants []string
	}
	plants := []plant{
		{"a missing entry", func(b *store.Batch, x *Index, d []Document) {
			b.DeleteEntry(1, x.plan.Tables[1].Permute(storedOf(&d[0])))
		}, []string{"missing table"}},
		{"an entry too many", func(b *store.Batch, _ *Index, _ []Document) { b.SetEntry(2, 12345) }, []string{"unexpected table"}},
		{"a missing posting", func(b *store.Batch, _ *Index, d []Document) { b.DeletePosting(storedOf(&d[1])) },
			[]string{"miscounted meta", "unexpected table"}}, // of a bare document, nothing else tells
		{"an ID too many", func(b *store.Batch, _ *Index, d []Document) {
			b.ChangePosting(storedOf(&d[0]), store.NewIDs(99), store.IDs{})
		}, []string{"unexpected table", "miscounted meta"}},
		{"an ID in two postings", func(b *store.Batch, _ *Index, d []Document) {
			b.ChangePosting(storedOf(&d[0]), store.NewIDs(d[2].ID), store.IDs{})
		}, []string{"unexpected table"}},
		{"a missing record", func(b *store.Batch, _ *Index, d []Document) { b.DeleteRecord(d[3].ID) }, []string{"unexpected key", "miscounted meta"}},
		{"a record too many", func(b *store.Batch, _ *Index, _ []Document) { b.SetRecord(98, store.Record{Key: "x"}) },
			[]string{"unexpected document", "missing key", "missing table"}},
		{"a record with another fingerprint", func(b *store.Batch, _ *Index, d []Document) {
			b.SetRecord(d[4].ID, store.Record{Fingerprint: 77, Key: d[4].Key})
		}, []string{"missing table", "unexpected table"}},
		{"a missing key", func(b *store.Batch, _ *Index, d []Document) { b.SetKeyIDs(store.KeyHash(d[5].Key), store.IDs{}) }, []string{"missing key"}},
		{"a key too many", func(b *store.Batch, _ *Index, d []Document) { b.SetKeyIDs(4711, store.NewIDs(d[0].ID)) }, []string{"unexpected key", "false negative filter"}},
		{"a key of another document", func(b *store.Batch, _ *Index, d []Document) {
			b.SetKeyIDs(store.KeyHash(d[6].Key), store.NewIDs(d[7].ID))
		}, []string{"missing key", "unexpected key"}},
		{"two documents of one key", func(b *store.Batch, _ *Index, d []Document) {
			b.SetRecord(d[8].ID, store.Record{Fingerprint: uint64(d[8].Fingerprint), Key: d[9].Key})
			b.SetKeyIDs(store.KeyHash(d[8].Key), store.IDs{})
			b.SetKeyIDs(store.KeyHash(d[9].Key), store.NewIDs(d[8].ID, d[9].ID))
		}, []string{"unexpected document"}},
		{"wrong counters", func(b *store.Batch, x *Index, _ []Document) {
			c := x.counters
			c.Documents--
			b.SetCounters(c)
		}, []string{"miscounted meta"}},
		{"a second that no clock tells", func(b *store.Batch, _ *Index, _ []Document) { b.SetClock(3, 1<<63) }, []string{"malformed clock"}},
		{"a clock of the future", func(b *store.Batch, _ *Index, _ []Document) { b.SetClock(1<<40, 1<<40) }, []string{"malformed clock"}},
		{"a table too many", func(b *store.Batch, _ *Index, _ []Document) { b.SetEntry(9, 1) }, []string{"malformed unknown"}},
	}
	all := plant{what: "all of it", do: func(b *store.Batch, x *Index, d []Document) {
		for _, p := range plants {
			p.do(b, x, d)
		}
	}}
	for _, p := range plants {
		all.wants = append(all.wants, p.wants...)
	}
	for _, p := range append(plants, all) {
		x := openMem(t, Options{Plan: mustPlan(t, "4", 3)})
		rng := rand.New(rand.NewPCG(1, 2))
		docs := make([]Document, 12)
		for i := range docs {
			docs[i] = Document{Key: fmt.Sprint("key ", i), Fingerprint: fingerprint.Fingerprint(rng.Uint64())}
		}
		docs[1].Key = "" // bare
		if err := x.Add(context.Background(), docs...); err != nil {
			t.Fatal(err)
		}
		checkVerified(t, x)
		plantIn(t, x, func(b *store.Batch) { p.do(b, x, docs) })
		found := map[string]bool{}
		for problem := range x.Verify(context.Background(), verify.Options{}) {
			found[string(problem.Kind)+" "+problem.Keyspace] = true
			if problem.Message == "" || problem.Key == "" && problem.Keyspace != "meta" {
				t.Errorf("%s: %+v says too little", p.what, problem)
			}
		}
		for _, want := range p.wants {
			if !found[want] {
				t.Errorf("%s: no problem %q, but %v", p.what, want, found)
			}
		}
		for what := range found {
			if !slices.Contains(p.wants, what) {
				t.Errorf("%s: a problem %q that is none", p.what, what)
			}
		}
	}
}

// TestVerifyStreamsEveryProblem: not the first only, in little memory, and it stops when
// it is told to.
func TestVerifyStreamsEveryProblem(t *testing.T) {
	const entries = 5000
	x := openMem(t, Options{Plan: mustPlan(t, "4", 3)})
	rng := rand.New(rand.NewPCG(3, 4))
	plantIn(t, x, func(b *store.Batch) {
		for range entries {
			b.SetEntry(1+rng.IntN(3), rng.Uint64())
		}
	})
	n := 0
	for p := range x.Verify(context.Background(), verify.Options{MemoryBytes: 1 << 10}) {
		if p.Kind != verify.Unexpected {
			t.Fatal(p)
		}
		n++
	}
	if n != entries {
		t.Errorf("%d problems, of %d", n, entries)
	}
	for range x.Verify(context.Background(), verify.Options{}) {
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last verify.Problem
	n = 0
	for p := range x.Verify(ctx, verify.Options{}) {
		last = p
		n++
		cancel()
	}
	if last.Kind != verify.Unchecked || !errors.Is(last.Err, context.Canceled) {
		t.Errorf("cancelled after %d problems: %v", n, last)
	}
}

// TestVerifyWhileWritesGoOn: it looks at one moment, and finds nothing.
func TestVerifyWhileWritesGoOn(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{Durability: NoSync})
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for w := range 3 {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 9))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprint(w, " ", rng.IntN(200))
				_, err := x.CheckAndAdd(ctx, Document{Key: key, Fingerprint: fingerprint.Fingerprint(rng.Uint64() & 0xffffff)})
				if err == nil && n%3 == 0 {
					_, err = x.Delete(ctx, fmt.Sprint(w, " ", rng.IntN(200)))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		checkVerified(t, x)
	}
	close(stop)
	wait.Wait()
}

// TestVerifyOfClosedIndex ends with the error that says so.
func TestVerifyOfClosedIndex(t *testing.T) {
	x, err := Open("ix", &Options{FS: vfs.NewMem()})
	if err == nil {
		err = x.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for p := range x.Verify(context.Background(), verify.Options{}) {
		if n++; !errors.Is(p.Err, ErrClosed) {
			t.Error(p)
		}
	}
	if n != 1 {
		t.Errorf("%d problems", n)
	}
}
