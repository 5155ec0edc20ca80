package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/store/block"
)

// PackedTable reads the blocks that the last compaction wrote for one table. Their
// keys are in RAM; the blocks are fetched when they are first asked for, and cached.
// It never changes while the store is open, and may be used by several goroutines at
// once.
type PackedTable struct {
	directory
	table   int
	entries uint64
	cache   *blockCache
	get     getFunc
}

// openPackedTable reads the directory of a table with as many fingerprints and blocks
// as meta says. It keeps get.
func openPackedTable(table int, entries, blocks uint64, cache *blockCache, get getFunc) (*PackedTable, error) {
	if blocks > entries || entries/block.MaxLen > blocks {
		return nil, fmt.Errorf("%w: table %d of %d fingerprints in %d blocks", ErrCorrupt, table, entries, blocks)
	}
	d, err := loadDirectory(table, blocks, get)
	if err != nil {
		return nil, err
	}
	return &PackedTable{directory: d, table: table, entries: entries, cache: cache, get: get}, nil
}

// Blocks returns the number of blocks. They are numbered from 0 in the order of their
// fingerprints.
func (p *PackedTable) Blocks() int { return len(p.slots) }

// Entries returns the number of fingerprints.
func (p *PackedTable) Entries() uint64 { return p.entries }

// Find returns the first block whose last fingerprint is first or a larger one;
// Blocks() if there is none. No block before it holds such a fingerprint.
func (p *PackedTable) Find(first uint64) int { return p.find(first) }

// Last returns the last fingerprint of block i, without reading the block.
func (p *PackedTable) Last(i int) uint64 { return p.slots[i].last }

// RAMBytes returns what the table takes in RAM without cached blocks.
func (p *PackedTable) RAMBytes() int64 { return p.directory.bytes() }

// Block returns block i, 0 to Blocks()-1, which stays as it is for as long as it is
// used. That takes no lock and allocates nothing if the block is cached; otherwise it
// is read from disk, and checked.
func (p *PackedTable) Block(i int) (b Block, err error) {
	slot := &p.slots[i]
	if cached := slot.block.Load(); cached != nil {
		cached.touch()
		err = b.Open(cached.data(), nil)
		return b, err
	}
	return p.fetch(i)
}

func (p *PackedTable) fetch(i int) (b Block, err error) {
	var key [tableKeyLen]byte
	putTableKey(key[:], packedKeyspace, p.table, p.Last(i))
	var fetched *cachedBlock
	err = p.get(key[:], func(value []byte) error {
		if len(value) > maxCachedBlock {
			return fmt.Errorf("%w: it has %d bytes", ErrCorrupt, len(value))
		}
		fetched = newCachedBlock(value)
		return nil
	})
	if err == nil && fetched == nil {
		err = errMissing
	}
	if err == nil {
		err = p.open(i, &b, fetched.data())
	}
	if err != nil {
		return Block{}, p.blockError(i, err)
	}
	p.cache.add(&p.slots[i], fetched)
	return b, nil
}

// open opens b over the bytes that are stored as block i, if they can be that.
func (p *PackedTable) open(i int, b *Block, data []byte) error {
	if err := b.Open(data, nil); err != nil {
		return err
	}
	switch {
	case b.HasPostings() != (p.table == 0):
		return fmt.Errorf("%w: postings are for table 0 and no other", ErrCorrupt)
	case b.Last() != p.Last(i):
		return fmt.Errorf("%w: it ends with %016x", ErrCorrupt, b.Last())
	case i > 0 && b.First() <= p.Last(i-1):
		return fmt.Errorf("%w: it begins with %016x, and the one before ends with %016x", ErrCorrupt, b.First(), p.Last(i-1))
	}
	return nil
}

func (p *PackedTable) blockError(i int, err error) error {
	return fmt.Errorf("packed block %d (%016x) of table %d: %w", i, p.Last(i), p.table, err)
}

var errMissing = fmt.Errorf("%w: it is missing", ErrCorrupt)

// Contains reports whether a permuted fingerprint is in the table.
func (p *PackedTable) Contains(permuted uint64) (bool, error) {
	_, _, found, err := p.locate(permuted)
	return found, err
}

// Posting returns the documents of a stored fingerprint, for table 0; none if it is
// not in the table.
func (p *PackedTable) Posting(stored uint64) (IDs, error) {
	b, at, found, err := p.locate(stored)
	if err != nil || !found {
		return IDs{}, err
	}
	ids, err := b.Posting(at)
	if err != nil {
		return IDs{}, fmt.Errorf("packed posting of %016x: %w", stored, err)
	}
	return ids, nil
}

// locate finds the block of a fingerprint, and its position there.
func (p *PackedTable) locate(fp uint64) (b Block, at int, found bool, err error) {
	i := p.find(fp)
	if i == len(p.slots) {
		return Block{}, 0, false, nil
	}
	if b, err = p.Block(i); err != nil {
		return Block{}, 0, false, err
	}
	var buf [4]uint64
	fps, at := b.AppendRange(buf[:0], fp, fp)
	return b, at, len(fps) > 0, nil
}

// blocksFrom yields the blocks in order, beginning with the one that Find names, from
// the disk and past the cache. A block is valid until the next one is asked for. If
// a block is missing or one too many, that is an error, so a caller without an error
// has had every fingerprint. it must reach the packed keyspace; it is moved.
func (p *PackedTable) blocksFrom(it *pebble.Iterator, first uint64) iter.Seq2[*Block, error] {
	return func(yield func(*Block, error) bool) {
		var key [tableKeyLen]byte
		putTableKey(key[:], packedKeyspace, p.table, first)
		b := new(Block)
		begin := p.find(first)
		i, read := begin, uint64(0)
		for ok := it.SeekGE(key[:]); ok && bytes.HasPrefix(it.Key(), key[:3]); ok = it.Next() {
			if err := p.openAt(it, i, b); err != nil {
				yield(nil, err)
				return
			}
			read += uint64(b.Len())
			if !yield(b, nil) {
				return
			}
			i++
		}
		switch err := it.Error(); {
		case err != nil:
			yield(nil, fmt.Errorf("packed blocks of table %d: %w", p.table, classify(err)))
		case i < len(p.slots):
			yield(nil, p.blockError(i, errMissing))
		case begin == 0 && read != p.entries:
			yield(nil, fmt.Errorf("%w: the packed blocks of table %d hold %d fingerprints, not %d", ErrCorrupt, p.table, read, p.entries))
		}
	}
}

// openAt opens b over what it is at, which must be block i.
func (p *PackedTable) openAt(it *pebble.Iterator, i int, b *Block) error {
	key := it.Key()
	if len(key) != tableKeyLen || i == len(p.slots) || binary.BigEndian.Uint64(key[3:]) < p.Last(i) {
		return fmt.Errorf("%w: key %x is not in the directory of table %d", ErrCorrupt, key, p.table)
	}
	if binary.BigEndian.Uint64(key[3:]) > p.Last(i) {
		return p.blockError(i, errMissing)
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return p.blockError(i, classify(err))
	}
	if err := p.open(i, b, value); err != nil {
		return p.blockError(i, err)
	}
	return nil
}
