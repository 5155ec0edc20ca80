//go:build amd64 || arm64

package prefetch

import "unsafe"

// lines loads at least one cache line, and the n-1 lines that follow it.
//
//go:noescape
func lines(p unsafe.Pointer, n uintptr)
