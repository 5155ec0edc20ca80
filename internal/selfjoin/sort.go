package selfjoin

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// minParallelSort: fewer are sorted by one goroutine.
	minParallelSort = 1 << 14
	// partLen is about what a part should have for comparisons to sort it.
	partLen = 16
)

// sortAll sorts fingerprints on all cores, with as much memory again.
func sortAll(fps []fp) {
	if len(fps) < minParallelSort {
		slices.Sort(fps)
		return
	}
	workers := runtime.GOMAXPROCS(0)
	run := func(f func(number, of int)) {
		var group sync.WaitGroup
		for i := range workers {
			group.Go(func() { f(i, workers) })
		}
		group.Wait()
	}
	differ := differing(fps)
	if differ == 0 {
		return
	}
	room := make([]fp, len(fps))
	k := leadingKey(differ, maxPartitionBits)
	ends := partition(run, fps, room, &k)
	var next atomic.Int64
	run(func(int, int) {
		var counts [1 << maxPartitionBits]uint32
		for {
			i := int(next.Add(1)) - 1
			if i >= len(ends) {
				return
			}
			begin := 0
			if i > 0 {
				begin = ends[i-1]
			}
			sortPart(room[begin:ends[i]], fps[begin:ends[i]], &counts)
		}
	})
}

// leadingKey takes the highest of the bits in which fingerprints differ: keys are in the
// order of the fingerprints.
func leadingKey(differ fp, width int) key {
	high := bits.Len64(uint64(differ))
	low := max(high-width, 0)
	return keyOf(1<<high-1<<low, width)
}

// sortPart sorts what is in from into to, of the same length.
func sortPart(from, to []fp, counts *[1 << maxPartitionBits]uint32) {
	differ := fp(0)
	if len(from) > partLen {
		differ = differing(from)
	}
	if differ == 0 {
		copy(to, from)
		if len(to) <= partLen {
			slices.Sort(to)
		}
		return
	}
	k := leadingKey(differ, min(maxPartitionBits, bits.Len(uint(len(from)/partLen))+2))
	c := counts[:1<<k.width]
	clear(c)
	for _, f := range from {
		c[k.of(f)]++
	}
	at := uint32(0)
	for i, n := range c {
		c[i], at = at, at+n
	}
	for _, f := range from {
		place := &c[k.of(f)]
		to[*place] = f
		*place++
	}
	for begin := 0; begin < len(to); {
		part := k.of(to[begin])
		end := begin + 1
		for end < len(to) && k.of(to[end]) == part {
			end++
		}
		if end-begin > partLen {
			copy(from[begin:end], to[begin:end])
			sortPart(from[begin:end], to[begin:end], counts)
		} else {
			slices.Sort(to[begin:end])
		}
		begin = end
	}
}
