package store

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
)

// directory lists the last fingerprint of every block of a table, each with the
// block itself while that is cached, so that a probe finds both in one place. It
// takes 18 to 20 bytes a block.
type directory struct {
	slots []blockSlot

	// starts has for each value of the leading bits of a fingerprint the first block
	// that ends with that value or a later one, and one more at its end. There are 1
	// to 2 blocks for each if fingerprints are spread evenly; if not, find halves
	// what is between.
	starts []uint32
	shift  uint // what is below the leading bits
}

// blockSlot belongs to one block. last never changes.
type blockSlot struct {
	last  uint64
	block atomic.Pointer[cachedBlock] // nil: not cached
}

const (
	// directoryChunk is the number of blocks that a chunk of the directory lists.
	directoryChunk = 4096

	maxPackedBlocks = math.MaxUint32 - 1

	// shortSearch is the number of slots from which on it is faster to halve.
	shortSearch = 8
)

// getFunc calls read with the value of a key, if there is one. The bytes are valid
// until read returns.
type getFunc = func(key []byte, read func(value []byte) error) error

// loadDirectory reads the directory of a table that has this many blocks.
func loadDirectory(table int, blocks uint64, get getFunc) (directory, error) {
	if blocks > maxPackedBlocks {
		return directory{}, fmt.Errorf("%w: table %d of %d blocks", ErrCorrupt, table, blocks)
	}
	n := int(blocks)
	r := directoryReader{table: table, get: get}
	chunks := (n + directoryChunk - 1) / directoryChunk
	if err := r.expectEnd(chunks); err != nil {
		return directory{}, err
	}
	if n > 0 {
		// If that is there, it is worth making room for all.
		if err := r.read(chunks-1, n-(chunks-1)*directoryChunk); err != nil {
			return directory{}, err
		}
	}
	d := directory{slots: make([]blockSlot, n)}
	for chunk := range chunks {
		begin := chunk * directoryChunk
		slots := d.slots[begin:min(begin+directoryChunk, n)]
		if err := r.read(chunk, len(slots)); err != nil {
			return directory{}, err
		}
		for i, last := range r.lasts {
			if begin+i > 0 && last <= d.slots[begin+i-1].last {
				return directory{}, fmt.Errorf("%w: directory chunk %d of table %d: block %d ends with %016x, the one before with %016x",
					ErrCorrupt, chunk, table, begin+i, last, d.slots[begin+i-1].last)
			}
			slots[i].last = last
		}
	}
	d.makeStarts()
	return d, nil
}

// directoryReader reads chunks of the directory of a table.
type directoryReader struct {
	table int
	get   getFunc
	lasts []uint64 // of the chunk that was read
}

// read reads a chunk that must list this many blocks.
func (r *directoryReader) read(chunk, blocks int) error {
	r.lasts = r.lasts[:0]
	found := false
	var key [chunkKeyLen]byte
	putChunkKey(key[:], directoryKeyspace, r.table, chunk)
	err := r.get(key[:], func(value []byte) error {
		found = true
		var b Block
		if err := b.Open(value, nil); err != nil {
			return err
		}
		if b.HasPostings() {
			return fmt.Errorf("%w: it has postings", ErrCorrupt)
		}
		// One that breaks off has fewer than it says.
		if r.lasts = b.AppendTo(r.lasts); len(r.lasts) != blocks {
			return fmt.Errorf("%w: it lists %d blocks, not %d", ErrCorrupt, len(r.lasts), blocks)
		}
		return nil
	})
	if err == nil && !found {
		err = errMissing
	}
	if err != nil {
		return fmt.Errorf("directory chunk %d of table %d: %w", chunk, r.table, err)
	}
	return nil
}

// expectEnd sees to it that there is no chunk where the directory has ended.
func (r *directoryReader) expectEnd(chunk int) error {
	var key [chunkKeyLen]byte
	putChunkKey(key[:], directoryKeyspace, r.table, chunk)
	return r.get(key[:], func([]byte) error {
		return fmt.Errorf("%w: directory chunk %d of table %d is behind the last one", ErrCorrupt, chunk, r.table)
	})
}

func (d *directory) makeStarts() {
	leading := max(bits.Len(uint(len(d.slots)))-1, 0)
	d.shift = uint(64 - leading)
	d.starts = make([]uint32, 1<<leading+1)
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

// find returns the first block that ends with fp or behind it, or else the number of
// blocks.
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

// bytes returns the RAM that the directory takes, without cached blocks.
func (d *directory) bytes() int64 {
	const slot, start = 16, 4
	return int64(len(d.slots))*slot + int64(len(d.starts))*start
}
