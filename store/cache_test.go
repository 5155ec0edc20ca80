package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/fault"
)

// checkCache compares the account of a cache with what the slots of its tables hold.
func checkCache(t interface{ Fatalf(string, ...any) }, tables ...*PackedTable) {
	c := tables[0].cache
	sum := 0
	for _, p := range tables {
		for i := range p.slots {
			if at := p.slots[i].place.Load(); at != 0 {
				sum += cost(len(c.data(at)))
			}
		}
	}
	if c.Bytes() != int64(sum) || c.Bytes() > c.limit || int64(len(c.memory)) > c.limit {
		t.Fatalf("%d bytes are cached; the cache reckons with %d in %d, limit %d", sum, c.Bytes(), len(c.memory), c.limit)
	}
}

// Blocks of all lengths up to half a page come back as they were, also where they have moved.
func TestCachedBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	c := newBlockCache(64 << 10)
	d := &directory{slots: make([]blockSlot, c.page+100)}
	c.register(d)
	var want [][]byte
	for length := range d.slots {
		data := make([]byte, length)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		want = append(want, data)
		c.add(d, length, data, true)
		for _, i := range []int{length, 5, 77} { // those are read all the time
			at := d.slots[min(i, length)].place.Load()
			if tooLarge := cost(len(want[min(i, length)])) > c.page/2; at == 0 && !tooLarge {
				t.Fatalf("block of %d bytes is not cached", i)
			} else if at != 0 && !bytes.Equal(c.block(&d.slots[min(i, length)], at), want[min(i, length)]) {
				t.Fatalf("block of %d bytes came back otherwise", i)
			}
		}
	}
	for i := range d.slots {
		if at := d.slots[i].place.Load(); at != 0 && !bytes.Equal(c.data(at), want[i]) {
			t.Fatalf("block of %d bytes came back otherwise", i)
		}
	}
	c.close()
	if c.Bytes() != 0 || d.slots[5].place.Load() != 0 {
		t.Errorf("a closed cache has %d bytes", c.Bytes())
	}
	if c.add(d, 5, want[5], true); d.slots[5].place.Load() != 0 {
		t.Error("a closed cache takes a block")
	}
}

// What a reading may have found is not written over, however much comes by, and goes on when it
// is done. Closing waits for it.
func TestCacheWaitsForReadings(t *testing.T) {
	s := storeTable(t, 1, randomFingerprints(20_000, 1), nil, 0)
	p := s.open(t, newBlockCache(64<<10))
	read := func(i int) Block {
		b, err := p.Block(i)
		must(t, err)
		return b
	}
	read(0)
	reading := p.Read(nil)
	held := read(0)
	want := held.AppendTo(nil)
	for range 3 {
		for i := range p.blocks() {
			read(i)
		}
	}
	if !slices.Equal(held.AppendTo(nil), want) {
		t.Fatal("a block has changed while it was read")
	}
	cached := func() (n int) {
		for i := range p.slots {
			if p.slots[i].place.Load() != 0 {
				n++
			}
		}
		return n
	}
	before := p.slots[p.blocks()-2].place.Load()
	if before != 0 {
		t.Errorf("the last but one of %d blocks was cached, %d of them are, while memory could not be written to again", p.blocks(), cached())
	}
	other := p.Read(reading)
	if other == reading {
		t.Fatal("a reading was had twice")
	}
	other.Done()
	reading.Done()
	if again := p.Read(reading); again != reading {
		t.Error("a reading that is free was not had again")
	} else {
		closed := make(chan struct{})
		held := read(p.blocks() - 2)
		want := held.AppendTo(nil)
		go func() { p.cache.close(); close(closed) }()
		time.Sleep(5 * time.Millisecond)
		select {
		case <-closed:
			t.Error("the cache was closed under a reading")
		default:
		}
		if !slices.Equal(held.AppendTo(nil), want) {
			t.Fatal("a block has changed while the cache was closed")
		}
		read(5) // whoever reads asks for another block, and does not wait for the one who closes
		again.Done()
		<-closed
	}
	if b := read(3); b.Last() != s.lasts[3] || cached() != 0 {
		t.Errorf("after closing block 3 ends with %x, and %d blocks are cached", b.Last(), cached())
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

// iterated is a database that counts its iterators.
type iterated struct {
	*pebble.DB
	iterators int
}

func (d *iterated) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	d.iterators++
	return d.DB.NewIter(o)
}

func (d *iterated) CloseIter(it *pebble.Iterator) error { return it.Close() }

// While there is room, the blocks behind one that is asked for are cached with it. A damaged one among them is told to
// who asks for it.
func TestReadAhead(t *testing.T) {
	s := storeTable(t, 1, randomFingerprints(20_000, 1), nil, 0)
	const damaged = 40
	s.values[s.blockKey(damaged)] = []byte("no block")
	db := &iterated{DB: databaseOf(t, s.values)}
	var p *PackedTable
	open := func(limit int64) {
		var err error
		p, err = openPackedTable(1, uint64(len(s.fps)), uint64(len(s.lasts)), newBlockCache(limit), db)
		must(t, err)
	}
	read := func(i, iterators int, cached ...int) {
		t.Helper()
		before := db.iterators
		if b, err := p.Block(i); err != nil {
			t.Fatal(err)
		} else if b.Last() != s.lasts[i] {
			t.Fatalf("block %d ends with %x, not %x", i, b.Last(), s.lasts[i])
		}
		var got []int
		for i := range p.slots {
			if p.slots[i].place.Load() != 0 {
				got = append(got, i)
			}
		}
		if db.iterators != before+iterators || !slices.Equal(got, cached) {
			t.Errorf("after block %d and %d iterators %v are cached, not %v", i, db.iterators-before, got, cached)
		}
		checkCache(t, p)
	}
	numbers := func(first, end int) (all []int) {
		for i := first; i < end; i++ {
			all = append(all, i)
		}
		return all
	}
	open(1 << 20)
	read(30, 1, numbers(30, damaged)...)
	read(35, 0, numbers(30, damaged)...)
	read(5, 1, numbers(5, damaged)...)
	if _, err := p.Block(damaged); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("the damaged block: %v", err)
	}
	read(damaged+1, 1, append(numbers(5, damaged), numbers(damaged+1, damaged+1+aheadBlocks)...)...)
	p.cache.close()
	read(3, 0)

	open(12 << 10) // three pages, one of which is kept empty
	read(0, 1, numbers(0, 6)...)
	for i := range p.blocks() {
		if i != damaged {
			_, err := p.Block(i)
			must(t, err)
		}
	}
	before := db.iterators
	for i := range damaged {
		_, err := p.Block(i)
		must(t, err)
	}
	if db.iterators != before {
		t.Error("others are read where there is no room for them")
	}
	must(t, db.Close())
}

// What is read all the time stays, whatever else comes by once.
func TestBlockCacheKeepsWhatIsRead(t *testing.T) {
	s := storeTable(t, 1, randomFingerprints(100_000, 1), nil, 0)
	p, counts := s.openCounting(t, 256<<10)
	hot := []int{5, 50, 90}
	for range 3 {
		for i := range p.blocks() {
			for _, i := range append(hot, i) {
				_, err := p.Block(i)
				must(t, err)
			}
		}
	}
	for i := range p.blocks() {
		want := 3
		if slices.Contains(hot, i) {
			want = 1
		}
		if got := counts[s.blockKey(i)]; got != want {
			t.Errorf("block %d of %d was fetched %d times, not %d", i, p.blocks(), got, want)
		}
	}
	checkCache(t, p)
	if p.cache.Bytes() < 200<<10 {
		t.Errorf("%d of 262144 bytes are used", p.cache.Bytes())
	}
}

// Every block was read since the hand passed, and yet one has to go.
func TestBlockCacheEvictsWhatIsRead(t *testing.T) {
	s := storeTable(t, 1, randomFingerprints(20_000, 1), nil, 0)
	p := s.open(t, newBlockCache(16<<10))
	for i := range p.blocks() {
		for range 2 { // the second sets the bit
			_, err := p.Block(i)
			must(t, err)
		}
		if p.slots[i].place.Load() == 0 {
			t.Fatalf("block %d is not cached", i)
		}
		checkCache(t, p)
	}
}

// Readers of two tables share a cache of a few blocks, or of none. What they have
// opened stays as it is when it is dropped.
func TestBlockCacheConcurrently(t *testing.T) {
	for _, limit := range []int64{0, 100, 8 << 10, 16 << 10, 64 << 10, 1 << 20} {
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
				var last [2]*Reading
				for range 2000 {
					table := random.IntN(len(tables))
					p, s := tables[table], stored[table]
					last[table] = p.Read(last[table])
					i := random.IntN(p.blocks())
					held, err := p.Block(i)
					if err != nil {
						t.Error(err)
						return
					}
					begin := 0
					if i > 0 {
						begin, _ = slices.BinarySearch(s.fps, s.lasts[i-1]+1)
					}
					end, _ := slices.BinarySearch(s.fps, s.lasts[i])
					for range 1 + random.IntN(3) {
						if _, err := p.Block(random.IntN(p.blocks())); err != nil {
							t.Error(err)
							return
						}
						runtime.Gosched()
						if !slices.Equal(held.AppendTo(nil), s.fps[begin:end+1]) {
							t.Errorf("a block has changed while it was used")
							return
						}
					}
					last[table].Done()
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

// Where the caller gives no bound, Pebble's cache has what packed blocks leave until the first write, and all of its own from then on, also
// where more is packed.
func TestPebbleCacheOfWriters(t *testing.T) {
	const total, left = 200 << 20, 40 << 20
	for _, bound := range []int64{0, total} {
		cache := pebble.NewCache(pebbleCacheBytes(bound) + writeBytes(bound))
		c := newPebbleCache(cache, bound)
		check := func(when string, want int64) {
			t.Helper()
			if got := c.may(); got != want {
				t.Errorf("bound %d, %s: %d bytes, not %d", bound, when, got, want)
			}
		}
		check("new", pebbleCacheBytes(bound))
		c.packed(left)
		check("packed", left)
		c.replays()
		check("replayed", left+writeBytes(bound))
		writing := map[int64]int64{0: pebbleCacheBytes(0) + writeBytes(0), total: left}[bound]
		c.writes()
		check("written", writing)
		c.packed(left)
		check("packed while it is written", writing)
		c.close()
		cache.Unref()
	}
}
