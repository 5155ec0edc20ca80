//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris)

package process

import "math"

// OpenFilesLimit returns math.MaxInt32, because the limit of this system is not known.
func OpenFilesLimit() uint64 { return math.MaxInt32 }
