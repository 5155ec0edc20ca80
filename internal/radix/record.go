// Package radix sorts records of 64-bit words by their first word, stably, in time that is
// linear in their number: from the highest digit on until a part fits in a core's own
// cache, then from the lowest on.
package radix

import "unsafe"

// Record is one to four 64-bit words. The first word determines the order.
type Record interface {
	~[1]uint64 | ~[2]uint64 | ~[3]uint64 | ~[4]uint64
}

// Bytes is the size of a record.
func Bytes[R Record]() int64 {
	var r R
	return int64(unsafe.Sizeof(r))
}

// Memory is the memory of records, not a copy: a record is words without padding, in the byte order
// of this machine, so any bytes of the right number are records.
func Memory[R Record](records []R) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(records))),
		len(records)*int(Bytes[R]()))
}

// Words is the memory of numbers as records of one word, not a copy.
func Words[W ~uint64](words []W) [][1]uint64 {
	return unsafe.Slice((*[1]uint64)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// Spread holds the bits of the first word in which records differ.
type Spread struct{ or, and uint64 }

// NoSpread is the Spread of no records.
var NoSpread = Spread{or: 0, and: ^uint64(0)}

// Join returns the Spread of the union of two sets of records.
func (s Spread) Join(t Spread) Spread { return Spread{s.or | t.or, s.and & t.and} }

// Differing returns the bits in which records differ. It is 0 if there are no records.
func (s Spread) Differing() uint64 { return s.or &^ s.and }

// SpreadOf returns the spread of records.
func SpreadOf[R Record](records []R) Spread {
	s := NoSpread
	for i := range records {
		s.or |= records[i][0]
		s.and &= records[i][0]
	}
	return s
}
