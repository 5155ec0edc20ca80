package block

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/neardup/neardup/internal/fault"
)

// The postings of a block follow its fingerprints (docs/format-blocks.md). Each fingerprint
// has a slot of the same width. If the fingerprint has one document, as nearly every fingerprint,
// the slot contains the document's ID minus the smallest such ID of the block. If the fingerprint
// has several documents, the slot contains one of the highest values, which stand for ID lists.

// maxID is the largest ID that a block can contain, so that one 8-byte load reads any slot.
const maxID = 1<<(maxPacked-1) - 1

// slotLayout determines the size of the postings of a block.
type slotLayout struct {
	n         int
	lists     int
	listBytes int
	low, high uint64 // the smallest and the largest single ID, if lists < n
}

// with returns the layout with one more posting.
func (s slotLayout) with(p posting) slotLayout {
	if p.single == 0 {
		s.lists++
		s.listBytes += len(p.list)
	} else if s.lists == s.n {
		s.low, s.high = p.single, p.single
	} else {
		s.low, s.high = min(s.low, p.single), max(s.high, p.single)
	}
	s.n++
	return s
}

// slotWidth returns the width of a slot. Its highest values are reserved for the lists.
func (s *slotLayout) slotWidth() uint {
	return uint(bits.Len64(s.high - s.low + uint64(s.lists)))
}

func (s *slotLayout) endWidth() uint {
	return uint(bits.Len64(uint64(s.listBytes)))
}

func (s *slotLayout) size() int {
	size := 1 + uvarintLen(s.low) + uvarintLen(uint64(s.lists)) + packedSize(s.n, s.slotWidth())
	if s.lists > 0 {
		size += 1 + packedSize(s.lists, s.endWidth()) + s.listBytes
	}
	return size
}

func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// posting is a posting that will be written to a block.
type posting struct {
	single uint64 // the only ID, or 0
	list   []byte // the encoded IDs, if single is 0
}

var (
	errNoPostings     = errors.New("block has no postings")
	errBrokenPostings = fmt.Errorf("%w: inconsistent lengths in the postings of a block",
		fault.ErrCorrupt)
	errPosting = errors.New("posting does not fit in a block")
)

func newPosting(ids IDs) (posting, error) {
	ids = ids.shrunk()
	var first uint64
	switch {
	case ids.bitmap != nil:
		first = ids.bitmap.Minimum()
	case len(ids.inline) == 0:
		return posting{}, fmt.Errorf("%w: it is empty", errPosting)
	default:
		first = ids.inline[0]
	}
	if first == 0 || first > maxID {
		return posting{}, fmt.Errorf("%w: ID %d is not in 1..%d", errPosting, first, uint64(maxID))
	}
	if ids.bitmap == nil && len(ids.inline) == 1 {
		return posting{single: first}, nil
	}
	list, err := ids.encode()
	return posting{list: list}, err
}

func appendPostings(dst []byte, postings []posting) []byte {
	var s slotLayout
	for _, p := range postings {
		s = s.with(p)
	}
	width := s.slotWidth()
	dst = append(dst, byte(width))
	dst = binary.AppendUvarint(dst, s.low)
	dst = binary.AppendUvarint(dst, uint64(s.lists))
	if s.lists > 0 {
		dst = append(dst, byte(s.endWidth()))
	}
	slots := bitWriter{dst: dst}
	list := uint64(1)<<width - uint64(s.lists)
	for _, p := range postings {
		if p.single != 0 {
			slots.write(p.single-s.low, width)
		} else {
			slots.write(list, width)
			list++
		}
	}
	dst = slots.finish()
	if s.lists == 0 {
		return dst
	}
	ends := bitWriter{dst: dst}
	end := uint64(0)
	for _, p := range postings {
		if p.single == 0 {
			end += uint64(len(p.list))
			ends.write(end, s.endWidth())
		}
	}
	dst = ends.finish()
	for _, p := range postings {
		dst = append(dst, p.list...)
	}
	return dst
}

// Postings are the postings of a block.
type Postings struct {
	n        int
	width    uint   // of a slot
	low      uint64 // the ID that slot value 0 stands for
	lists    uint64 // number of lists
	endWidth uint
	slots    []byte // with the 7 bytes before them
	ends     []byte // with the 7 bytes before them
	values   []byte // the lists
}

// Postings returns the postings of a block of table 0. It checks the lengths of their parts.
func (b *Block) Postings() (p Postings, err error) {
	if !b.HasPostings() {
		return p, errNoPostings
	}
	src := b.data[b.end:]
	if len(src) == 0 || src[0] > maxPacked {
		return p, errBrokenPostings
	}
	p.n, p.width = b.n, uint(src[0])
	var low, lists int // number of bytes of p.low and p.lists
	p.low, low = binary.Uvarint(src[1:])
	if low <= 0 || p.low > maxID {
		return p, errBrokenPostings
	}
	p.lists, lists = binary.Uvarint(src[1+low:])
	if lists <= 0 || p.lists > uint64(b.n) || p.lists > 1<<p.width {
		return p, errBrokenPostings
	}
	at := 1 + low + lists
	if p.lists > 0 {
		if at == len(src) || src[at] == 0 || src[at] > maxPacked {
			return p, errBrokenPostings
		}
		p.endWidth = uint(src[at])
		at++
	}
	// The fingerprints before the postings have more than 7 bytes.
	slots := b.end + at
	ends := slots + packedSize(b.n, p.width)
	values := ends + packedSize(int(p.lists), p.endWidth)
	if values > len(b.data) || p.lists == 0 && values < len(b.data) {
		return p, errBrokenPostings
	}
	p.slots, p.ends, p.values = b.data[slots-7:ends], b.data[ends-7:values], b.data[values:]
	return p, nil
}

// at returns the only ID of posting i, or, if isList, the number of its list.
func (p *Postings) at(i int) (single, list uint64, isList bool) {
	slot := uint64(0)
	if p.width > 0 {
		slot = packedField(p.slots, i, p.width)
	}
	if singles := uint64(1)<<p.width - p.lists; slot >= singles {
		return 0, slot - singles, true
	}
	return p.low + slot, 0, false
}

// list returns list i, encoded.
func (p *Postings) list(i uint64) ([]byte, error) {
	begin, end := uint64(0), packedField(p.ends, int(i), p.endWidth)
	if i > 0 {
		begin = packedField(p.ends, int(i)-1, p.endWidth)
	}
	if begin > end || end > uint64(len(p.values)) {
		return nil, errBrokenPostings
	}
	return p.values[begin:end], nil
}

// Posting returns the IDs of the fingerprint at position i, from 0 to Len()-1. Only blocks of table
// 0 have postings. Posting decodes no other posting.
func (b *Block) Posting(i int) (IDs, error) {
	p, err := b.Postings()
	if err != nil {
		return IDs{}, err
	}
	return p.IDs(i)
}

// IDs returns the IDs of the fingerprint at position i.
func (p *Postings) IDs(i int) (IDs, error) {
	single, list, isList := p.at(i)
	if !isList && single == 0 {
		return IDs{}, fmt.Errorf("%w: posting %d of a block has ID 0", fault.ErrCorrupt, i)
	}
	if !isList {
		return IDs{inline: []uint64{single}}, nil
	}
	encoded, err := p.list(list)
	if err != nil {
		return IDs{}, err
	}
	return decodeIDs(encoded)
}

// verifyPostings decodes all postings. It also checks that each list belongs to one fingerprint,
// and that no bytes follow the last list.
func (b *Block) verifyPostings() error {
	p, err := b.Postings()
	if err != nil {
		return err
	}
	next, end := uint64(0), 0
	for i := range p.n {
		single, list, isList := p.at(i)
		if !isList && single == 0 {
			return fmt.Errorf("%w: posting %d of a block has ID 0", fault.ErrCorrupt, i)
		}
		if !isList {
			continue
		}
		if next == p.lists || list != next {
			return fmt.Errorf("%w: posting %d of a block has list %d, not %d",
				fault.ErrCorrupt, i, list, next)
		}
		next++
		encoded, err := p.list(list)
		if err != nil {
			return err
		}
		ids, err := decodeIDs(encoded)
		if err != nil {
			return fmt.Errorf("posting %d of a block: %w", i, err)
		}
		if ids.Len() == 0 {
			return fmt.Errorf("%w: posting %d of a block is empty", fault.ErrCorrupt, i)
		}
		end += len(encoded)
	}
	if next != p.lists || end != len(p.values) {
		return fmt.Errorf("%w: %d of %d lists of a block are used, %d of %d bytes",
			fault.ErrCorrupt, next, p.lists, end, len(p.values))
	}
	return nil
}
