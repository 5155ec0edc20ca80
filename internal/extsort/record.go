package extsort

import (
	"unsafe"

	"github.com/neardup/neardup/internal/radix"
)

// Record is one to four 64-bit words, ordered by the first.
type Record interface{ radix.Record }

func recordBytes[R Record]() int64 { return radix.Bytes[R]() }

// bytesOf is the memory of records, not a copy: a record is words without
// padding, so any bytes of the right number are records.
func bytesOf[R Record](records []R) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(records))), len(records)*int(recordBytes[R]()))
}
