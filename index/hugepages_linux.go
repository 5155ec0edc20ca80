package index

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePageBytes is what a processor maps at once if it is asked to.
const hugePageBytes = 2 << 20

// preferHugePages asks for large pages beneath a filter that nothing was added to yet:
// it is read all over, and most of the time would go into finding small pages. It is
// a hint; without it everything works the same.
func preferHugePages(lines []line) {
	if len(lines)*lineBytes < 2*hugePageBytes {
		return
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(lines)))
	skip := -begin & (hugePageBytes - 1)
	whole := (uintptr(len(lines)*lineBytes) - skip) &^ (hugePageBytes - 1)
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(lines)), skip)), whole), unix.MADV_HUGEPAGE)
}
