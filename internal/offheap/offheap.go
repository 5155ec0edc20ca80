// Package offheap gives memory that the garbage collector does not see. What a collector keeps
// it lets grow to twice its size before it looks again, so what is large and long-lived is half
// as large outside. The memory is zero, takes none of the machine's until it is written to,
// and is asked for in large pages.
package offheap

import "unsafe"

const leastBytes = 64 << 10

// Make returns a slice of n elements, which must have no pointers, and what gives it back: after
// that nothing may touch it. Where the system has no such memory, and where it is little, it is Go's.
func Make[T any](n int) (s []T, free func()) {
	bytes := n * int(unsafe.Sizeof(*new(T)))
	if bytes < leastBytes {
		return make([]T, n), func() {}
	}
	memory, free := mapped(bytes)
	if memory == nil {
		return make([]T, n), func() {}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n), free
}
