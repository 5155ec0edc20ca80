package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"
)

// Posting is a stored fingerprint and the documents that share it.
type Posting struct {
	Stored uint64
	IDs    IDs
}

var errStopped = errors.New("stopped by the caller")

// Postings yields every stored fingerprint from first on with its documents, in
// ascending order. The view must not be used for anything else meanwhile.
func (v *View) Postings(first uint64) iter.Seq2[Posting, error] {
	return func(yield func(Posting, error) bool) {
		v.Entries(first)(func(p Posting, err error) bool {
			return err == nil && p.IDs.Len() == 0 || yield(p, err)
		})
	}
}

// Entries is Postings, but yields also what is in the tables without documents: packed
// fingerprints whose documents are all gone.
func (v *View) Entries(first uint64) iter.Seq2[Posting, error] {
	return func(yield func(Posting, error) bool) {
		m := postingMerge{live: liveCursor{it: v.it}, yield: yield}
		err := m.live.seek(v.tableKey(0, first))
		if err == nil && v.store.generation != 0 {
			err = m.packed(v, first)
		}
		if err == nil {
			err = m.liveUpTo(0, true)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Posting{}, classify(err))
		}
	}
}

// postingMerge brings together what is live and what is packed in table 0.
type postingMerge struct {
	live  liveCursor
	yield func(Posting, error) bool
	fps   []uint64
}

// packed yields everything up to the last packed fingerprint.
func (m *postingMerge) packed(v *View, first uint64) error {
	it, err := v.it.Clone(pebble.CloneOptions{})
	if err != nil {
		return err
	}
	for block, err := range v.store.packed[0].blocksFrom(it, first) {
		if err == nil {
			err = m.block(block, first)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}

func (m *postingMerge) block(b *Block, first uint64) error {
	m.fps = b.AppendTo(m.fps[:0])
	postings, err := b.Postings()
	if err != nil {
		return err
	}
	for i, fp := range m.fps {
		if fp < first {
			continue
		}
		if err := m.liveUpTo(fp, false); err != nil {
			return err
		}
		ids, err := postings.IDs(i)
		if err != nil {
			return fmt.Errorf("packed posting of %016x: %w", fp, err)
		}
		if m.live.valid && m.live.stored == fp {
			if err := m.emitLive(ids); err != nil {
				return err
			}
		} else if err := m.emit(fp, ids); err != nil {
			return err
		}
	}
	return nil
}

// liveUpTo yields the live fingerprints before an end, or all.
func (m *postingMerge) liveUpTo(end uint64, all bool) error {
	for m.live.valid && (all || m.live.stored < end) {
		if err := m.emitLive(IDs{}); err != nil {
			return err
		}
	}
	return nil
}

// emitLive yields the live fingerprint at hand, with a packed posting, and goes on.
func (m *postingMerge) emitLive(packed IDs) error {
	value, err := m.live.it.ValueAndErr()
	if err != nil {
		return err
	}
	ids, err := postingOf(m.live.stored, value, packed)
	if err != nil {
		return err
	}
	if err := m.emit(m.live.stored, ids); err != nil {
		return err
	}
	return m.live.next()
}

func (m *postingMerge) emit(stored uint64, ids IDs) error {
	if !m.yield(Posting{stored, ids}, nil) {
		return errStopped
	}
	return nil
}

// liveCursor is at a live entry of table 0.
type liveCursor struct {
	it     *pebble.Iterator
	valid  bool
	stored uint64
}

func (c *liveCursor) seek(key []byte) error { return c.at(c.it.SeekGE(key)) }
func (c *liveCursor) next() error           { return c.at(c.it.Next()) }

func (c *liveCursor) at(valid bool) error {
	c.valid = false
	if !valid {
		return c.it.Error()
	}
	key := c.it.Key()
	if len(key) == tableKeyLen && key[0] == tableKeyspace && binary.BigEndian.Uint16(key[1:]) == 0 {
		c.valid, c.stored = true, binary.BigEndian.Uint64(key[3:])
	}
	return nil
}

// PackedBlocks yields the packed blocks of a table in order, each good until the next.
// The view must not be used for anything else meanwhile.
func (v *View) PackedBlocks(table int) iter.Seq2[*Block, error] {
	p := v.store.Packed(table)
	if p == nil {
		return func(func(*Block, error) bool) {}
	}
	return p.blocksFrom(v.it, 0)
}

// LiveStored yields the fingerprints that have a live entry in table 0, in ascending
// order. The view must not be used for anything else meanwhile.
func (v *View) LiveStored() iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		c := liveCursor{it: v.it}
		err := c.seek(v.tableKey(0, 0))
		for ; err == nil && c.valid; err = c.next() {
			if !yield(c.stored, nil) {
				return
			}
		}
		if err != nil {
			yield(0, classify(err))
		}
	}
}

// PostingAt returns the documents of the fingerprint at a position of a block, for
// table 0.
func (p *PackedTable) PostingAt(block, at int) (IDs, error) {
	b, err := p.Block(block)
	if err != nil {
		return IDs{}, err
	}
	ids, err := b.Posting(at)
	if err != nil {
		return IDs{}, p.blockError(block, err)
	}
	return ids, nil
}
