package store

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// PackedCursor reads blocks of a packed table in about their order, which is much
// faster than one by one where they are not cached. What it reads goes into the cache
// as long as there is room, but pushes nothing out: whoever reads all of a table has no
// use for most of it again. It is for one goroutine.
type PackedCursor struct {
	p  *PackedTable
	it *pebble.Iterator
	at int // the block that it is at; -1: none

	block Block // block number last; kept, as several probes in turn fall into it
	last  int
}

// PackedCursor opens a cursor on a packed table. It must be closed before the view.
func (v *View) PackedCursor(table int) (*PackedCursor, error) {
	p := v.store.Packed(table)
	if p == nil {
		return nil, errors.New("there is no packed table")
	}
	it, err := v.it.Clone(pebble.CloneOptions{})
	if err != nil {
		return nil, classify(err)
	}
	return &PackedCursor{p: p, it: it, at: -1, last: -1}, nil
}

// Table returns the table that the cursor reads.
func (c *PackedCursor) Table() *PackedTable { return c.p }

// Close lets go of the cursor.
func (c *PackedCursor) Close() error { return classify(c.it.Close()) }

// Block returns block i, which stays as it is for as long as it is used.
func (c *PackedCursor) Block(i int) (Block, error) {
	if i == c.last {
		return c.block, nil
	}
	slot := &c.p.slots[i]
	if cached := slot.block.Load(); cached != nil {
		if err := c.block.Open(cached.data(), nil); err != nil {
			c.last = -1
			return Block{}, err
		}
		c.last = i
		return c.block, nil
	}
	c.last = -1
	if err := c.seek(i); err != nil {
		return Block{}, err
	}
	value, err := c.it.ValueAndErr()
	if err != nil {
		return Block{}, c.p.blockError(i, classify(err))
	}
	if len(value) > maxCachedBlock {
		return Block{}, c.p.blockError(i, ErrCorrupt)
	}
	fetched := newCachedBlock(value)
	if err := c.p.open(i, &c.block, fetched.data()); err != nil {
		return Block{}, c.p.blockError(i, err)
	}
	c.p.cache.addIfRoom(slot, fetched)
	c.last = i
	return c.block, nil
}

// seek moves to a block, by a step if it is the next one.
func (c *PackedCursor) seek(i int) error {
	var key [tableKeyLen]byte
	putTableKey(key[:], packedKeyspace, c.p.table, c.p.Last(i))
	var found bool
	if c.at >= 0 && c.at == i-1 {
		found = c.it.Next()
	} else {
		found = c.it.SeekGE(key[:])
	}
	c.at = i
	if found && bytes.Equal(c.it.Key(), key[:]) {
		return nil
	}
	c.at = -1
	if err := c.it.Error(); err != nil {
		return c.p.blockError(i, classify(err))
	}
	return c.p.blockError(i, errMissing)
}

// Posting returns the documents of the fingerprint at a position of block i, for table 0.
func (c *PackedCursor) Posting(i, at int) (IDs, error) {
	b, err := c.Block(i)
	if err != nil {
		return IDs{}, err
	}
	ids, err := b.Posting(at)
	if err != nil {
		return IDs{}, c.p.blockError(i, err)
	}
	return ids, nil
}

// Locate finds a fingerprint.
func (c *PackedCursor) Locate(fp uint64) (block, at int, found bool, err error) {
	i := c.p.find(fp)
	if i == len(c.p.slots) {
		return 0, 0, false, nil
	}
	b, err := c.Block(i)
	if err != nil {
		return 0, 0, false, err
	}
	var buf [4]uint64
	fps, at := b.AppendRange(buf[:0], fp, fp)
	return i, at, len(fps) > 0, nil
}

// PackedCached returns which part of the bytes of all packed tables is in memory, 0 to 1.
func (s *Store) PackedCached() float64 {
	total := uint64(0)
	for _, info := range s.infos {
		total += info.Bytes
	}
	if total == 0 || s.cache == nil {
		return 1
	}
	return min(1, float64(s.cache.Bytes())/float64(total))
}
