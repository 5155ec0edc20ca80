package block

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/fault"
)

// Codec bytes of an ID list, see docs/format.md.
const (
	idsInline  = 0x01
	idsRoaring = 0x02
)

// maxInline is the largest number of IDs that are written inline; more IDs are written as a bitmap.
// A bitmap of scattered IDs has about 30 bytes and 2 bytes per ID. An inline ID has 1 to 5 bytes.
const maxInline = 32

// IDs is the set of the document IDs of a posting. The zero value is the empty set. An IDs is
// immutable, so it may be shared.
type IDs struct {
	inline []uint64          // ascending
	bitmap *roaring64.Bitmap // instead of inline
}

// NewIDs returns the set of the given IDs, in any order. It keeps and sorts the slice.
func NewIDs(ids ...uint64) IDs {
	if len(ids) > 1 {
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	return IDs{inline: ids}
}

// Len returns the number of IDs.
func (s IDs) Len() int {
	if s.bitmap != nil {
		return int(s.bitmap.GetCardinality())
	}
	return len(s.inline)
}

// Empty reports whether the set is empty. It is faster than Len.
func (s IDs) Empty() bool {
	if s.bitmap != nil {
		return s.bitmap.IsEmpty()
	}
	return len(s.inline) == 0
}

// All yields the IDs in ascending order.
func (s IDs) All() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		next := s.Iterator()
		for id, ok := next(); ok && yield(id); id, ok = next() {
		}
	}
}

// AppendTo appends the IDs, in ascending order.
func (s IDs) AppendTo(dst []uint64) []uint64 {
	if s.bitmap == nil {
		return append(dst, s.inline...)
	}
	it := s.bitmap.ManyIterator()
	for {
		dst = slices.Grow(dst, 1)
		n := it.NextMany(dst[len(dst):cap(dst)])
		if n == 0 {
			return dst
		}
		dst = dst[:len(dst)+n]
	}
}

// Iterator returns a function that returns the IDs one by one, in ascending order, and
// false at the end.
func (s IDs) Iterator() func() (uint64, bool) {
	if s.bitmap != nil {
		it := s.bitmap.Iterator()
		return func() (uint64, bool) {
			if !it.HasNext() {
				return 0, false
			}
			return it.Next(), true
		}
	}
	at := 0
	return func() (uint64, bool) {
		if at == len(s.inline) {
			return 0, false
		}
		at++
		return s.inline[at-1], true
	}
}

// Union returns the union of both sets.
func (s IDs) Union(other IDs) IDs {
	if s.Empty() {
		return other
	}
	if other.Empty() {
		return s
	}
	if s.bitmap == nil {
		s, other = other, s
	}
	if s.bitmap == nil {
		return NewIDs(slices.Concat(s.inline, other.inline)...).shrunk()
	}
	bitmap := s.bitmap.Clone()
	if other.bitmap != nil {
		bitmap.Or(other.bitmap)
	} else {
		bitmap.AddMany(other.inline)
	}
	return IDs{bitmap: bitmap}.shrunk()
}

// WithoutAll returns the set without the IDs of a bitmap.
func (s IDs) WithoutAll(removed *roaring64.Bitmap) IDs {
	if removed.IsEmpty() {
		return s
	}
	if s.bitmap != nil {
		return IDs{bitmap: roaring64.AndNot(s.bitmap, removed)}.shrunk()
	}
	rest := make([]uint64, 0, len(s.inline))
	for _, id := range s.inline {
		if !removed.Contains(id) {
			rest = append(rest, id)
		}
	}
	return IDs{inline: rest}
}

// shrunk returns the set in the form in which encode writes it.
func (s IDs) shrunk() IDs {
	switch {
	case s.bitmap != nil && s.Len() <= maxInline:
		return IDs{inline: s.bitmap.ToArray()}
	case s.bitmap == nil && len(s.inline) > maxInline:
		bitmap := roaring64.New()
		bitmap.AddMany(s.inline)
		return IDs{bitmap: bitmap}
	}
	return s
}

// encode returns the encoding of docs/format.md, which decodeIDs decodes.
func (s IDs) encode() ([]byte, error) {
	s = s.shrunk()
	if s.bitmap == nil {
		list := []byte{idsInline}
		previous := uint64(0)
		for _, id := range s.inline {
			list = binary.AppendUvarint(list, id-previous)
			previous = id
		}
		return list, nil
	}
	bitmap := s.bitmap.Clone() // other goroutines may read s.bitmap
	bitmap.RunOptimize()
	encoded, err := bitmap.ToPortableBytes()
	return append([]byte{idsRoaring}, encoded...), err
}

// decodeIDs decodes the result of encode. The set does not refer to src.
func decodeIDs(src []byte) (IDs, error) {
	if len(src) == 0 {
		return IDs{}, fmt.Errorf("%w: empty ID list", fault.ErrCorrupt)
	}
	switch src[0] {
	case idsInline:
		return decodeInline(src[1:])
	case idsRoaring:
		return decodeRoaring(src[1:])
	}
	return IDs{}, fmt.Errorf("%w: ID list of unknown codec %#02x", fault.ErrCorrupt, src[0])
}

func decodeInline(src []byte) (IDs, error) {
	var ids []uint64
	previous := uint64(0)
	for len(src) > 0 {
		gap, n := binary.Uvarint(src)
		if n <= 0 || gap == 0 || previous+gap < previous {
			return IDs{}, fmt.Errorf("%w: ID list is invalid after ID %d",
				fault.ErrCorrupt, previous)
		}
		previous += gap
		ids = append(ids, previous)
		src = src[n:]
	}
	return IDs{inline: ids}, nil
}

func decodeRoaring(src []byte) (IDs, error) {
	bitmap := roaring64.New()
	n, err := bitmap.ReadPortableFrom(bytes.NewReader(src))
	if err == nil {
		err = bitmap.Validate()
	}
	switch {
	case err != nil:
		return IDs{}, fmt.Errorf("%w: ID bitmap: %w", fault.ErrCorrupt, err)
	case int(n) != len(src):
		return IDs{}, fmt.Errorf("%w: ID bitmap has %d bytes too many", fault.ErrCorrupt,
			len(src)-int(n))
	case bitmap.Contains(0):
		return IDs{}, fmt.Errorf("%w: ID bitmap contains ID 0", fault.ErrCorrupt)
	}
	return IDs{bitmap: bitmap}, nil
}
