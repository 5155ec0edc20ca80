package store

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// Memory for caches where Options do not say how much: what is packed is kept whole, in half of
// the machine's memory at most, and Pebble gets little beside it, as its blocks would be the same bytes
// again. Where nothing is packed, Pebble has it all.
const (
	defaultPebbleBytes = 512 << 20
	besidePacked       = 16 << 20 // of Pebble's, and a 32nd of the packed blocks, for records and keys
)

// pebbleCacheBytes returns what Pebble's cache may have at most.
func pebbleCacheBytes(total int64) int64 {
	if total > 0 {
		return total
	}
	return defaultPebbleBytes
}

// writeBytes returns what Pebble's cache has on top for the memtables that it takes off: those of an index
// that nobody writes to take nothing, and where the caller gave a bound they are within it.
func writeBytes(total int64) int64 {
	if total > 0 {
		return 0
	}
	return 2 * int64(memTableBytes(defaultPebbleBytes))
}

// packedCacheBytes divides the memory for caches, 0 for the default: what packed blocks take with all
// that belongs to them, as far as a quarter is left to Pebble, and the rest.
func packedCacheBytes(tables []PackedTableInfo, total int64) (packed, pebble int64) {
	if packed = wantedCacheBytes(tables); total > 0 {
		packed = min(packed, total/4*3)
		return packed, total - packed
	}
	if packed == 0 {
		return 0, defaultPebbleBytes
	}
	packed = min(packed, machineMemory()/2)
	return packed, min(besidePacked+packed/32, defaultPebbleBytes)
}

// wantedCacheBytes returns what a cache takes that holds all packed blocks.
func wantedCacheBytes(tables []PackedTableInfo) int64 {
	var bytes, blocks uint64
	for _, t := range tables {
		bytes, blocks = bytes+t.Bytes, blocks+t.Blocks
	}
	if blocks == 0 {
		return 0
	}
	return cacheFor(bytes, blocks)
}

// CacheShort says what is wrong where the cache is too small for the packed blocks, and "" where it
// holds them all.
func (t *Tables) CacheShort() string {
	wanted := wantedCacheBytes(t.packing.tables)
	if t.cache == nil || t.cache.limit >= wanted {
		return ""
	}
	const mib = 1 << 20
	return fmt.Sprintf("the cache holds %d of %d MiB of packed blocks, so queries read files: a cache of %d MiB would hold them all",
		t.cache.limit/mib, wanted/mib, (wanted/3*4+mib-1)/mib)
}

// machineMemory returns the memory of the machine, or what a cgroup allows of it; without bound where
// the system does not tell.
func machineMemory() int64 {
	memory := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err == nil && kib > 0 {
			memory = kib << 10
		}
	}
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(name); err == nil {
			var bytes int64
			if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &bytes); err == nil && bytes > 0 {
				memory = min(memory, bytes)
			}
		}
	}
	return memory
}
