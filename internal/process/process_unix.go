//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris

// Package process says what the system tells of processes: who holds a lock, what a process is called, how many files
// it may have open. Where the system tells nothing there is nobody, no name and no limit.
package process

import (
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// LockHolder returns the process that holds the lock on a file, 0 if none does or the
// system does not tell. This process must not hold one on it.
func LockHolder(path string) int {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock) != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}

// Name is the command of a process in parentheses, where /proc tells it.
func Name(pid int) string {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return " (" + strings.TrimSpace(string(name)) + ")"
}

// OpenFilesLimit returns how many files the process may have open.
func OpenFilesLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return uint64(limit.Cur)
}
