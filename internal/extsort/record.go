package extsort

import "unsafe"

// Record is one to four 64-bit words. Records are ordered by the first; the
// others are carried along.
type Record interface {
	~[1]uint64 | ~[2]uint64 | ~[3]uint64 | ~[4]uint64
}

func recordBytes[R Record]() int64 {
	var r R
	return int64(unsafe.Sizeof(r))
}

// bytesOf is the memory of records, not a copy: a record is words without
// padding, so any bytes of the right number are records.
func bytesOf[R Record](records []R) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(records))), len(records)*int(recordBytes[R]()))
}

// spread tells in which bits of the first word records differ.
type spread struct{ or, and uint64 }

var noSpread = spread{or: 0, and: ^uint64(0)}

func (s spread) join(t spread) spread { return spread{s.or | t.or, s.and & t.and} }

// differing has a bit set where not all records have the same; 0 for no records.
func (s spread) differing() uint64 { return s.or &^ s.and }

func spreadOf[R Record](records []R) spread {
	s := noSpread
	for i := range records {
		s.or |= records[i][0]
		s.and &= records[i][0]
	}
	return s
}
