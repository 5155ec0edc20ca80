package store

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// openArena returns an open arena.
func openArena(limit int64) *arena {
	a := newArena(limit)
	a.open()
	return a
}

// checkArena compares the size of an arena with the blocks of its tables. It returns the number of
// blocks that are not in the arena.
func checkArena(t interface{ Fatalf(string, ...any) }, tables ...*PackedTable) (missing int) {
	a, sum := tables[0].arena, int64(0)
	for _, p := range tables {
		for i := range p.slots {
			if at := p.slots[i].place.Load(); at != 0 {
				sum += alignedSize(len(a.block(at)))
			} else {
				missing++
			}
		}
	}
	if bytes := a.bytes.Load(); bytes != sum || bytes > a.limit || int64(len(a.memory)) > a.limit {
		t.Fatalf("%d bytes in the arena, which counts %d of %d, limit %d", sum, bytes,
			len(a.memory), a.limit)
	}
	return missing
}

// TestLongBlock tests that add does not add a block whose length does not fit in a place.
func TestLongBlock(t *testing.T) {
	a, d := openArena(4*maxInArena), &directory{slots: make([]blockSlot, 1)}
	if !a.add(d, 0, make([]byte, maxInArena+1)) || d.slots[0].place.Load() != 0 {
		t.Error("a block that is too long was added")
	}
}

// TestArenaConcurrently reads a table from several goroutines. Blocks that they have opened must
// not change.
func TestArenaConcurrently(t *testing.T) {
	s := storeTable(t, 1, randomFingerprints(4000, 1), nil, 200)
	want := make([][]uint64, len(s.lasts))
	for i := range want {
		var b Block
		must(t, b.Open(s.values[s.blockKey(i)]))
		want[i] = b.AppendTo(nil)
	}
	for _, limit := range []int64{0, 8 << 10, 1 << 20} {
		p := s.open(t, openArena(limit))
		var readers sync.WaitGroup
		for reader := range 8 {
			readers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(reader), 0))
				for range 1000 {
					var held Block
					i := random.IntN(len(want))
					err := p.Open(i, &held)
					if err == nil {
						err = p.Open(random.IntN(len(want)), new(Block))
					}
					runtime.Gosched()
					if err != nil || !slices.Equal(held.AppendTo(nil), want[i]) {
						t.Errorf("block %d has changed while it was used, or: %v", i, err)
						return
					}
				}
			})
		}
		readers.Wait()
		checkArena(t, p)
	}
}

// packedIn creates a store with n packed fingerprints in two tables, and closes it.
func packedIn(t *testing.T, fsys vfs.FS, n int) {
	t.Helper()
	s := openIn(t, fsys)
	r, err := s.NewRewrite(2)
	must(t, err)
	for table := range 2 {
		w := r.Table(table)
		for i, fp := range randomFingerprints(n, uint64(table)) {
			if table == 0 {
				must(t, w.AddPosting(fp, NewIDs(uint64(i+1))))
			} else {
				must(t, w.Add(fp))
			}
		}
		must(t, w.Close())
	}
	must(t, r.Commit(t.Context(), "plan", Counters{NextID: uint64(n) + 1, Documents: uint64(n),
		Bare: uint64(n)}), r.Close(), s.Close())
}

// TestFillArena tests that the arena gets every block, up to the limit of the cache, and that
// reading these blocks reads no file.
func TestFillArena(t *testing.T) {
	mem := vfs.NewMem()
	packedIn(t, mem, 50_000)
	disk := newBreakable(mem, isTableRead)
	for _, limit := range []int64{0, 200 << 10} {
		s, err := Open("ix", Options{FS: disk, CacheBytes: limit, FillArena: true})
		must(t, err)
		tables := s.Tables()
		s.filling.Wait()
		missing := checkArena(t, tables.packed...)
		_, cached := tables.PackedMemory()
		wanted, short := wantedCacheBytes(tables.packing.tables), tables.CacheShort()
		if full := limit == 0; (missing == 0) != full || (short == "") != full ||
			(cached*10 > wanted*9) != full || !full && (cached > limit/4*3 || cached < limit/3*2) {
			t.Errorf("limit %d: %d bytes of %d in the arena, %d blocks missing, %q", limit, cached,
				wanted, missing, short)
		}
		disk.broken.Store(true)
		for i := range tables.packed[0].slots {
			if tables.packed[0].slots[i].place.Load() != 0 {
				must(t, tables.packed[0].Open(i, new(Block)))
			}
		}
		disk.broken.Store(false)
		for i := range tables.packed[1].slots { // the rest is read from files
			must(t, tables.packed[1].Open(i, new(Block)))
		}
		checkArena(t, tables.packed...)
		tables.Release()
		must(t, s.Close())
	}
}

// TestFillArenaFails tests a file that is unreadable while the arena is filled. A reader of its
// blocks must get the error, or the block once the file is readable again.
func TestFillArenaFails(t *testing.T) {
	mem := vfs.NewMem()
	packedIn(t, mem, 20_000)
	disk := newBreakable(mem, isTableRead)
	s, err := Open("ix", Options{FS: disk, CacheBytes: 1 << 20})
	must(t, err)
	s.fillsArena = true
	tables := s.Tables()
	p := tables.packed[1]
	last := p.blocks() - 1
	for _, broken := range []bool{true, false} {
		disk.broken.Store(broken)
		s.startFilling(tables, nil)
		s.filling.Wait()
		err := p.Open(last, new(Block))
		if at := p.slots[last].place.Load(); (err != nil) != broken || (at == 0) != broken {
			t.Errorf("the file cannot be read: %t; block %d: %v", broken, last, err)
		}
	}
	tables.Release()
	must(t, s.Close())
}

// TestCloseWhileFilling closes a store while its arena is filled by slow reads. The store is open
// or has failed.
func TestCloseWhileFilling(t *testing.T) {
	mem := vfs.NewMem()
	packedIn(t, mem, 50_000)
	for _, fails := range []bool{false, true} {
		reached := make(chan struct{}, 1)
		disk := newBreakable(mem, func(op errorfs.Op) bool {
			if isTableRead(op) {
				select {
				case reached <- struct{}{}:
				default:
				}
				time.Sleep(20 * time.Millisecond)
			}
			return false
		})
		s, err := Open("ix", Options{FS: disk})
		must(t, err)
		s.fillsArena = true
		tables := s.Tables()
		disk.broken.Store(true)
		s.startFilling(tables, nil)
		<-reached
		tables.Release()
		if fails {
			s.guarded.Stop(syscall.EIO)
		}
		if err := s.Close(); (err != nil) != fails {
			t.Errorf("Close: %v", err)
		}
		if fails {
			s.filling.Wait()
		}
		<-tables.arena.freed
		if tables.arena.bytes.Load() >= wantedCacheBytes(tables.packing.tables) {
			t.Error("the arena was filled before Close")
		}
	}
}

// TestTakeFreesPreviousArena tests that only one arena is in memory. Readers of the previous tables
// must still read their content. Once they have released the tables, the directories are freed and
// the next arena opens.
func TestTakeFreesPreviousArena(t *testing.T) {
	for _, fills := range []bool{false, true} {
		s, err := Open(
			"ix", Options{Create: &Meta{Plan: "plan"}, FS: vfs.NewMem(), FillArena: fills})
		must(t, err)
		pack := func(id uint64) *Tables {
			apply(t, s, true, func(b *Batch) { b.SetLive(7, id) })
			must(t, s.Freeze())
			r, err := s.NewRewrite(1)
			must(t, err)
			w := r.Table(0)
			must(t, w.AddPosting(7, NewIDs(id)), w.Close(), r.Prepare("plan", id+1, nil),
				s.Take(t.Context(), r), r.Close())
			return s.Tables()
		}
		cached := func(tables *Tables) bool { _, n := tables.PackedMemory(); return n > 0 }
		read := func(tables *Tables, want uint64) bool {
			t.Helper()
			ids, err := tables.Packed(0).posting(7)
			if must(t, err); !slices.Equal(slices.Collect(ids.All()), []uint64{want}) {
				t.Errorf("%v, not %d", ids, want)
			}
			return cached(tables)
		}
		before := pack(1)
		if !read(before, 1) {
			t.Error("the arena is empty")
		}
		now := pack(2)
		if !read(before, 1) || read(now, 2) {
			t.Error("two arenas are in memory, or none")
		}
		var freed atomic.Int64
		before.Packed(0).free = func() { freed.Add(1) }
		before.Release()
		if <-before.arena.freed; freed.Load() != 1 {
			t.Errorf("the previous directories were freed %d times", freed.Load())
		}
		for end := time.Now().Add(time.Minute); !cached(now); time.Sleep(time.Millisecond) {
			if !fills {
				read(now, 2) // opens the block, and adds it once the arena is open
			}
			if time.Now().After(end) {
				t.Fatal("the next arena does not open, or is not filled")
			}
		}
		read(now, 2)
		now.Release()
		must(t, s.Close())
	}
}

// TestCacheShares tests that packed blocks and Pebble's cache share the limit that a caller sets.
// Without a limit, filling the arena must not let Pebble's cache grow.
func TestCacheShares(t *testing.T) {
	mem := vfs.NewMem()
	packedIn(t, mem, 50_000)
	const limit = 32 << 20
	s, err := Open("ix", Options{FS: mem, CacheBytes: limit})
	must(t, err)
	wanted := wantedCacheBytes(s.Now().packing.tables)
	if n := s.Now().arena.limit; n != wanted || s.options.Cache.MaxSize() != limit {
		t.Errorf("%d bytes for %d of packed blocks, in all %d", n, wanted,
			s.options.Cache.MaxSize())
	}
	must(t, s.Close())
	many := []tableInfo{{Bytes: 2 * limit, Blocks: 100}}
	if got := packedCacheBytes(many, limit); got != limit/4*3 {
		t.Errorf("%d of %d bytes for packed blocks", got, limit)
	}

	s, err = Open("ix", Options{FS: mem})
	must(t, err)
	if room := s.options.Cache.MaxSize(); room < 2*fillingRoom {
		t.Skipf("a cache of %d bytes", room)
	}
	release := s.limitPebbleCache()
	inView(t, s, func(v *View) {
		for range 3 {
			for table := range 2 {
				must(t, errOf(v.Packed(table)))
			}
		}
	})
	if size := s.options.Cache.Size(); size > fillingRoom {
		t.Errorf("Pebble's cache grew to %d bytes", size)
	}
	release()
	must(t, s.Close())
}
