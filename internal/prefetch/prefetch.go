// Package prefetch loads memory into the cache of the processor without waiting for it. A caller
// that needs several places in memory soon prefetches all of them, so that the cache misses
// overlap. Ordinary loads overlap only within the few hundred instructions that the processor looks
// ahead.
package prefetch

import "unsafe"

const lineBytes = 64

// Bytes loads n bytes from p on. It has no effect if p is not a valid address. On processors other
// than amd64 and arm64, it does nothing.
func Bytes(p unsafe.Pointer, n uintptr) {
	lines(p, (uintptr(p)%lineBytes+n+lineBytes-1)/lineBytes)
}
