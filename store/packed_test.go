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

// TestPackedTable compares a table with the fingerprints from which it was created, for blocks and
// arenas of several sizes.
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
		for range 20 {
			first, last := blocktest.Range(t, fps)
			if i := p.find(first); i != naiveFind(s.lasts, first) || i < p.blocks() &&
				p.last(i) != s.lasts[i] {
				t.Fatalf("find(%016x) = %d, want %d", first, i, naiveFind(s.lasts, first))
			}
			want, _ := blocktest.InRange(fps, first, last)
			if got, err := readRange(p, first, last); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%016x..%016x: %x, %v, want %x", first, last, got, err, want)
			}
			at, stored := slices.BinarySearch(fps, first)
			if _, _, found, err := p.locate(first); err != nil || found != stored {
				t.Fatalf("locate(%016x) = %v, %v", first, found, err)
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
				t.Fatalf("posting(%016x) = %v, %v, want %v", first, got, err, wantIDs)
			}
		}
		checkArena(t, p)
	})
}

// TestBrokenPackedTable changes a block, or one of three chunks of the directory. Either opening
// the table must fail, or a scan and a read of the block. The arena must not get the block.
func TestBrokenPackedTable(t *testing.T) {
	fps := randomFingerprints(60_000, 1)
	whole := storeTable(t, 1, fps, nil, 64)
	n := len(whole.lasts)
	of := func(value []byte) []uint64 {
		var b Block
		must(t, b.Open(value))
		return b.AppendTo(nil)
	}
	for what, change := range map[string]func(value, next []byte) []byte{ // nil: delete
		"missing":         func(_, _ []byte) []byte { return nil },
		"empty":           func(_, _ []byte) []byte { return []byte{} },
		"cut off":         func(value, _ []byte) []byte { return value[:len(value)-1] },
		"of the next key": func(_, next []byte) []byte { return next },
		"with postings": func(value, _ []byte) []byte {
			return slices.Concat([]byte{value[0] | 0x80}, value[1:])
		},
		"beginning with 0": func(value, _ []byte) []byte {
			return blockOf(t, append([]uint64{0}, of(value)...)...)
		},
		"shortened": func(value, _ []byte) []byte {
			all := of(value)
			return blockOf(t, all[len(all)-1])
		},
	} {
		for _, i := range []int{1, n / 2, n - 2} {
			chunk := i / directoryChunk
			for _, keys := range [][2]string{{whole.blockKey(i), whole.blockKey(i + 1)},
				{whole.chunkKey(chunk), whole.chunkKey((chunk + 1) % 3)}} {
				s := whole.clone()
				changed := change(s.values[keys[0]], s.values[keys[1]])
				if s.values[keys[0]] = changed; changed == nil {
					delete(s.values, keys[0])
				}
				p, err := openPackedTable(1, uint64(len(fps)), uint64(n), openArena(1<<20), s)
				if err == nil {
					err = s.scan(p)
					openErr := p.Open(i, new(Block))
					_, _, _, locateErr := p.locate(p.last(i))
					if what != "shortened" && (!errors.Is(openErr, fault.ErrCorrupt) ||
						!errors.Is(locateErr, fault.ErrCorrupt) || p.arena.bytes.Load() != 0) {
						t.Errorf("%x %s: Open: %v, locate: %v", keys[0], what, openErr, locateErr)
					}
				}
				if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "table 1") {
					t.Errorf("%x %s: %v", keys[0], what, err)
				}
			}
		}
	}
	entries, blocks := uint64(len(fps)), uint64(n)
	for _, c := range [][2]uint64{{entries, blocks - 1}, {entries, blocks + 1},
		{entries, 2 * directoryChunk}, {0, 0}, {0, blocks}, {blocks - 1, blocks},
		{blocks*block.MaxLen + block.MaxLen, blocks}, {math.MaxUint64, blocks},
		{1 << 34, 1 << 31}, {1 << 43, 1 << 40}} {
		if _, err := openPackedTable(1, c[0], c[1], openArena(0), whole); !errors.Is(err,
			fault.ErrCorrupt) {
			t.Errorf("%d fingerprints in %d blocks: %v", c[0], c[1], err)
		}
	}
	failure := errors.New("failure")
	if _, err := openPackedTable(1, entries, blocks, openArena(0), getterFunc(
		func([]byte) ([]byte, error) { return nil, failure })); !errors.Is(err, failure) {
		t.Errorf("a failed read: %v", err)
	}
	p := whole.open(t, openArena(0))
	if limit := int64(20*n + 8); p.ramBytes() > limit {
		t.Errorf("%d blocks take %d bytes", n, p.ramBytes())
	}
	for i, fp := range fps {
		fp += uint64(i % 2)
		if got, want := p.find(fp), naiveFind(whole.lasts, fp); got != want {
			t.Fatalf("find(%016x) = %d, want %d", fp, got, want)
		}
	}
}

// FuzzPackedTable opens a table with any directory chunk, and any block in place of all blocks.
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
		i := p.find(fp)
		if i > 0 && p.last(i-1) >= fp || i < p.blocks() && p.last(i) < fp {
			t.Fatalf("find(%x) = %d", fp, i)
		}
		for _, fp := range []uint64{fp, fp + 1} {
			if _, _, _, err := p.locate(fp); err != nil && !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
		}
		checkArena(t, p)
	})
}
