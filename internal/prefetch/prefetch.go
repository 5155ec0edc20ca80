// Package prefetch loads memory into the cache of the processor without waiting for it. Memory that
// is needed soon is requested together, so that the cache misses overlap. A load would do the same,
// but the processor looks ahead only a few hundred instructions while it waits for a load.
package prefetch

import "unsafe"

const lineBytes = 64

// Bytes loads n bytes from p on. It never fails, whatever p is. On processors other than amd64 and
// arm64, it does nothing.
func Bytes(p unsafe.Pointer, n uintptr) {
	lines(p, (uintptr(p)%lineBytes+n+lineBytes-1)/lineBytes)
}
