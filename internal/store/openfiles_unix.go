//go:build unix

package store

import (
	"math"
	"syscall"
)

// openFilesLimit returns how many files the process may have open.
func openFilesLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return uint64(limit.Cur)
}
