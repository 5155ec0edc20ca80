// Package process returns the limits of the process: memory and open files.
package process

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Memory returns the memory of the machine, or less if the cgroups of the process limit it. It
// returns math.MaxInt64 if the system does not report either.
func Memory() int64 {
	memory := uint64(math.MaxInt64)
	for _, limit := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := limit(); err == nil && n > 0 {
			memory = min(memory, n)
		}
	}
	return int64(memory)
}

// The store keeps its tables open, because it takes several reads to open one. The host program
// gets half of the open files, less otherOpenFiles for logs and for tables that are being closed.
const (
	mostOpenTables  = 1000
	leastOpenTables = 8
	otherOpenFiles  = 128
)

// TableFiles returns how many tables the store may keep open if the process may have limit open
// files.
func TableFiles(limit uint64) int { return int(min(sharedFiles(limit)/2, mostOpenTables)) }

// HostFiles returns how many open files the store leaves to the host program.
func HostFiles(limit uint64) uint64 {
	shared := sharedFiles(limit)
	return max(shared/2, shared-min(shared, mostOpenTables))
}

// sharedFiles returns the number of open files for tables and the host program together.
func sharedFiles(limit uint64) uint64 {
	return max(limit, otherOpenFiles+2*leastOpenTables) - otherOpenFiles
}
