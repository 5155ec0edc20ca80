package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
)

// openIndex opens an index that is closed when the test ends.
func openIndex(t *testing.T, dir string, opts index.Options) *index.Index {
	t.Helper()
	x, err := index.Open(dir, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil && !errors.Is(err, index.ErrClosed) {
			t.Error(err)
		}
	})
	return x
}

// someDocuments draws documents of few keys and scopes.
func someDocuments(rng *rand.Rand, n, keys int) []index.Document {
	docs := make([]index.Document, 0, n)
	for _, set := range testgen.Sets(rng, n/3+1) {
		for _, fp := range set.Fingerprints {
			d := index.Document{Fingerprint: fingerprint.Fingerprint(fp)}
			switch r := rng.IntN(8); {
			case r < 4:
				d.Key = fmt.Sprint("page ", rng.IntN(keys))
			case r == 4 && rng.IntN(1+n/300) == 0:
				d.Key = collidingKeys[rng.IntN(2)]
			}
			if rng.IntN(4) == 0 {
				d.Scope = []string{"a", "b", collidingKeys[0], collidingKeys[1]}[rng.IntN(4)]
			}
			if rng.IntN(4) == 0 {
				d.Shingle = fingerprint.Fingerprint(rng.Uint64())
			}
			if rng.IntN(4) == 0 {
				d.Tokens = rng.IntN(1000)
			}
			docs = append(docs, d)
		}
	}
	rng.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	return docs[:n]
}

// withoutRepeats cuts documents into batches in which no key comes twice. Added batch by
// batch they arrive one after the other.
func withoutRepeats(docs []index.Document) (batches [][]index.Document) {
	from, seen := 0, map[string]bool{}
	for i, d := range docs {
		if seen[d.Key] {
			batches = append(batches, docs[from:i])
			from = i
			clear(seen)
		}
		seen[d.Key] = d.Key != ""
	}
	return append(batches, docs[from:])
}

// TestLoadIsAdd loads documents into one index and adds the same, one after the other,
// to another. There must be no difference.
func TestLoadIsAdd(t *testing.T) {
	ctx := context.Background()
	s := testseed.Of(t)
	sizes := []int{10, 300, 3000, 60_000} // most of the last one is more than fits in the least memory
	if raceEnabled {
		sizes = sizes[:3]
	}
	for i, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(s, uint64(i)))
			fsys := vfs.NewMem()
			opts := index.Options{FS: fsys, Durability: index.NoSync}
			for _, dir := range []string{"loaded", "added"} {
				x := openIndex(t, dir, opts)
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
			}
			// Most come by the first load, into a new index, the rest by the second.
			docs := someDocuments(rng, n, n/3)
			known, there := map[string]bool{}, 0
			for some := range slices.Chunk(docs, n*5/6) {
				report, err := compaction.Load(ctx, "loaded", seqOf(some, nil), compaction.LoadOptions{Index: opts, MemoryBytes: 1})
				if err != nil {
					t.Fatal(err)
				}
				replaced := 0
				for _, d := range some {
					if known[d.Key] {
						replaced++
					}
					known[d.Key] = d.Key != ""
				}
				there += len(some) - replaced
				if report.Loaded != uint64(len(some)) || report.Replaced != uint64(replaced) || report.Documents != uint64(there) {
					t.Errorf("%+v: %d replaced, %d there", report, replaced, there)
				}
			}
			x := openIndex(t, "added", opts)
			for _, batch := range withoutRepeats(docs) {
				if err := x.Add(ctx, batch...); err != nil {
					t.Fatal(err)
				}
			}
			sameIndex(t, openIndex(t, "loaded", opts), x)
		})
	}
}

// sameIndex compares everything but the time of arrival.
func sameIndex(t *testing.T, a, b *index.Index) {
	t.Helper()
	if a, b := a.Stats(), b.Stats(); a.Documents != b.Documents || a.Bare != b.Bare || a.NextID != b.NextID {
		t.Errorf("%+v and %+v", a, b)
	}
	all := allDocuments(t, a)
	if diff := difference(withoutTimes(all), withoutTimes(allDocuments(t, b))); diff != "" {
		t.Fatalf("documents: %s", diff)
	}
	for i, d := range all {
		if i%50 > 0 && len(all) > 1000 {
			continue
		}
		var answers [2][]index.Document
		for j, x := range []*index.Index{a, b} {
			got, found, err := x.Get(context.Background(), d.Key)
			if err != nil || found != (d.Key != "") {
				t.Fatalf("key %q: %v, %v", d.Key, found, err)
			}
			matches, err := x.Query(context.Background(), d.Fingerprint, index.InScope(d.Scope))
			if err != nil {
				t.Fatal(err)
			}
			answers[j] = []index.Document{got}
			for _, m := range matches {
				answers[j] = append(answers[j], m.Document)
			}
		}
		if diff := difference(withoutTimes(answers[0]), withoutTimes(answers[1])); diff != "" {
			t.Fatalf("document %+v: %s", d, diff)
		}
	}
}

func allDocuments(t *testing.T, x *index.Index) (docs []index.Document) {
	t.Helper()
	for d, err := range x.Documents(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	return docs
}

func withoutTimes(docs []index.Document) []index.Document {
	docs = slices.Clone(docs)
	for i := range docs {
		docs[i].Added = time.Time{}
	}
	return docs
}

// TestLoadOfEqualFingerprints: their posting is a bitmap, larger than any block.
func TestLoadOfEqualFingerprints(t *testing.T) {
	ctx, fsys := context.Background(), vfs.NewMem()
	const n, fp = 300_000, 0x0123456789abcdef
	opts := index.Options{FS: fsys, Durability: index.NoSync}
	x := openIndex(t, "ix", opts)
	// The documents between them have others, so that the bitmap has no runs.
	equal := func(yield func(index.Document, error) bool) {
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range n {
			d := index.Document{Fingerprint: fp}
			if i%2 == 1 && rng.IntN(2) == 0 {
				d.Fingerprint = fingerprint.Fingerprint(rng.Uint64())
			}
			if i%1000 == 0 {
				d.Key = fmt.Sprint(i)
			}
			if !yield(d, nil) {
				return
			}
		}
	}
	if err := errors.Join(x.Add(ctx, index.Document{Fingerprint: fp}, index.Document{Fingerprint: fp, Key: "5000"}), x.Close()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	last := map[string]compaction.Progress{}
	report, err := compaction.Load(ctx, "ix", equal, compaction.LoadOptions{Index: opts, MemoryBytes: 1, Progress: func(p compaction.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if p.Done == 0 || p.Total > 0 && p.Done > p.Total {
			t.Errorf("%+v", p)
		}
		p.Done = max(p.Done, last[p.Stage].Done)
		last[p.Stage] = p
	}})
	if err != nil {
		t.Fatal(err)
	}
	if report.Replaced != 1 || report.Loaded != n || report.Documents != n+1 {
		t.Errorf("%+v", report)
	}
	if last[compaction.StageRead].Done < n/2 || last[compaction.StageMerge].Done == 0 {
		t.Errorf("progress %+v", last)
	}
	x = openIndex(t, "ix", opts)
	if n, err := x.Delete(ctx, "5000", "6000", "nobody's"); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	want := []index.Match{{Document: index.Document{ID: 1, Fingerprint: fp}}}
	for i := range 20_000 {
		if id := uint64(i + 3); i%2 == 0 && i != 5000 && i != 6000 {
			d := index.Document{ID: id, Fingerprint: fp}
			if i%1000 == 0 {
				d.Key = fmt.Sprint(i)
			}
			want = append(want, index.Match{Document: d})
		}
	}
	matches, err := x.Query(ctx, fp, index.MaxDistance(0), index.Limit(16_000))
	if err != nil {
		t.Fatal(err)
	}
	// Of the others, every second one has the fingerprint as well.
	matches = slices.DeleteFunc(matches, func(m index.Match) bool { return m.ID > 2 && m.ID%2 == 0 || m.ID > 20_002 })
	for i := range matches {
		matches[i].Added = time.Time{}
	}
	if diff := difference(matches, want[:len(matches)]); diff != "" || len(matches) < 9000 {
		t.Errorf("%d matches: %s", len(matches), diff)
	}
}

// TestPackedPostingThatChangesOften: of a fingerprint with many packed documents some go,
// and others come and go, one commit after the other, so that its posting is written whole.
func TestPackedPostingThatChangesOften(t *testing.T) {
	ctx, seed := context.Background(), testseed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	fsys := vfs.NewMem()
	opts := index.Options{FS: fsys, Durability: index.NoSync}
	const packed = 3000
	docs := make([]index.Document, packed)
	for i := range docs {
		docs[i].Fingerprint = 12345
	}
	if _, err := compaction.Load(ctx, "ix", seqOf(docs, nil), compaction.LoadOptions{Index: opts}); err != nil {
		t.Fatal(err)
	}
	var left []uint64
	for id := range uint64(packed) {
		left = append(left, id+1)
	}
	for round := range 2 {
		x := openIndex(t, "ix", opts)
		for range 1500 {
			if rng.IntN(3) == 0 {
				d := []index.Document{{Fingerprint: 12345}}
				if err := x.Add(ctx, d...); err != nil {
					t.Fatal(err)
				}
				left = append(left, d[0].ID)
				continue
			}
			i := rng.IntN(len(left))
			if n, err := x.DeleteIDs(ctx, left[i]); n != 1 || err != nil {
				t.Fatalf("seed %d: %d deleted: %v", seed, n, err)
			}
			left = slices.Delete(left, i, i+1)
		}
		matches, err := x.Query(ctx, 12345)
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, m := range matches {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, left) {
			t.Fatalf("seed %d, round %d: %d documents are left, not %d", seed, round, len(got), len(left))
		}
		for p := range x.Verify(ctx) {
			t.Errorf("seed %d, round %d: %v", seed, round, p)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := compaction.Run(ctx, "ix", compaction.Options{FS: fsys}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReportOfARefusedDocument: what is refused is not counted among what was loaded.
func TestReportOfARefusedDocument(t *testing.T) {
	docs := []index.Document{{Fingerprint: 1}, {Fingerprint: 2}, {Tokens: -1}, {Fingerprint: 3}}
	r, err := compaction.Load(t.Context(), "ix", seqOf(docs, nil), compaction.LoadOptions{Index: index.Options{FS: vfs.NewMem()}})
	if !errors.Is(err, index.ErrTooLarge) || r.Loaded != 2 {
		t.Errorf("%d loaded: %v", r.Loaded, err)
	}
}

// TestLoadUnderAClockThatWentBack: each load has the time of its own clock.
func TestLoadUnderAClockThatWentBack(t *testing.T) {
	now := time.Unix(2000, 0).UTC()
	opts := index.Options{FS: vfs.NewMem(), Now: func() time.Time { return now }}
	want := map[uint64]time.Time{}
	for i, second := range []int64{2000, 2000, 1000, 3000} {
		now = time.Unix(second, 0).UTC()
		docs := []index.Document{{Fingerprint: fingerprint.Fingerprint(i)}, {Key: fmt.Sprint(i)}}
		if _, err := compaction.Load(t.Context(), "ix", seqOf(docs, nil), compaction.LoadOptions{Index: opts}); err != nil {
			t.Fatal(err)
		}
		want[uint64(2*i+1)], want[uint64(2*i+2)] = now, now
	}
	x := openIndex(t, "ix", opts)
	n := 0
	for d, err := range x.Documents(t.Context()) {
		if n++; err != nil || !d.Added.Equal(want[d.ID]) {
			t.Errorf("document %d was added %v, not %v: %v", d.ID, d.Added, want[d.ID], err)
		}
	}
	if n != len(want) {
		t.Errorf("%d documents, not %d", n, len(want))
	}
}
