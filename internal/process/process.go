// Package process returns the limits of the process: memory and open files.
package process

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Memory returns the bytes of memory of the machine, or the limit of the process's cgroup if it is
// lower. It returns math.MaxInt64 if the system reports neither.
func Memory() int64 {
	memory := uint64(math.MaxInt64)
	for _, limit := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := limit(); err == nil && n > 0 {
			memory = min(memory, n)
		}
	}
	return int64(memory)
}

// The store keeps its table files open, because opening a file takes several reads. otherOpenFiles
// are for logs and for tables that are being closed. Tables get half of the rest, within these
// bounds. The program gets the other files.
const (
	maxOpenTables  = 1000
	minOpenTables  = 8
	otherOpenFiles = 128
)

// TableFiles returns how many tables the store may keep open if the process may have limit open
// files.
func TableFiles(limit uint64) int { return int(min(sharedFiles(limit)/2, maxOpenTables)) }

// HostFiles returns how many open files the store leaves to the program that uses it.
func HostFiles(limit uint64) uint64 {
	shared := sharedFiles(limit)
	return max(shared/2, shared-min(shared, maxOpenTables))
}

// sharedFiles returns the number of open files for tables and the program together.
func sharedFiles(limit uint64) uint64 {
	return max(limit, otherOpenFiles+2*minOpenTables) - otherOpenFiles
}
