//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris

package process

import (
	"math"
	"syscall"
)

// OpenFilesLimit returns how many files the process may have open. If the system does not report
// the limit, it returns math.MaxInt32.
func OpenFilesLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return uint64(limit.Cur)
}
