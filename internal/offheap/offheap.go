// Package offheap allocates memory outside of the Go heap. The garbage collector lets the heap
// grow to twice the size of its live objects, so large, long-lived data needs half as much memory
// outside of the heap. The memory is zero, uses large pages, and occupies no physical memory until
// it is written.
package offheap

import "unsafe"

const minBytes = 64 << 10 // smaller slices are on the Go heap

// Make returns a slice of n elements, and a function that frees it. The elements must not contain
// pointers. The caller must not use the slice after it is freed. If the slice is small, or the
// system does not support such memory, the slice is on the Go heap.
func Make[T any](n int) (s []T, free func()) {
	bytes := n * int(unsafe.Sizeof(*new(T)))
	if bytes < minBytes {
		return make([]T, n), func() {}
	}
	memory, free := mapped(bytes)
	if memory == nil {
		return make([]T, n), func() {}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n), free
}
