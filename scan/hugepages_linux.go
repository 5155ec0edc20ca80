package scan

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePageBytes = 2 << 20

func preferHugePages(words []uint64) {
	if len(words)*8 < 2*hugePageBytes {
		return
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(words)))
	skip := -begin & (hugePageBytes - 1)
	whole := (uintptr(len(words)*8) - skip) &^ (hugePageBytes - 1)
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(words)), skip)), whole), unix.MADV_HUGEPAGE)
}
