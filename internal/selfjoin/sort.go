package selfjoin

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/internal/radix"
)

// minParallelSort: fewer are sorted by one goroutine.
const minParallelSort = 1 << 14

// sortAll sorts fingerprints on all cores, with as much memory again.
func sortAll(fps []fp) {
	if len(fps) < minParallelSort {
		sortTo(slices.Clone(fps), fps)
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
		for {
			i := int(next.Add(1)) - 1
			if i >= len(ends) {
				return
			}
			begin := 0
			if i > 0 {
				begin = ends[i-1]
			}
			sortTo(room[begin:ends[i]], fps[begin:ends[i]])
		}
	})
}

// sortTo sorts what is in from into to, of the same length.
func sortTo(from, to []fp) {
	copy(to, from)
	if sorted := radix.Sort(radix.Words(to), radix.Words(from)); len(to) > 0 && &sorted[0][0] != (*uint64)(&to[0]) {
		copy(to, from)
	}
}

// leadingKey takes the highest of the bits in which fingerprints differ: keys are in the
// order of the fingerprints.
func leadingKey(differ fp, width int) key {
	high := bits.Len64(uint64(differ))
	low := max(high-width, 0)
	return keyOf(1<<high-1<<low, width)
}
