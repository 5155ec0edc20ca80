package hugepages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageBytes is the size of a large page.
const pageBytes = 2 << 20

// Prefer requests large pages for a slice that was not written yet. The elements must not
// contain pointers. It ignores slices of less than two large pages.
func Prefer[T any](s []T) {
	bytes := uintptr(len(s)) * unsafe.Sizeof(*new(T))
	if bytes < 2*pageBytes {
		return
	}
	begin := unsafe.Pointer(unsafe.SliceData(s))
	skip := -uintptr(begin) & (pageBytes - 1)
	whole := (bytes - skip) &^ (pageBytes - 1)
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(begin, skip)), whole), unix.MADV_HUGEPAGE)
}
