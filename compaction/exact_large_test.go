package compaction_test

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
)

// directoryChunk is the number of blocks that a chunk of a directory lists
// (docs/format.md).
const directoryChunk = 4096

// manyBare are many documents without a key, the i-th of which has ID i+1.
type manyBare []uint64

func (m manyBare) all() func(func(index.Document, error) bool) {
	return func(yield func(index.Document, error) bool) {
		for _, fp := range m {
			if !yield(index.Document{Fingerprint: fingerprint.Fingerprint(fp)}, nil) {
				return
			}
		}
	}
}

// check compares the answers to some queries with what looking at every fingerprint
// gives.
func (m manyBare) check(t *testing.T, opts index.Options, queries []uint64) {
	t.Helper()
	x, err := index.Open("ix", &opts)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	k, found := x.Plan().MaxDistance, 0
	for _, q := range queries {
		var want []index.Match
		for i, fp := range m {
			if d := bits.OnesCount64(fp ^ q); d <= k {
				want = append(want, index.Match{Document: index.Document{ID: uint64(i + 1), Fingerprint: fingerprint.Fingerprint(fp)}, Distance: d})
			}
		}
		slices.SortStableFunc(want, func(a, b index.Match) int { return cmp.Compare(a.Distance, b.Distance) })
		got, err := x.Query(context.Background(), fingerprint.Fingerprint(q))
		for i := range got {
			got[i].Added = time.Time{}
		}
		if diff := difference(got, want); err != nil || diff != "" {
			t.Fatalf("plan %v, filter of %d bytes: query %016x: %v: %s", x.Plan(), opts.FilterBytes, q, err, diff)
		}
		found += len(got)
	}
	if found == 0 {
		t.Error("no query found anything")
	}
}

// fewestBlocks returns the blocks of the table that has the fewest.
func fewestBlocks(t *testing.T, fsys vfs.FS) uint64 {
	t.Helper()
	s, err := store.Open("ix", store.Options{FS: fsys, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	least := ^uint64(0)
	for _, info := range s.PackedInfo() {
		least = min(least, info.Blocks)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return least
}

// TestQueryIsExactOverChunksOfTheDirectory has prefixes whose ranges go over many blocks,
// and over the ends of chunks of the directory.
func TestQueryIsExactOverChunksOfTheDirectory(t *testing.T) {
	if raceEnabled && !atLength() {
		t.Skip("it has no races of its own, and takes long")
	}
	ctx, fsys := context.Background(), vfs.NewMem()
	s := testseed.Of(t)
	rng := rand.New(rand.NewPCG(s, 1))
	// Besides scattered fingerprints, there are 200,000 of one prefix in each table, and
	// 50,000 without a gap.
	m := manyBare(testgen.Uniform(rng, 500_000))
	top, bottom := rng.Uint64()<<40, rng.Uint64()>>40
	for range 200_000 {
		m = append(m, top|rng.Uint64()>>24, bottom|rng.Uint64()<<24)
	}
	for i := range uint64(50_000) {
		m = append(m, 0x5555555500000000+i)
	}
	rng.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
	p, err := plan.Named("2", 3)
	if err != nil {
		t.Fatal(err)
	}
	packed := m[:len(m)*9/10]
	if _, err := compaction.Load(ctx, "ix", packed.all(), compaction.LoadOptions{
		Index: index.Options{FS: fsys, Plan: p}, MemoryBytes: 8 << 20,
	}); err != nil {
		t.Fatal(err)
	}
	if n := fewestBlocks(t, fsys); n <= directoryChunk {
		t.Fatalf("%d blocks in a table: they are listed in one chunk", n)
	}
	queries := testgen.Queries(rng, m, 40, 3)
	for i := range uint64(10) {
		queries = append(queries, 0x5555555500000000+i*7001, top|rng.Uint64()>>24, bottom|rng.Uint64()<<24)
	}
	for _, opts := range []index.Options{
		{FS: fsys, ReadOnly: true},
		{FS: fsys, ReadOnly: true, FilterBytes: -1, CacheBytes: 1 << 20},
	} {
		packed.check(t, opts, queries)
	}
	x, err := index.Open("ix", &index.Options{FS: fsys, Durability: index.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	var docs []index.Document
	for d := range m[len(packed):].all() {
		docs = append(docs, d)
	}
	if err := errors.Join(x.Add(ctx, docs...), x.Close()); err != nil {
		t.Fatal(err)
	}
	m.check(t, index.Options{FS: fsys}, queries)
	if p, err = plan.Named("4", 4); err != nil {
		t.Fatal(err)
	}
	if _, err := compaction.Run(ctx, "ix", compaction.Options{FS: fsys, Plan: p, MemoryBytes: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	m.check(t, index.Options{FS: fsys}, queries)
}
