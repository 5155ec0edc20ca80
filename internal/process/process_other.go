//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris)

package process

import "math"

func OpenFilesLimit() uint64 { return math.MaxInt32 }
