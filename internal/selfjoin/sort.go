package selfjoin

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/internal/radix"
)

// parallel runs f on some goroutines, each with its number.
func parallel(workers int, f func(number int)) {
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

// share returns the part of n that one of some goroutines has.
func share(n, number, of int) (begin, end int) {
	at := func(i int) int { return int(uint64(n) * uint64(i) / uint64(of)) }
	return at(number), at(number + 1)
}

// shareOf returns the part of fingerprints that one of some goroutines has.
func shareOf(fps []fp, number, of int) []fp {
	begin, end := share(len(fps), number, of)
	return fps[begin:end]
}

// differing returns the bits in which fingerprints differ.
func differing(fps []fp) fp { return fp(radix.SpreadOf(radix.Words(fps)).Differing()) }

func differingParallel(workers int, fps []fp) fp {
	spreads := make([]radix.Spread, workers)
	parallel(workers, func(i int) { spreads[i] = radix.SpreadOf(radix.Words(shareOf(fps, i, workers))) })
	all := radix.NoSpread
	for _, s := range spreads {
		all = all.Join(s)
	}
	return fp(all.Differing())
}

// key takes some bits of a fingerprint: equal blocks have equal keys.
type key struct {
	block    fp // of these bits
	multiply fp
	shift    uint8
	width    uint8 // bits of the key
}

// keyOf returns the key of a block in at most some bits. If they are fewer than the
// block reaches over, different blocks may have equal keys.
func keyOf(block fp, width int) key {
	k := key{block: block, multiply: 0x9e3779b97f4a7c15}
	high, low := bits.Len64(uint64(block)), bits.TrailingZeros64(uint64(block))
	if reach := high - low; reach <= width {
		width = reach
		k.multiply = 1 << (64 - high) // the bits themselves
	}
	k.width, k.shift = uint8(width), uint8(64-width)
	return k
}

func (k *key) of(f fp) uint { return uint(f & k.block * k.multiply >> (k.shift & 63)) }

// partition sorts fingerprints into room by their key. Those of key i are from bounds[i]
// to bounds[i+1].
func partition(workers int, fps, room []fp, k key) (bounds []int) {
	next := make([][]int, workers) // for each worker and key, where the next one goes
	parallel(workers, func(i int) {
		counts := make([]int, 1<<k.width)
		for _, f := range shareOf(fps, i, workers) {
			counts[k.of(f)]++
		}
		next[i] = counts
	})
	bounds = make([]int, 1<<k.width+1)
	at := 0
	for i := range 1 << k.width {
		for _, n := range next {
			n[i], at = at, at+n[i]
		}
		bounds[i+1] = at
	}
	parallel(workers, func(i int) {
		next := next[i]
		for _, f := range shareOf(fps, i, workers) {
			place := &next[k.of(f)]
			room[*place] = f
			*place++
		}
	})
	return bounds
}

// minParallelSort: fewer are sorted by one goroutine.
const minParallelSort = 1 << 14

// sortAll sorts fingerprints on all cores, with as much memory again.
func sortAll(fps []fp) {
	if len(fps) < minParallelSort {
		sortTo(slices.Clone(fps), fps)
		return
	}
	high := bits.Len64(uint64(differing(fps)))
	if high == 0 {
		return
	}
	room := make([]fp, len(fps))
	workers := runtime.GOMAXPROCS(0)
	// The highest of the bits that differ: keys are in the order of the fingerprints.
	leading := keyOf(1<<high-1<<max(high-maxPartitionBits, 0), maxPartitionBits)
	bounds := partition(workers, fps, room, leading)
	var next atomic.Int64
	parallel(workers, func(int) {
		for i := next.Add(1); i < int64(len(bounds)); i = next.Add(1) {
			begin, end := bounds[i-1], bounds[i]
			sortTo(room[begin:end], fps[begin:end])
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
