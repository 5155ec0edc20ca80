package store

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/store/internal/block"
	"github.com/neardup/neardup/store/internal/block/blocktest"
	"pgregory.net/rapid"
)

// readRange reads the fingerprints of a range across blocks.
func readRange(p *PackedTable, first, last uint64) (fps []uint64, err error) {
	for i := p.find(first); i < p.blocks() && first <= last; i++ {
		var b Block
		if err := p.Open(i, &b); err != nil {
			return nil, err
		}
		fps, _ = b.AppendRange(fps, first, last)
		if p.last(i) >= last {
			break
		}
	}
	return fps, nil
}

func naiveFind(lasts []uint64, first uint64) int {
	i, _ := slices.BinarySearch(lasts, first)
	return i
}

// TestPackedTable compares a table with the array from which it was made, for blocks and arenas of
// several sizes.
func TestPackedTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, 2000)
		size := rapid.SampledFrom([]int{64, 100, 1024, 32768}).Draw(t, "block bytes")
		table := rapid.SampledFrom([]int{0, 1, MaxTables - 2}).Draw(t, "table")
		limit := rapid.SampledFrom([]int64{0, 200, 5000, 1 << 20}).Draw(t, "arena")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ids"), 0))
		ids := blocktest.Postings(t, random, len(fps), NewIDs)
		s := storeTable(t, table, fps, ids, size)
		p := s.open(t, openArena(limit))
		if p.blocks() != len(s.lasts) || p.entries != uint64(len(fps)) {
			t.Fatalf("%d fingerprints in %d blocks, want %d in %d", p.entries, p.blocks(),
				len(fps), len(s.lasts))
		}
		for range 20 {
			first, last := blocktest.Range(t, fps)
			if i := p.find(first); i != naiveFind(s.lasts, first) || i < p.blocks() &&
				p.last(i) != s.lasts[i] {
				t.Fatalf("Find(%016x) = %d, want %d", first, i, naiveFind(s.lasts, first))
			}
			want, _ := blocktest.InRange(fps, first, last)
			if got, err := readRange(p, first, last); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%016x..%016x: %x, %v, want %x", first, last, got, err, want)
			}
			at, stored := slices.BinarySearch(fps, first)
			if _, _, found, err := p.locate(first); err != nil || found != stored {
				t.Fatalf("Contains(%016x) = %v, %v", first, found, err)
			}
			if table != 0 {
				continue
			}
			var wantIDs []uint64
			if stored {
				wantIDs = slices.Collect(ids[at].All())
			}
			if got, err := p.posting(first); err != nil ||
				!slices.Equal(slices.Collect(got.All()), wantIDs) {
				t.Fatalf("Posting(%016x) = %v, %v, want %v", first, got, err, wantIDs)
			}
		}
		checkArena(t, p)
	})
}

func TestEmptyPackedTable(t *testing.T) {
	s := storeTable(t, 0, nil, nil, 0)
	p := s.open(t, openArena(0))
	must(t, s.scan(p))
	for _, fp := range []uint64{0, 1, ^uint64(0)} {
		_, _, found, err := p.locate(fp)
		ids, postingErr := p.posting(fp)
		if p.find(fp) != 0 || found || ids.Len() != 0 || err != nil || postingErr != nil {
			t.Errorf("%x: block %d, %v, %v, %v, %v", fp, p.find(fp), found, ids, err, postingErr)
		}
	}
}

// TestBrokenPackedBlocks reads a block that does not fit to the directory. A reader of the block
// must get the error, and the arena must not get the block. A scan must also count fingerprints.
func TestBrokenPackedBlocks(t *testing.T) {
	fps := randomFingerprints(100, 1)
	whole := storeTable(t, 1, fps, nil, 64)
	ids := make([]IDs, len(fps))
	for i := range ids {
		ids[i] = NewIDs(uint64(i + 1))
	}
	withPostings := storeTable(t, 0, fps, ids, 64)
	const broken = 2 // a block
	value := whole.values[whole.blockKey(broken)]
	for message, test := range map[string]struct {
		from  *storedTable
		value []byte // nil: no block
	}{
		"missing":       {whole, nil},
		"empty":         {whole, []byte{}},
		"bytes":         {whole, value[:len(value)-1]},
		"ends with":     {whole, whole.values[whole.blockKey(broken+1)]},
		"begins with":   {whole, blockOf(t, whole.lasts[broken-1], whole.lasts[broken])},
		"have postings": {whole, withPostings.values[withPostings.blockKey(broken)]},
		"postings":      {withPostings, blockOf(t, withPostings.lasts[broken])},
		"hold 9":        {whole, blockOf(t, whole.lasts[broken])}, // of 100 fingerprints
	} {
		s := test.from.clone()
		if s.values[s.blockKey(broken)] = test.value; test.value == nil {
			delete(s.values, s.blockKey(broken))
		}
		p := s.open(t, openArena(1<<20))
		check := func(err error) {
			t.Helper()
			if !errors.Is(err, fault.ErrCorrupt) ||
				!strings.Contains(err.Error(), fmt.Sprint("table ", s.table)) ||
				!strings.Contains(err.Error(), message) {
				t.Errorf("%q: %v", message, err)
			}
		}
		check(s.scan(p))
		if message == "hold 9" {
			continue
		}
		for range 2 { // it is not kept
			check(p.Open(broken, new(Block)))
		}
		_, _, _, err := p.locate(p.last(broken))
		check(err)
		_, err = p.posting(p.last(broken))
		check(err)
		if p.arena.bytes.Load() != 0 {
			t.Errorf("%q: a broken block is in the arena", message)
		}
	}
}

// FuzzPackedTable opens a table of any directory chunk, over any block.
func FuzzPackedTable(f *testing.F) {
	s := storeTable(f, 1, randomFingerprints(30, 1), nil, 64)
	chunk := s.values[s.chunkKey(0)]
	for i := range s.lasts {
		f.Add(chunk, s.values[s.blockKey(i)], uint16(len(s.lasts)), s.lasts[i])
	}
	one := storeTable(f, 1, []uint64{5}, nil, 64)
	f.Add(one.values[one.chunkKey(0)], one.values[one.blockKey(0)], uint16(1), uint64(5))
	f.Fuzz(func(t *testing.T, chunk, block []byte, blocks uint16, fp uint64) {
		from := getterFunc(func(key []byte) ([]byte, error) {
			if key[0] == packedKeyspace {
				return block, nil
			}
			if [4]byte(key[3:]) == [4]byte{} {
				return chunk, nil
			}
			return nil, pebble.ErrNotFound
		})
		p, err := openPackedTable(1, uint64(blocks), uint64(blocks), openArena(1<<20), from)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		lasts := make([]uint64, p.blocks())
		for i := range lasts {
			if lasts[i] = p.last(i); i > 0 && lasts[i] <= lasts[i-1] {
				t.Fatalf("blocks %d and %d end with %x and %x", i-1, i, lasts[i-1], lasts[i])
			}
		}
		if got := p.find(fp); got != naiveFind(lasts, fp) {
			t.Fatalf("Find(%x) = %d, want %d", fp, got, naiveFind(lasts, fp))
		}
		for _, fp := range []uint64{fp, fp + 1} {
			if _, _, _, err := p.locate(fp); err != nil && !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
		}
		checkArena(t, p)
	})
}

// TestDirectoryFind searches directories of several chunks, and at the borders of chunks, of
// fingerprints that are distributed evenly, share nearly all their bits, or both.
func TestDirectoryFind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for name, draw := range map[string]func(i int) uint64{
		"even":      func(int) uint64 { return random.Uint64() },
		"low":       func(i int) uint64 { return uint64(i) },
		"high":      func(i int) uint64 { return math.MaxUint64 - uint64(i) },
		"one place": func(int) uint64 { return 0x123456789a<<24 | random.Uint64N(1<<24) },
		"clusters":  func(int) uint64 { return random.Uint64N(5)<<61 + random.Uint64N(1<<30) },
		"powers":    func(int) uint64 { return random.Uint64() >> random.IntN(64) },
	} {
		for _, n := range []int{1, 2, directoryChunk, directoryChunk + 1, 30_000} {
			lasts := make([]uint64, n)
			for i := range lasts {
				lasts[i] = draw(i)
			}
			slices.Sort(lasts)
			lasts = slices.Compact(lasts)
			a := openArena(0)
			d, err := openPackedTable(3, uint64(len(lasts)), uint64(len(lasts)), a,
				storeDirectory(t, 3, lasts))
			must(t, err)
			if limit := int64(20*len(lasts) + 8); d.ramBytes() > limit {
				t.Errorf("%s, %d blocks take %d bytes", name, n, d.ramBytes())
			}
			for range 5000 {
				fp := lasts[random.IntN(len(lasts))] + uint64(random.IntN(3)) - 1
				if random.IntN(8) == 0 {
					fp = draw(random.IntN(n)) ^ 1<<random.IntN(64)
				}
				if got, want := d.find(fp), naiveFind(lasts, fp); got != want {
					t.Fatalf("%s, %d blocks: find(%016x) = %d, want %d", name, n, fp, got, want)
				}
			}
			a.release()
		}
	}
}

func TestBrokenDirectory(t *testing.T) {
	lasts := randomFingerprints(2*directoryChunk+100, 1)
	whole := storeDirectory(t, 3, lasts)
	n := uint64(len(lasts))
	set := func(chunk int, lasts ...uint64) func(*storedTable) {
		return func(s *storedTable) { s.values[s.chunkKey(chunk)] = blockOf(t, lasts...) }
	}
	remove := func(chunk int) func(*storedTable) {
		return func(s *storedTable) { delete(s.values, s.chunkKey(chunk)) }
	}
	spoil := func(chunk, from, to int, with byte) func(*storedTable) {
		return func(s *storedTable) {
			value := slices.Clone(s.values[s.chunkKey(chunk)])
			for i := range value[from:to] {
				value[from+i] = with
			}
			s.values[s.chunkKey(chunk)] = value
		}
	}
	nothing := func(*storedTable) {}
	for name, test := range map[string]struct {
		change   func(s *storedTable)
		blocks   uint64
		mentions string
	}{
		"first missing": {remove(0), n, "chunk 0"},
		"last missing":  {remove(2), n, "last directory chunk"},
		"a short chunk": {set(1, lasts[directoryChunk:directoryChunk+5]...), n, "chunk 2"},
		"a long chunk":  {set(1, lasts[directoryChunk-1:2*directoryChunk]...), n, "chunk 1"},
		"a chunk twice": {set(1, lasts[:directoryChunk]...), n, "chunk 1"},
		"a block twice": {set(1, slices.Concat(lasts[directoryChunk-1:directoryChunk],
			lasts[directoryChunk+1:2*directoryChunk])...), n, "block 4096 ends"},
		"one chunk more":    {set(3, lasts[:1]...), n, "chunk 3"},
		"one block less":    {nothing, n - 1, "chunk 2"},
		"one block more":    {nothing, n + 1, "ends with block"},
		"one chunk less":    {nothing, 2 * directoryChunk, "chunk 2"},
		"no blocks":         {nothing, 0, "chunk 0"},
		"far too many":      {nothing, 1 << 31, "missing"},
		"more than numbers": {nothing, 1 << 40, "blocks"},
		"an empty chunk":    {func(s *storedTable) { s.values[s.chunkKey(0)] = nil }, n, "chunk 0"},
		"a broken chunk":    {spoil(0, 10, 100, 0), n, "chunk 0"},
		"postings":          {spoil(2, 0, 1, 0x82), n, "postings"},
	} {
		s := whole.clone()
		test.change(s)
		_, err := openPackedTable(3, test.blocks*10, test.blocks, openArena(0), s)
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "table 3") ||
			!strings.Contains(err.Error(), test.mentions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, entries := range []uint64{0, n - 1, n*block.MaxLen + block.MaxLen, math.MaxUint64} {
		if _, err := openPackedTable(3, entries, n, openArena(0), whole); !errors.Is(err,
			fault.ErrCorrupt) {
			t.Errorf("%d fingerprints in %d blocks: %v", entries, n, err)
		}
	}
	failure := errors.New("failure")
	if _, err := openPackedTable(3, n, n, openArena(0), getterFunc(func([]byte) ([]byte, error) {
		return nil, failure
	})); !errors.Is(err, failure) {
		t.Errorf("a failed read: %v", err)
	}
}
