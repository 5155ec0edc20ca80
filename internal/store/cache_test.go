package store

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// checkCache compares the account of a cache with what the slots of its tables hold.
func checkCache(t interface{ Fatalf(string, ...any) }, tables ...*PackedTable) {
	c := tables[0].cache
	var bytes int64
	blocks := 0
	for _, p := range tables {
		for i := range p.slots {
			if block := p.slots[i].block.Load(); block != nil {
				bytes += cost(block)
				blocks++
			}
		}
	}
	if c.Bytes() != bytes || bytes > c.limit || len(c.clock)-len(c.free) != blocks {
		t.Fatalf("%d blocks of %d bytes are cached; the cache reckons with %d of %d, limit %d",
			blocks, bytes, len(c.clock)-len(c.free), c.Bytes(), c.limit)
	}
}

// The bytes of a block are right behind its header and go nowhere else.
func TestCachedBlock(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	var cached []*cachedBlock
	var want [][]byte
	for length := range 3000 {
		data := make([]byte, length)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		cached = append(cached, newCachedBlock(data))
		want = append(want, data)
	}
	for i, c := range cached {
		c.touch()
		if !bytes.Equal(c.data(), want[i]) || cap(c.data()) != len(want[i]) {
			t.Fatalf("block of %d bytes came back otherwise", len(want[i]))
		}
		if used := cachedBlockHeader + len(want[i]); int(c.allocated) < used || int(c.allocated) > used+used/4+16 {
			t.Errorf("block of %d bytes takes %d", len(want[i]), c.allocated)
		}
	}
}

// openCounting opens the table, and counts how many times each of its blocks is asked for.
func (s *storedTable) openCounting(t fatal, limit int64) (p *PackedTable, counts map[string]int) {
	counts = map[string]int{}
	p, err := openPackedTable(1, uint64(len(s.fps)), uint64(len(s.lasts)), newBlockCache(limit), getterFunc(func(key []byte) ([]byte, error) {
		counts[string(key)]++
		value, _, err := s.Get(key)
		return value, err
	}))
	must(t, err)
	clear(counts)
	return p, counts
}

// What is read all the time stays, whatever else comes by once.
func TestBlockCacheKeepsWhatIsRead(t *testing.T) {
	s := storeTable(t, 1, randomFingerprints(20_000, 1), nil, 0)
	p, counts := s.openCounting(t, 20<<10)
	hot := []int{5, 50, 90}
	for range 3 {
		for i := range p.Blocks() {
			for _, i := range append(hot, i) {
				_, err := p.Block(i)
				must(t, err)
			}
		}
	}
	for i := range p.Blocks() {
		want := 3
		if slices.Contains(hot, i) {
			want = 1
		}
		if got := counts[s.blockKey(i)]; got != want {
			t.Errorf("block %d of %d was fetched %d times, not %d", i, p.Blocks(), got, want)
		}
	}
	checkCache(t, p)
	if p.cache.Bytes() < 18<<10 {
		t.Errorf("%d of 20480 bytes are used", p.cache.Bytes())
	}
}

// Every block was read since the hand passed, and yet one has to go.
func TestBlockCacheEvictsWhatIsRead(t *testing.T) {
	s := storeTable(t, 1, randomFingerprints(20_000, 1), nil, 0)
	p := s.open(t, newBlockCache(10<<10))
	for i := range p.Blocks() {
		for range 2 { // the second sets the bit
			_, err := p.Block(i)
			must(t, err)
		}
		if p.slots[i].block.Load() == nil {
			t.Fatalf("block %d is not cached", i)
		}
		checkCache(t, p)
	}
}

// Readers of two tables share a cache of a few blocks, or of none. What they have
// opened stays as it is when it is dropped.
func TestBlockCacheConcurrently(t *testing.T) {
	for _, limit := range []int64{0, 100, 2 << 10, 10 << 10, 1 << 20} {
		cache := newBlockCache(limit)
		var tables []*PackedTable
		var stored []*storedTable
		for i := range 2 {
			size := []int{0, 200}[i]
			s := storeTable(t, i+1, randomFingerprints(4000, uint64(i)), nil, size)
			stored = append(stored, s)
			tables = append(tables, s.open(t, cache))
		}
		var readers sync.WaitGroup
		for reader := range 8 {
			readers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(reader), 0))
				var held [4]Block
				var want [4][]uint64
				for n := range 2000 {
					table := random.IntN(len(tables))
					p, s := tables[table], stored[table]
					i := random.IntN(p.Blocks())
					slot := n % len(held)
					if n >= len(held) && !slices.Equal(held[slot].AppendTo(nil), want[slot]) {
						t.Errorf("a block has changed while it was used")
						return
					}
					var err error
					if held[slot], err = p.Block(i); err != nil {
						t.Error(err)
						return
					}
					begin := 0
					if i > 0 {
						begin, _ = slices.BinarySearch(s.fps, s.lasts[i-1]+1)
					}
					end, _ := slices.BinarySearch(s.fps, s.lasts[i])
					want[slot] = s.fps[begin : end+1]
					if bytes := cache.Bytes(); bytes > limit {
						t.Errorf("%d bytes are cached, limit %d", bytes, limit)
						return
					}
				}
			})
		}
		readers.Wait()
		checkCache(t, tables...)
	}
}
