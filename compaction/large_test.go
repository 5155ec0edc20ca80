package compaction_test

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/indextest"
	"github.com/neardup/neardup/internal/store"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
)

// directoryChunk is the number of blocks that a chunk of a directory lists
// (docs/format.md).
const directoryChunk = 4096

// checkLarge compares the answers to some queries with what looking at every fingerprint
// gives, the i-th of which is of document i+1.
func checkLarge(t *testing.T, fps []uint64, opts index.Options, queries []uint64) {
	t.Helper()
	x, err := index.Open("ix", &opts)
	must(t, err)
	defer x.Close()
	k, found := x.Plan().MaxDistance, 0
	for _, q := range queries {
		var want []index.Match
		for i, fp := range fps {
			if d := bits.OnesCount64(fp ^ q); d <= k {
				want = append(want, index.Match{Document: index.Document{ID: uint64(i + 1), Fingerprint: fingerprint.Fingerprint(fp)}, Distance: d})
			}
		}
		slices.SortStableFunc(want, func(a, b index.Match) int { return cmp.Compare(a.Distance, b.Distance) })
		got, err := x.Query(context.Background(), indextest.QueryOf(&index.Document{Fingerprint: fingerprint.Fingerprint(q)}, x.Plan().MaxDistance, 0))
		for i := range got {
			got[i].Added = time.Time{}
		}
		if diff := indextest.Difference(got, want); err != nil || diff != "" {
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
	must(t, err)
	least := ^uint64(0)
	for _, info := range s.Meta().Packed {
		least = min(least, info.Blocks)
	}
	must(t, s.Close())
	return least
}

// TestQueryIsExactOverChunksOfTheDirectory has prefixes whose ranges go over many blocks,
// and over the ends of chunks of the directory.
func TestQueryIsExactOverChunksOfTheDirectory(t *testing.T) {
	t.Parallel()
	if raceEnabled && !atLength() {
		t.Skip("it has no races of its own, and takes long")
	}
	fsys, rng := vfs.NewMem(), rand.New(rand.NewPCG(testseed.Of(t), 1))
	// Besides scattered fingerprints, there are 200,000 of one prefix in each table, and
	// 50,000 without a gap.
	fps := testgen.Uniform(rng, 500_000)
	top, bottom := rng.Uint64()<<40, rng.Uint64()>>40
	for range 200_000 {
		fps = append(fps, top|rng.Uint64()>>24, bottom|rng.Uint64()<<24)
	}
	for i := range uint64(50_000) {
		fps = append(fps, 0x5555555500000000+i)
	}
	rng.Shuffle(len(fps), func(i, j int) { fps[i], fps[j] = fps[j], fps[i] })
	packed := fps[:len(fps)*9/10]
	if _, err := compaction.Load(t.Context(), "ix", seqOf(bare(packed), nil), compaction.LoadOptions{
		Index: index.Options{FS: fsys, Plan: namedPlan(t, "2", 3)}, MemoryBytes: 8 << 20,
	}); err != nil {
		t.Fatal(err)
	}
	if n := fewestBlocks(t, fsys); n <= directoryChunk {
		t.Fatalf("%d blocks in a table: they are listed in one chunk", n)
	}
	queries := testgen.Queries(rng, fps, 40, 3)
	for i := range uint64(10) {
		queries = append(queries, 0x5555555500000000+i*7001, top|rng.Uint64()>>24, bottom|rng.Uint64()<<24)
	}
	checkLarge(t, packed, index.Options{FS: fsys, ReadOnly: true}, queries)
	checkLarge(t, packed, index.Options{FS: fsys, ReadOnly: true, FilterBytes: -1, CacheBytes: 1 << 20}, queries)
	x, err := index.Open("ix", &index.Options{FS: fsys, Durability: index.NoSync})
	must(t, err)
	must(t, x.Add(t.Context(), bare(fps[len(packed):])...), x.Close())
	checkLarge(t, fps, index.Options{FS: fsys}, queries)
	if _, err := compaction.Run(t.Context(), "ix", compaction.Options{FS: fsys, Plan: namedPlan(t, "4", 4), MemoryBytes: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	checkLarge(t, fps, index.Options{FS: fsys}, queries)
}

// packedAndLive are the steps to an open index with packed and live documents, some of them
// with keys, Shingles and a scope, and some deleted.
func packedAndLive(rng *rand.Rand, n int, opts index.Options) (steps []step, fps []uint64) {
	var docs []index.Document
	for _, set := range testgen.Sets(rng, n/3) {
		for _, fp := range set.Fingerprints {
			fps = append(fps, fp)
			d := index.Document{Fingerprint: fingerprint.Fingerprint(fp)}
			if rng.IntN(3) == 0 {
				d.Key, d.Shingle = fmt.Sprint("page ", len(fps)), fingerprint.Fingerprint(rng.IntN(3))
				d.Scope = pick(rng, "", "", "a")
			}
			docs = append(docs, d)
		}
	}
	rng.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	// The packed and live fingerprints that lose some of their documents are those
	// whose postings must not be taken from the packed block alone.
	var gone []string
	for _, d := range docs {
		if d.Key != "" && rng.IntN(4) == 0 {
			gone = append(gone, d.Key)
		}
	}
	packed := len(docs) * 3 / 4
	opts.Durability = index.NoSync
	return []step{{what: "load", docs: docs[:packed], open: opts}, {what: "open", open: opts},
		{what: "add", docs: docs[packed:]}, {what: "delete", keys: gone}}, fps
}

// TestQueryBatchIsQueryInEveryWay compares the ways to answer many queries with brute
// force, over packed and live documents.
func TestQueryBatchIsQueryInEveryWay(t *testing.T) {
	size, asked := number(900, 1500, 3000, 3000), number(60, 150, 400, 400)
	if raceEnabled {
		size, asked = 300, 20
	}
	for i, text := range []string{
		"k=3 0-63/32~1 32-63,0-31/32~1",
		"k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16",
		"k=0 0-63/64",
		"k=5 0-63/21~1 21-42,0-20,43-63/22~1 43-63,0-42/21~1",
		"k=10 0-63/16~2 16-31,0-15,32-63/16~2 32-47,0-31,48-63/16~2 48-63,0-47/16~1",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			p := parsePlan(t, text)
			n, q := size, asked
			if p.Probes() > 200 {
				n, q = size/3, min(asked, 40)
			}
			rng := rand.New(rand.NewPCG(testseed.Of(t), uint64(i)))
			steps, fps := packedAndLive(rng, n, index.Options{
				Plan: p, MaxShingleDistance: 1, FilterBytes: []int64{0, 1 << 16}[i%2], CacheBytes: []int64{1, 0, 1 << 14}[i%3]})
			queries := bare(testgen.Queries(rng, fps, q, p.MaxDistance))
			of := func(first index.Document) []index.Document {
				first.Fingerprint = queries[0].Fingerprint
				return append([]index.Document{first}, queries[1:len(queries)/4]...)
			}
			for _, method := range []string{oneByOne, "each", "sorted", ""} {
				for _, s := range []step{
					{docs: queries, k: p.MaxDistance}, {docs: queries, k: p.MaxDistance / 2, limit: 2}, {docs: queries[:1], k: p.MaxDistance}, {},
					{docs: of(index.Document{Scope: "a"}), k: p.MaxDistance}, {docs: of(index.Document{Shingle: 1}), k: p.MaxDistance},
				} {
					s.what, s.method = "query", method
					steps = append(steps, s)
				}
			}
			newHistory(vfs.NewMem()).must(t, append(steps, step{what: "close"})...)
		})
	}
}
