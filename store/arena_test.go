package store

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
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

// checkArena compares the size of an arena with the blocks of its tables.
func checkArena(t interface{ Fatalf(string, ...any) }, tables ...*PackedTable) {
	a := tables[0].arena
	sum := int64(0)
	for _, p := range tables {
		for i := range p.slots {
			if at := p.slots[i].place.Load(); at != 0 {
				sum += alignedSize(len(a.block(at)))
			}
		}
	}
	if bytes := a.bytes.Load(); bytes != sum || bytes > a.limit || int64(len(a.memory)) > a.limit {
		t.Fatalf("%d bytes in the arena, which counts %d of %d, limit %d", sum, bytes,
			len(a.memory), a.limit)
	}
}

// TestArenaBlocks adds blocks of all lengths until the arena is full. Each block keeps its place
// and its bytes.
func TestArenaBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	a := openArena(64 << 10)
	d := &directory{slots: make([]blockSlot, 500)}
	var want [][]byte
	for i := range d.slots {
		data := make([]byte, i+1)
		for j := range data {
			data[j] = byte(random.Uint32())
		}
		want = append(want, data)
		if !a.add(d, i, data) {
			break
		}
		if !a.add(d, i, []byte("another block")) {
			t.Fatalf("the arena is full after block %d, which it has", i)
		}
	}
	full := len(want) - 1 // the block for which there was no room
	if room := a.limit - a.bytes.Load(); full < 300 || room >= alignedSize(full+1) {
		t.Fatalf("the arena is full after %d blocks, with %d bytes left", full, room)
	}
	for i := range full {
		at := d.slots[i].place.Load()
		if at == 0 || !bytes.Equal(a.block(at), want[i]) {
			t.Fatalf("block %d at %x differs", i, at)
		}
	}
	if !a.add(d, full, make([]byte, maxInArena+1)) || d.slots[full].place.Load() != 0 {
		t.Error("a block that is too long was added, or ends the filling")
	}
	d.free = func() {}
	a.release()
	select {
	case <-a.freed:
	default:
		t.Error("the arena has no holder and was not freed")
	}
}

// TestArenaConcurrently reads two tables that share an arena, from several goroutines. What they
// have opened does not change.
func TestArenaConcurrently(t *testing.T) {
	for _, limit := range []int64{0, 100, 8 << 10, 64 << 10, 1 << 20} {
		a := openArena(limit)
		var tables []*PackedTable
		var stored []*storedTable
		for i, size := range []int{0, 200} {
			s := storeTable(t, i+1, randomFingerprints(4000, uint64(i)), nil, size)
			stored = append(stored, s)
			tables = append(tables, s.open(t, a))
		}
		var readers sync.WaitGroup
		for reader := range 8 {
			readers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(reader), 0))
				for range 1000 {
					table := random.IntN(len(tables))
					p, s := tables[table], stored[table]
					i := random.IntN(p.blocks())
					var held Block
					if err := p.Open(i, &held); err != nil {
						t.Error(err)
						return
					}
					begin := 0
					if i > 0 {
						begin, _ = slices.BinarySearch(s.fps, s.lasts[i-1]+1)
					}
					end, _ := slices.BinarySearch(s.fps, s.lasts[i])
					if err := p.Open(random.IntN(p.blocks()), new(Block)); err != nil {
						t.Error(err)
						return
					}
					runtime.Gosched()
					if !slices.Equal(held.AppendTo(nil), s.fps[begin:end+1]) {
						t.Error("a block has changed while it was used")
						return
					}
				}
			})
		}
		readers.Wait()
		checkArena(t, tables...)
	}
}

// packedIn makes a store with n packed fingerprints in two tables, and closes it.
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

// eventually fails the test if a condition does not become true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestFillArena opens a store that fills its arena: soon every block is there, up to the limit, and
// a reader of these blocks reads no file.
func TestFillArena(t *testing.T) {
	mem := vfs.NewMem()
	packedIn(t, mem, 50_000)
	var reads atomic.Int64
	fsys := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
			reads.Add(1)
		}
		return nil
	}))
	for _, limit := range []int64{0, 200 << 10} {
		s, err := Open("ix", Options{FS: fsys, CacheBytes: limit, FillArena: true})
		must(t, err)
		tables := s.Tables()
		s.filling.Wait()
		checkArena(t, tables.packed...)
		missing := 0
		for _, p := range tables.packed {
			for i := range p.slots {
				if p.slots[i].place.Load() == 0 {
					missing++
				}
			}
		}
		wanted := wantedCacheBytes(tables.packing.tables)
		switch _, cached := tables.PackedMemory(); {
		case limit == 0 && (missing > 0 || tables.CacheShort() != ""):
			t.Errorf("%d blocks are missing in an arena without a limit, %q", missing,
				tables.CacheShort())
		case limit > 0 && (wanted < limit || missing == 0 || tables.CacheShort() == "" ||
			cached > limit/4*3 || cached < limit/3*2):
			t.Errorf("%d bytes of %d in the arena, %d blocks missing, %q", cached, wanted, missing,
				tables.CacheShort())
		}
		before := reads.Load()
		for i := range tables.packed[0].slots {
			if tables.packed[0].slots[i].place.Load() != 0 {
				err := tables.packed[0].Open(i, new(Block))
				must(t, err)
			}
		}
		if n := reads.Load() - before; n > 0 {
			t.Errorf("%d reads of blocks in the arena", n)
		}
		for i := range tables.packed[1].slots { // the rest is read from files
			err := tables.packed[1].Open(i, new(Block))
			must(t, err)
		}
		checkArena(t, tables.packed...)
		tables.Release()
		must(t, s.Close())
	}
}

// TestFillArenaFails tests a file that cannot be read in the background. A reader of its blocks
// must get the error, and the block once the file can be read again.
func TestFillArenaFails(t *testing.T) {
	mem := vfs.NewMem()
	packedIn(t, mem, 20_000)
	var broken atomic.Bool
	s, err := Open(
		"ix", Options{FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if broken.Load() && op.Kind == errorfs.OpFileReadAt &&
				strings.HasSuffix(op.Path, ".sst") {
				return syscall.EIO
			}
			return nil
		})), CacheBytes: 1 << 20})
	must(t, err)
	s.fillsArena = true
	tables := s.Tables()
	broken.Store(true)
	s.startFilling(tables, nil)
	s.filling.Wait()
	p := tables.packed[1]
	last := p.blocks() - 1
	if err := p.Open(last, new(Block)); err == nil || p.slots[last].place.Load() != 0 {
		t.Errorf("block %d of a file that cannot be read: %v", last, err)
	}
	broken.Store(false)
	s.startFilling(tables, nil)
	s.filling.Wait()
	if at := p.slots[last].place.Load(); at == 0 {
		t.Error("the block is not in the arena")
	}
	tables.Release()
	must(t, s.Close())
}

// TestCloseWhileFilling closes a store while its arena is being filled: also if a read takes long,
// and if the store has failed.
func TestCloseWhileFilling(t *testing.T) {
	mem := vfs.NewMem()
	packedIn(t, mem, 50_000)
	for _, fails := range []bool{false, true} {
		var slow atomic.Bool
		reached := make(chan struct{}, 1)
		s, err := Open(
			"ix", Options{FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if slow.Load() && op.Kind == errorfs.OpFileReadAt &&
					strings.HasSuffix(op.Path, ".sst") {
					select {
					case reached <- struct{}{}:
					default:
					}
					time.Sleep(20 * time.Millisecond)
				}
				return nil
			}))})
		must(t, err)
		s.fillsArena = true
		tables := s.Tables()
		slow.Store(true)
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

// TestTakeFreesTheArenaBefore tests that there is memory for one arena. Readers of the earlier
// tables must still read their content. Once they have released the tables, the directories are
// freed and the next arena opens.
func TestTakeFreesTheArenaBefore(t *testing.T) {
	for _, fills := range []bool{false, true} {
		s, err := Open(
			"ix", Options{Create: &Meta{Plan: "plan"}, FS: vfs.NewMem(), FillArena: fills})
		must(t, err)
		pack := func(id uint64) {
			apply(t, s, true, func(b *Batch) { b.SetLive(7, id) })
			must(t, s.Freeze())
			r, err := s.NewRewrite(1)
			must(t, err)
			w := r.Table(0)
			must(t, w.AddPosting(7, NewIDs(id)), w.Close(), r.Prepare("plan", id+1, nil),
				s.Take(t.Context(), r), r.Close())
		}
		read := func(tables *Tables, want uint64) (cached int64) {
			t.Helper()
			ids, err := tables.Packed(0).posting(7)
			if must(t, err); !slices.Equal(slices.Collect(ids.All()), []uint64{want}) {
				t.Errorf("%v, not %d", ids, want)
			}
			_, cached = tables.PackedMemory()
			return cached
		}
		pack(1)
		before := s.Tables()
		if read(before, 1) == 0 {
			t.Error("nothing is in the arena")
		}
		pack(2)
		now := s.Tables()
		if read(before, 1) == 0 || read(now, 2) != 0 {
			t.Error("two arenas are in memory, or none")
		}
		freed := 0
		before.Packed(0).free = func() { freed++ }
		before.Release()
		if <-before.arena.freed; freed != 1 {
			t.Errorf("the directories before were freed %d times", freed)
		}
		if fills {
			eventually(t, "the next arena is not filled",
				func() bool { _, cached := now.PackedMemory(); return cached > 0 })
		}
		eventually(t, "the next arena does not open", func() bool { return read(now, 2) > 0 })
		now.Release()
		must(t, s.Close())
	}
}

// TestSharesOfTheCache tests that Pebble's cache gets the memory that packed blocks leave, if the
// caller sets a limit. If not, filling the arena must not let Pebble's cache grow.
func TestSharesOfTheCache(t *testing.T) {
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
	if got := packedCacheBytes([]tableInfo{{Bytes: 2 * limit, Blocks: 100}},
		limit); got != limit/4*3 {
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
				for range v.packedBlocks(table, 0) {
				}
			}
		}
	})
	if size := s.options.Cache.Size(); size > fillingRoom {
		t.Errorf("Pebble's cache grew to %d bytes", size)
	}
	release()
	must(t, s.Close())
}
