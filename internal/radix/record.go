// Package radix sorts records of 64-bit words by their first word. The sort is stable, and its time
// is linear in the number of records. It sorts by the highest digits first, until a part fits in
// the cache of a core. It sorts such a part by the lowest digit first.
package radix

import "unsafe"

// Record is one to four 64-bit words. The first word determines the order.
type Record interface {
	~[1]uint64 | ~[2]uint64 | ~[3]uint64 | ~[4]uint64
}

// Bytes returns the size of a record.
func Bytes[R Record]() int64 {
	var r R
	return int64(unsafe.Sizeof(r))
}

// Memory returns the memory of records, without a copy. A record has no padding, and the byte order
// of this machine, so any bytes of the right number are records.
func Memory[R Record](records []R) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(records))),
		len(records)*int(Bytes[R]()))
}

// Words returns the memory of numbers as records of one word, without a copy.
func Words[W ~uint64](words []W) [][1]uint64 {
	return unsafe.Slice((*[1]uint64)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// Differing returns the bits in which the first words of records differ from a word.
func Differing[R Record](records []R, from uint64) (bits uint64) {
	for i := range records {
		bits |= records[i][0] ^ from
	}
	return bits
}
