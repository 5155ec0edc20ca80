package store

import (
	"errors"
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
	s.inView(t, p, func(v *View) {
		for range v.packedBlocks(s.table, 0) {
			t.Error("a block, or an error")
		}
	})
	for _, fp := range []uint64{0, 1, ^uint64(0)} {
		_, _, found, err := p.locate(fp)
		ids, postingErr := p.posting(fp)
		if p.find(fp) != 0 || found || ids.Len() != 0 || err != nil || postingErr != nil {
			t.Errorf("%x: block %d, %v, %v, %v, %v", fp, p.find(fp), found, ids, err, postingErr)
		}
	}
}

// Blocks that are not what the directory says.
func TestBrokenPackedBlocks(t *testing.T) {
	fps := randomFingerprints(100, 1)
	whole := storeTable(t, 1, fps, nil, 64)
	ids := make([]IDs, len(fps))
	for i := range ids {
		ids[i] = NewIDs(uint64(i + 1))
	}
	withPostings := storeTable(t, 0, fps, ids, 64)
	const broken = 2
	set := func(value []byte) func(*storedTable) {
		return func(s *storedTable) { s.values[s.blockKey(broken)] = value }
	}
	for _, test := range []struct {
		name    string
		from    *storedTable
		change  func(*storedTable)
		message string
	}{
		{"missing", whole, func(s *storedTable) { delete(s.values, s.blockKey(broken)) },
			"missing"},
		{"empty", whole, set([]byte{}), "empty"},
		{"cut off", whole, func(s *storedTable) {
			value := s.values[s.blockKey(broken)]
			s.values[s.blockKey(broken)] = value[:len(value)-1]
		}, "bytes"},
		{"of the next key", whole, set(whole.values[whole.blockKey(broken+1)]), "ends with"},
		{"more at its beginning", whole,
			set(blockOf(t, whole.lasts[broken-1], whole.lasts[broken])), "begins with"},
		{"Huffman", whole, set([]byte{1, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}), "unknown codec"},
		{"postings", whole, set(withPostings.values[withPostings.blockKey(broken)]), "postings"},
		{"no postings", withPostings, set(blockOf(t, withPostings.lasts[broken])), "postings"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.from.clone()
			test.change(s)
			p := s.open(t, openArena(1<<20))
			check := func(err error) {
				t.Helper()
				if !errors.Is(err, fault.ErrCorrupt) ||
					!strings.Contains(err.Error(), "table "+string('0'+rune(s.table))) ||
					!strings.Contains(err.Error(), test.message) {
					t.Errorf("%v", err)
				}
			}
			for range 2 { // it is not kept
				err := p.Open(broken, new(Block))
				check(err)
			}
			_, _, _, err := p.locate(p.last(broken))
			check(err)
			_, err = p.posting(p.last(broken))
			check(err)
			if p.arena.bytes.Load() != 0 {
				t.Error("a broken block is in the arena")
			}
			s.inView(t, p, func(v *View) {
				blocks, err := 0, error(nil)
				for _, err = range v.packedBlocks(s.table, 0) {
					blocks++
				}
				if check(err); blocks != broken+1 {
					t.Errorf("the error is item %d", blocks)
				}
			})
		})
	}
}

// TestPackedBlocksFromCounts tests that a scan also finds blocks that no directory lists.
func TestPackedBlocksFromCounts(t *testing.T) {
	fps := randomFingerprints(100, 1)
	whole := storeTable(t, 1, fps, nil, 64)
	end := len(whole.lasts) - 1
	for name, change := range map[string]func(*storedTable){
		"the last missing": func(s *storedTable) { delete(s.values, s.blockKey(end)) },
		"one more in between": func(s *storedTable) {
			s.values[string(tableKey(packedKeyspace, 1, s.lasts[3]+1))] = s.values[s.blockKey(3)]
		},
		"one more at the end": func(s *storedTable) {
			s.values[string(tableKey(packedKeyspace, 1,
				s.lasts[end]+1))] = s.values[s.blockKey(end)]
		},
		"a key too long":  func(s *storedTable) { s.values[s.blockKey(3)+"x"] = nil },
		"a key too short": func(s *storedTable) { s.values[s.blockKey(3)[:5]] = nil },
		"a fingerprint less": func(s *storedTable) {
			s.values[s.blockKey(3)] = blockOf(t, s.lasts[3])
		},
	} {
		s := whole.clone()
		change(s)
		s.inView(t, s.open(t, openArena(0)), func(v *View) {
			for _, first := range []uint64{0, s.lasts[0] + 1} {
				var err error
				for _, err = range v.packedBlocks(s.table, first) {
				}
				if first != 0 && name == "a fingerprint less" {
					continue // only a scan of all blocks can count
				}
				if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "table 1") {
					t.Errorf("%s, from %x: %v", name, first, err)
				}
			}
		})
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

// Directories of several chunks, and at the borders of chunks, of fingerprints that
// are spread evenly, share nearly all their bits, or both.
func TestDirectoryFind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	shapes := map[string]func(i int) uint64{
		"even":      func(int) uint64 { return random.Uint64() },
		"low":       func(i int) uint64 { return uint64(i) },
		"high":      func(i int) uint64 { return math.MaxUint64 - uint64(i) },
		"one place": func(int) uint64 { return 0x123456789a<<24 | random.Uint64N(1<<24) },
		"clusters":  func(int) uint64 { return random.Uint64N(5)<<61 + random.Uint64N(1<<30) },
		"powers":    func(int) uint64 { return random.Uint64() >> random.IntN(64) },
	}
	for name, draw := range shapes {
		for _, n := range []int{1, 2, 3, directoryChunk - 1, directoryChunk, directoryChunk + 1,
			2 * directoryChunk, 30_000} {
			lasts := make([]uint64, 0, n)
			for i := range n {
				lasts = append(lasts, draw(i))
			}
			slices.Sort(lasts)
			lasts = slices.Compact(lasts)
			s := storeDirectory(t, 3, lasts)
			a := openArena(0)
			d, err := openPackedTable(3, uint64(len(lasts)), uint64(len(lasts)), a, s)
			if err != nil {
				t.Fatalf("%s, %d blocks: %v", name, n, err)
			}
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
	nothing := func(*storedTable) {}
	failure := errors.New("failure")
	for name, test := range map[string]struct {
		change   func(s *storedTable)
		blocks   uint64
		mentions string
	}{
		"first missing":  {remove(0), n, "chunk 0"},
		"second missing": {remove(1), n, "chunk 1"},
		"last missing":   {remove(2), n, "last directory chunk"},
		"all missing":    {func(s *storedTable) { clear(s.values) }, n, "missing"},
		"a short chunk":  {set(1, lasts[directoryChunk:directoryChunk+5]...), n, "chunk 2"},
		"a long chunk":   {set(1, lasts[directoryChunk-1:2*directoryChunk]...), n, "chunk 1"},
		"chunks swapped": {func(s *storedTable) {
			first, second := s.chunkKey(0), s.chunkKey(1)
			s.values[first], s.values[second] = s.values[second], s.values[first]
		}, n, "chunk 1"},
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
		"a broken chunk": {func(s *storedTable) {
			chunk := slices.Clone(s.values[s.chunkKey(0)])
			clear(chunk[10:100])
			s.values[s.chunkKey(0)] = chunk
		}, n, "chunk 0"},
		"unknown codec": {func(s *storedTable) {
			s.values[s.chunkKey(0)] = []byte{1, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}
		}, n, "chunk 0"},
		"postings": {func(s *storedTable) {
			last := slices.Clone(s.values[s.chunkKey(2)])
			last[0] |= 0x80
			s.values[s.chunkKey(2)] = last
		}, n, "postings"},
	} {
		s := whole.clone()
		test.change(s)
		_, err := openPackedTable(3, test.blocks*10, test.blocks, openArena(0), s)
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "table 3") ||
			!strings.Contains(err.Error(), test.mentions) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := openPackedTable(3, test.blocks*10, test.blocks, openArena(0),
			getterFunc(func([]byte) ([]byte, error) {
				return nil, failure
			})); test.blocks < 1<<32 && !errors.Is(err, failure) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, entries := range []uint64{0, n - 1, n*block.MaxLen + block.MaxLen, math.MaxUint64} {
		if _, err := openPackedTable(3, entries, n, openArena(0), whole); !errors.Is(err,
			fault.ErrCorrupt) {
			t.Errorf("%d fingerprints in %d blocks: %v", entries, n, err)
		}
	}
}
