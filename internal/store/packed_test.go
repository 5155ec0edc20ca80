package store

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/store/block"
	"github.com/neardup/neardup/internal/store/block/blocktest"
	"pgregory.net/rapid"
)

// readRange reads the fingerprints of a range across blocks.
func readRange(p *PackedTable, first, last uint64) (fps []uint64, err error) {
	for i := p.Find(first); i < p.Blocks() && first <= last; i++ {
		b, err := p.Block(i)
		if err != nil {
			return nil, err
		}
		fps, _ = b.AppendRange(fps, first, last)
		if p.Last(i) >= last {
			break
		}
	}
	return fps, nil
}

func naiveFind(lasts []uint64, first uint64) int {
	i, _ := slices.BinarySearch(lasts, first)
	return i
}

// A table says the same as the array that it was made of, however small blocks and
// cache are.
func TestPackedTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, 2000)
		size := rapid.SampledFrom([]int{64, 100, 1024, 32768}).Draw(t, "block bytes")
		table := rapid.SampledFrom([]int{0, 1, MaxTables - 2}).Draw(t, "table")
		limit := rapid.SampledFrom([]int64{0, 200, 5000, 1 << 20}).Draw(t, "cache")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ids"), 0))
		ids := blocktest.Postings(t, random, len(fps), NewIDs)
		s := storeTable(t, table, fps, ids, size)
		p := s.open(t, newBlockCache(limit))
		if p.Blocks() != len(s.lasts) || p.Entries() != uint64(len(fps)) {
			t.Fatalf("%d fingerprints in %d blocks, want %d in %d", p.Entries(), p.Blocks(), len(fps), len(s.lasts))
		}
		for range 20 {
			first, last := blocktest.Range(t, fps)
			if i := p.Find(first); i != naiveFind(s.lasts, first) || i < p.Blocks() && p.Last(i) != s.lasts[i] {
				t.Fatalf("Find(%016x) = %d, want %d", first, i, naiveFind(s.lasts, first))
			}
			want, _ := blocktest.InRange(fps, first, last)
			if got, err := readRange(p, first, last); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%016x..%016x: %x, %v, want %x", first, last, got, err, want)
			}
			at, stored := slices.BinarySearch(fps, first)
			if found, err := p.Contains(first); err != nil || found != stored {
				t.Fatalf("Contains(%016x) = %v, %v", first, found, err)
			}
			if table != 0 {
				continue
			}
			var wantIDs []uint64
			if stored {
				wantIDs = slices.Collect(ids[at].All())
			}
			if got, err := p.Posting(first); err != nil || !slices.Equal(slices.Collect(got.All()), wantIDs) {
				t.Fatalf("Posting(%016x) = %v, %v, want %v", first, got, err, wantIDs)
			}
		}
		checkCache(t, p)
	})
}

func TestPackedBlocksFrom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, 500)
		s := storeTable(t, 7, fps, nil, 64)
		p := s.open(t, newBlockCache(1<<20))
		v, done := s.view(t, p)
		defer done()
		for range 5 {
			first, _ := blocktest.Range(t, fps)
			begin := 0
			if i := naiveFind(s.lasts, first); i > 0 {
				begin, _ = slices.BinarySearch(fps, s.lasts[i-1])
				begin++
			}
			stop := rapid.IntRange(0, 2*len(s.lasts)).Draw(t, "stop")
			var got []uint64
			for b, err := range v.PackedBlocks(s.table, first) {
				if err != nil {
					t.Fatal(err)
				}
				if stop--; stop < 0 {
					break
				}
				got = b.AppendTo(got)
			}
			want := fps[begin:]
			if stop < 0 {
				want = want[:len(got)]
			}
			if !slices.Equal(got, want) {
				t.Fatalf("from %016x: %d fingerprints, want %d", first, len(got), len(want))
			}
		}
		if p.cache.Bytes() != 0 {
			t.Fatal("blocks went into the cache")
		}
	})
}

func TestEmptyPackedTable(t *testing.T) {
	s := storeTable(t, 0, nil, nil, 0)
	p := s.open(t, newBlockCache(0))
	v, done := s.view(t, p)
	defer done()
	for range v.PackedBlocks(s.table, 0) {
		t.Error("a block, or an error")
	}
	for _, fp := range []uint64{0, 1, ^uint64(0)} {
		found, err := p.Contains(fp)
		ids, postingErr := p.Posting(fp)
		if p.Find(fp) != 0 || found || ids.Len() != 0 || err != nil || postingErr != nil {
			t.Errorf("%x: block %d, %v, %v, %v, %v", fp, p.Find(fp), found, ids, err, postingErr)
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
	blockOf := func(fps ...uint64) []byte {
		value, err := block.Append(nil, fps)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	set := func(value []byte) func(*storedTable) {
		return func(s *storedTable) { s.values[s.blockKey(broken)] = value }
	}
	for _, test := range []struct {
		name    string
		from    *storedTable
		change  func(*storedTable)
		message string
	}{
		{"missing", whole, func(s *storedTable) { delete(s.values, s.blockKey(broken)) }, "missing"},
		{"empty", whole, set([]byte{}), "empty"},
		{"cut off", whole, func(s *storedTable) {
			value := s.values[s.blockKey(broken)]
			s.values[s.blockKey(broken)] = value[:len(value)-1]
		}, "bytes"},
		{"of the next key", whole, set(whole.values[whole.blockKey(broken+1)]), "ends with"},
		{"more at its beginning", whole, set(blockOf(whole.lasts[broken-1], whole.lasts[broken])), "begins with"},
		{"Huffman", whole, set([]byte{1, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}), "unknown codec"},
		{"postings", whole, set(withPostings.values[withPostings.blockKey(broken)]), "postings"},
		{"no postings", withPostings, set(blockOf(withPostings.lasts[broken])), "postings"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.from.clone()
			test.change(s)
			p := s.open(t, newBlockCache(1<<20))
			check := func(err error) {
				t.Helper()
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "table "+string('0'+rune(s.table))) ||
					!strings.Contains(err.Error(), test.message) {
					t.Errorf("%v", err)
				}
			}
			for range 2 { // it is not kept
				_, err := p.Block(broken)
				check(err)
			}
			_, err := p.Contains(p.Last(broken))
			check(err)
			_, err = p.Posting(p.Last(broken))
			check(err)
			if p.cache.Bytes() != 0 {
				t.Error("a broken block is in the cache")
			}
			v, done := s.view(t, p)
			defer done()
			blocks, err := 0, error(nil)
			for _, err = range v.PackedBlocks(s.table, 0) {
				blocks++
			}
			if check(err); blocks != broken+1 {
				t.Errorf("the error is item %d", blocks)
			}
		})
	}
}

// A scan finds what is there and in no directory, too.
func TestPackedBlocksFromCounts(t *testing.T) {
	fps := randomFingerprints(100, 1)
	whole := storeTable(t, 1, fps, nil, 64)
	end := len(whole.lasts) - 1
	for name, change := range map[string]func(*storedTable){
		"the last missing": func(s *storedTable) { delete(s.values, s.blockKey(end)) },
		"one more in between": func(s *storedTable) {
			s.lasts = append(slices.Clone(s.lasts), s.lasts[3]+1)
			s.values[s.blockKey(end+1)] = s.values[s.blockKey(3)]
			s.lasts = s.lasts[:end+1]
		},
		"one more at the end": func(s *storedTable) {
			s.lasts = append(slices.Clone(s.lasts), s.lasts[end]+1)
			s.values[s.blockKey(end+1)] = s.values[s.blockKey(end)]
			s.lasts = s.lasts[:end+1]
		},
		"a key too long":  func(s *storedTable) { s.values[s.blockKey(3)+"x"] = nil },
		"a key too short": func(s *storedTable) { s.values[s.blockKey(3)[:5]] = nil },
		"a fingerprint less": func(s *storedTable) {
			value, err := block.Append(nil, []uint64{s.lasts[3]})
			if err != nil {
				t.Fatal(err)
			}
			s.values[s.blockKey(3)] = value
		},
	} {
		s := whole.clone()
		change(s)
		p := s.open(t, newBlockCache(0))
		v, done := s.view(t, p)
		for _, first := range []uint64{0, s.lasts[0] + 1} {
			var err error
			for _, err = range v.PackedBlocks(s.table, first) {
			}
			if first != 0 && name == "a fingerprint less" {
				continue // only a scan of all blocks can count
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "table 1") {
				t.Errorf("%s, from %x: %v", name, first, err)
			}
		}
		done()
	}
}

// A warm probe allocates nothing.
func TestPackedProbeAllocations(t *testing.T) {
	fps := randomFingerprints(10_000, 1)
	p := storeTable(t, 1, fps, nil, 0).open(t, newBlockCache(1<<20))
	warm(t, p)
	at := 0
	if n := testing.AllocsPerRun(1000, func() {
		at++
		found, err := probePacked(p, fps[at])
		stored, containsErr := p.Contains(fps[at])
		if found == 0 || !stored || err != nil || containsErr != nil {
			t.Fatal(found, stored, err, containsErr)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
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
		p, err := openPackedTable(1, uint64(blocks), uint64(blocks), newBlockCache(1<<20), from)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		lasts := make([]uint64, p.Blocks())
		for i := range lasts {
			if lasts[i] = p.Last(i); i > 0 && lasts[i] <= lasts[i-1] {
				t.Fatalf("blocks %d and %d end with %x and %x", i-1, i, lasts[i-1], lasts[i])
			}
		}
		if got := p.Find(fp); got != naiveFind(lasts, fp) {
			t.Fatalf("Find(%x) = %d, want %d", fp, got, naiveFind(lasts, fp))
		}
		for _, fp := range []uint64{fp, fp + 1} {
			if _, err := p.Contains(fp); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
		}
		checkCache(t, p)
	})
}
