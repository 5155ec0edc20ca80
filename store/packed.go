package store

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/offheap"
	"github.com/neardup/neardup/internal/prefetch"
	"github.com/neardup/neardup/store/internal/block"
)

// Block is a packed block, which PackedTable.Open opens.
type Block = block.Block

// Comparison compares the fingerprints of blocks with a fingerprint.
type Comparison = block.Comparison

// Visit is a block that may contain permuted fingerprints from First to Last.
type Visit struct {
	First, Last uint64
	Block       int
}

// PackedTable reads the blocks that the last compaction wrote for one table. The keys of the
// blocks are in memory. The blocks are read into the arena in the background, or when a reader
// first needs them. A PackedTable is immutable and safe for concurrent use.
type PackedTable struct {
	*directory
	table   int
	entries uint64
	arena   *arena
	from    getter
}

// directory lists the last fingerprint and the arena position of every block of a table. A probe
// finds both in one cache line. A directory needs 18 to 20 bytes per block.
type directory struct {
	slots []blockSlot

	// starts has, for each value of the leading bits of a fingerprint, the first block whose last
	// fingerprint has this value or a larger one. Its last element is the number of blocks. If
	// fingerprints are distributed evenly, each value has 1 to 2 blocks. Otherwise find searches
	// between two starts by bisection.
	starts []uint32
	shift  uint // the number of bits below the leading bits

	free func() // frees the memory, which must not be used afterwards
}

// blockSlot belongs to one block. last never changes.
type blockSlot struct {
	last  uint64
	place place // of the block in the arena
}

const (
	// directoryChunk is the number of blocks that a chunk of the directory lists.
	directoryChunk = 4096

	maxPackedBlocks = math.MaxUint32 - 1

	// shortSearch is the largest number of slots in which a linear search is faster than bisection.
	shortSearch = 8
)

// openPackedTable reads the directory of a table. The meta entries state the number of its
// fingerprints and blocks. The table keeps from, to read blocks. The arena frees the directory.
func openPackedTable(
	table int, entries, blocks uint64, a *arena, from getter,
) (*PackedTable, error) {
	if blocks > entries || entries/block.MaxLen > blocks || blocks > maxPackedBlocks {
		return nil, fmt.Errorf("%w: table %d of %d fingerprints in %d blocks", fault.ErrCorrupt,
			table, entries, blocks)
	}
	last := chunkKey(directoryKeyspace, table, int(max(blocks, 1)-1)/directoryChunk)
	if _, found, err := get(from, last, decodeDirectoryChunk); err != nil || blocks > 0 && !found {
		// Without the last chunk, the number of blocks is wrong, and may be too large to allocate.
		return nil, fmt.Errorf("last directory chunk %x of table %d: %w", last, table,
			cmp.Or(err, errMissing))
	}
	d := newDirectory(int(blocks))
	if err := d.read(from, table); err != nil {
		d.free()
		return nil, err
	}
	a.directories = append(a.directories, d)
	return &PackedTable{directory: d, table: table, entries: entries, arena: a, from: from}, nil
}

// newDirectory returns a directory for the given number of blocks.
func newDirectory(blocks int) *directory {
	leading := max(bits.Len(uint(blocks))-1, 0)
	slots, freeSlots := offheap.Make[blockSlot](blocks)
	starts, freeStarts := offheap.Make[uint32](1<<leading + 1)
	return &directory{slots: slots, starts: starts, shift: uint(64 - leading),
		free: func() { freeSlots(); freeStarts() }}
}

// read reads the directory of a table, which must list as many blocks as d has slots.
func (d *directory) read(from getter, table int) error {
	listed := 0
	for chunk := 0; ; chunk++ {
		lasts, found, err := get(from, chunkKey(directoryKeyspace, table, chunk),
			decodeDirectoryChunk)
		switch {
		case err != nil:
		case !found && listed == len(d.slots):
			d.makeStarts()
			return nil
		case found && listed != chunk*directoryChunk:
			err = fmt.Errorf("%w: the previous chunk is not full: %d blocks are listed",
				fault.ErrCorrupt, listed)
		case !found || listed+len(lasts) > len(d.slots):
			err = fmt.Errorf("%w: it ends with block %d of %d", fault.ErrCorrupt,
				listed+len(lasts), len(d.slots))
		case listed > 0 && lasts[0] <= d.slots[listed-1].last:
			err = fmt.Errorf("%w: block %d ends with %016x, the previous block with %016x",
				fault.ErrCorrupt, listed, lasts[0], d.slots[listed-1].last)
		}
		if err != nil {
			return fmt.Errorf("directory chunk %d of table %d: %w", chunk, table, err)
		}
		for i, last := range lasts {
			d.slots[listed+i].last = last
		}
		listed += len(lasts)
	}
}

func decodeDirectoryChunk(value []byte) ([]uint64, error) {
	var b Block
	if err := b.Open(value); err != nil {
		return nil, err
	}
	if err := b.Verify(); err != nil {
		return nil, err
	}
	if b.HasPostings() || b.Len() > directoryChunk {
		return nil, fmt.Errorf("%w: %d blocks, postings %v", fault.ErrCorrupt, b.Len(),
			b.HasPostings())
	}
	return b.AppendTo(nil), nil
}

func (d *directory) makeStarts() {
	next := uint64(0)
	for i := range d.slots {
		for ; next <= d.slots[i].last>>d.shift; next++ {
			d.starts[next] = uint32(i)
		}
	}
	for ; next < uint64(len(d.starts)); next++ {
		d.starts[next] = uint32(len(d.slots))
	}
}

// find returns the first block whose last fingerprint is at least fp, or the number of blocks if no
// block has one. No earlier block contains fp or a larger fingerprint.
func (d *directory) find(fp uint64) int {
	leading := fp >> d.shift
	i, end := int(d.starts[leading]), int(d.starts[leading+1])
	for end-i > shortSearch {
		if middle := int(uint(i+end) / 2); d.slots[middle].last < fp {
			i = middle + 1
		} else {
			end = middle
		}
	}
	for i < end && d.slots[i].last < fp {
		i++
	}
	return i
}

// Locate sets the blocks of visits, whose ranges the caller has set. It drops a visit if its range
// has no block, and repeats a visit for each block of its range. It prefetches the slots of all
// visits before it reads any of them, so that the cache misses overlap.
func (d *directory) Locate(visits []Visit) []Visit {
	for i := range visits {
		visits[i].Block = int(d.starts[visits[i].First>>d.shift])
	}
	for _, v := range visits {
		if v.Block < len(d.slots) {
			prefetch.Bytes(unsafe.Pointer(&d.slots[v.Block]), 1)
		}
	}
	single := true
	for i := range visits {
		v := &visits[i]
		v.Block = d.find(v.First)
		single = single && v.Block < len(d.slots) && d.slots[v.Block].last >= v.Last
	}
	if single {
		return visits
	}
	ranges := len(visits)
	for _, v := range visits[:ranges] {
		for ; v.Block < len(d.slots); v.Block++ {
			if visits = append(visits, v); d.slots[v.Block].last >= v.Last {
				break
			}
		}
	}
	return slices.Delete(visits, 0, ranges)
}

// ramBytes returns the bytes of memory that the directory occupies.
func (d *directory) ramBytes() int64 {
	const slot, start = 16, 4
	return int64(len(d.slots))*slot + int64(len(d.starts))*start
}

// blocks returns the number of blocks. They are numbered from 0 in the order of their
// fingerprints.
func (d *directory) blocks() int { return len(d.slots) }

// last returns the last fingerprint of block i, without reading the block.
func (d *directory) last(i int) uint64 { return d.slots[i].last }

// Open opens block i of the table as b, which stays valid until the tables are released. If the
// block is in the arena, Open takes no lock and allocates nothing. Otherwise it reads the block
// from disk, checks it, and adds it to the arena.
func (p *PackedTable) Open(i int, b *Block) error {
	if at := p.slots[i].place.Load(); at != 0 {
		return b.Open(p.arena.block(at))
	}
	fetched, err := p.read(i, b)
	if err != nil {
		return p.blockError(i, err)
	}
	p.arena.add(p.directory, i, fetched)
	return nil
}

// Prefetch begins to load block i into the cache of the processor if the block is in the arena.
func (p *PackedTable) Prefetch(i int) {
	if at := p.slots[i].place.Load(); at != 0 {
		p.arena.prefetch(at)
	}
}

// read reads block i from disk, and opens it as b.
func (p *PackedTable) read(i int, b *Block) ([]byte, error) {
	fetched, found, err := get(p.from, tableKey(packedKeyspace, p.table, p.last(i)),
		func(value []byte) ([]byte, error) {
			return bytes.Clone(value), nil
		})
	if err == nil && !found {
		err = errMissing
	}
	if err == nil {
		before := previousBlock{}
		if i > 0 {
			before = previousBlock{p.last(i - 1), true}
		}
		err = openBlock(b, fetched, p.table, p.last(i), before)
	}
	return fetched, err
}

// previousBlock describes the block before another one. It does not exist for the first block.
type previousBlock struct {
	last   uint64
	exists bool
}

// openBlock opens the value of a packed block as b. It returns an error if the value contradicts
// the table, the last fingerprint in the key, or the previous block.
func openBlock(b *Block, data []byte, table int, last uint64, before previousBlock) error {
	if err := b.Open(data); err != nil {
		return err
	}
	switch {
	case b.HasPostings() != (table == 0):
		return fmt.Errorf("%w: only table 0 may have postings", fault.ErrCorrupt)
	case b.Last() != last:
		return fmt.Errorf("%w: the block ends with %016x", fault.ErrCorrupt, b.Last())
	case before.exists && b.First() <= before.last:
		return fmt.Errorf("%w: the block begins with %016x, and the previous block ends with %016x",
			fault.ErrCorrupt, b.First(), before.last)
	}
	return nil
}

func (p *PackedTable) blockError(i int, err error) error {
	return fmt.Errorf("packed block %d (%016x) of table %d: %w", i, p.last(i), p.table, err)
}

var errMissing = fmt.Errorf("%w: it is missing", fault.ErrCorrupt)

// posting returns the IDs of a stored fingerprint in table 0. The set is empty if the table does
// not contain the fingerprint.
func (p *PackedTable) posting(stored uint64) (IDs, error) {
	i, at, found, err := p.locate(stored)
	if err != nil || !found {
		return IDs{}, err
	}
	return p.PostingAt(i, at)
}

// PostingAt returns the IDs of the fingerprint at a position of block i of table 0.
func (p *PackedTable) PostingAt(i, at int) (IDs, error) {
	var b Block
	if err := p.Open(i, &b); err != nil {
		return IDs{}, err
	}
	ids, err := b.Posting(at)
	if err != nil {
		return IDs{}, p.blockError(i, err)
	}
	return ids, nil
}

// locate finds the block of a fingerprint, and its position there.
func (p *PackedTable) locate(fp uint64) (i, at int, found bool, err error) {
	if i = p.find(fp); i == len(p.slots) {
		return 0, 0, false, nil
	}
	var b Block
	if err := p.Open(i, &b); err != nil {
		return 0, 0, false, err
	}
	var buf [4]uint64
	fps, at := b.AppendRange(buf[:0], fp, fp)
	return i, at, len(fps) > 0, nil
}

// packedBlocks yields the packed blocks of a table in order, from the block that contains a given
// fingerprint, or would contain it. It reads them from disk and does not add them to the arena. A
// block is valid until the next one. packedBlocks yields an error if a block is missing, or is not
// in the directory. So a loop that ends without an error has read every fingerprint.
func (v *View) packedBlocks(table int, first uint64) iter.Seq2[*Block, error] {
	return func(yield func(*Block, error) bool) {
		if len(v.packed) == 0 {
			return
		}
		r := newBlockReader(v.packed[table], first)
		blocks := scan(v, tableKey(packedKeyspace, table, first),
			tableEnd(packedKeyspace, table), r.decode)
		for b, err := range blocks {
			if !yield(b, err) || err != nil {
				return
			}
		}
		if err := r.end(); err != nil {
			yield(nil, err)
		}
	}
}

// Packed yields the permuted fingerprints that are packed in a table, in ascending order.
func (v *View) Packed(table int) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		var fps []uint64
		for b, err := range v.packedBlocks(table, 0) {
			if err != nil {
				yield(0, err)
				return
			}
			fps = b.AppendTo(fps[:0])
			for _, fp := range fps {
				if !yield(fp, nil) {
					return
				}
			}
		}
	}
}

// blockReader reads the blocks of a table in order, and compares them with the directory.
type blockReader struct {
	p       *PackedTable
	next    int // the next block
	block   Block
	before  previousBlock
	entries uint64 // in the blocks that were read
	all     bool   // the reader began with block 0
}

// newBlockReader returns a reader that begins with the block of a fingerprint.
func newBlockReader(p *PackedTable, first uint64) *blockReader {
	r := &blockReader{p: p, next: p.find(first)}
	r.all = r.next == 0
	if !r.all {
		r.before = previousBlock{p.last(r.next - 1), true}
	}
	return r
}

func (r *blockReader) decode(key, value []byte) (*Block, error) {
	last, err := keyNumber(key, tableKeyLen)
	if err != nil {
		return nil, fmt.Errorf("table %d: %w", r.p.table, err)
	}
	if r.next == r.p.blocks() || last < r.p.last(r.next) {
		return nil, fmt.Errorf("%w: it is not in the directory of table %d",
			fault.ErrCorrupt, r.p.table)
	}
	if last > r.p.last(r.next) {
		return nil, r.p.blockError(r.next, errMissing)
	}
	if err = openBlock(&r.block, value, r.p.table, last, r.before); err != nil {
		return nil, fmt.Errorf("packed block of table %d: %w", r.p.table, err)
	}
	r.next++
	r.before = previousBlock{last, true}
	r.entries += uint64(r.block.Len())
	return &r.block, nil
}

// end returns an error if a block is missing.
func (r *blockReader) end() error {
	if r.next < r.p.blocks() {
		return r.p.blockError(r.next, errMissing)
	}
	if r.all && r.entries != r.p.entries {
		return fmt.Errorf("%w: the packed blocks of table %d hold %d fingerprints, not %d",
			fault.ErrCorrupt, r.p.table, r.entries, r.p.entries)
	}
	return nil
}
