package eval

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
)

// MaxDistance is the largest k that is measured.
const MaxDistance = 16

// rows is how many fingerprints a worker compares with all before them at a time.
const rows = 64

// nearPairs calls found for each pair of fingerprints within MaxDistance bits, the
// later one first, from several workers at once. It compares all pairs: a distance of
// 16 bits of 64 leaves tables of prefixes nothing to exclude, and a comparison takes
// half a nanosecond.
func nearPairs(fps []uint64, found func(worker, a, b int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				start := int(next.Add(rows)) - rows
				if start >= len(fps) {
					return
				}
				for a := start; a < min(start+rows, len(fps)); a++ {
					compare(fps, a, func(b int) { found(worker, a, b) })
				}
			}
		})
	}
	wg.Wait()
}

func compare(fps []uint64, a int, found func(b int)) {
	fp := fps[a]
	for b, other := range fps[:a] {
		if bits.OnesCount64(fp^other) <= MaxDistance {
			found(b)
		}
	}
}
