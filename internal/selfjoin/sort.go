package selfjoin

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/internal/hugepages"
	"github.com/neardup/neardup/internal/radix"
)

// parallel calls f on the given number of goroutines, with the number of the goroutine.
func parallel(workers int, f func(number int)) {
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

// share returns the bounds of one of several equal shares of n elements.
func share(n, number, of int) (begin, end int) {
	at := func(i int) int { return int(uint64(n) * uint64(i) / uint64(of)) }
	return at(number), at(number + 1)
}

// shareOf returns one of several equal shares of fingerprints.
func shareOf(fps []fp, number, of int) []fp {
	begin, end := share(len(fps), number, of)
	return fps[begin:end]
}

// differing returns the bits in which fingerprints differ from one of them. Two of the fingerprints
// differ only in these bits.
func differing(fps []fp, one fp) fp {
	return fp(radix.Differing(radix.Words(fps), uint64(one)))
}

func differingParallel(workers int, fps []fp) (all fp) {
	each := make([]fp, workers)
	parallel(workers, func(i int) { each[i] = differing(shareOf(fps, i, workers), fps[0]) })
	for _, bits := range each {
		all |= bits
	}
	return all
}

// key computes a number from a block of a fingerprint. Equal blocks have equal keys.
type key struct {
	block    fp // mask of the block
	multiply fp
	shift    uint8
	width    uint8 // bits of the number
}

// keyOf returns a key of at most width bits. If the block extends over more than width bits,
// different blocks may have equal keys.
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

// partition sorts fingerprints by their key into room. The fingerprints with key i are
// room[bounds[i]:bounds[i+1]].
func partition(workers int, fps, room []fp, k key) (bounds []int) {
	next, bounds := partitionStarts(workers, fps, k)
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

// partitionStarts returns, for each worker and key, the position in room of the first fingerprint
// of the worker's share. It also returns the bounds of partition.
func partitionStarts(workers int, fps []fp, k key) (next [][]int, bounds []int) {
	next = make([][]int, workers)
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
	return next, bounds
}

// leading returns a key of the highest bits in which fingerprints differ, so the keys are in the
// order of the fingerprints.
func leading(workers int, fps []fp) key {
	high := max(bits.Len64(uint64(differingParallel(workers, fps))), 1)
	width := min(bits.Len(uint(len(fps))), maxPartitionBits)
	return keyOf(1<<high-1<<max(high-width, 0), width)
}

// eachPart calls do with the bounds of every part that is not empty, from all workers.
func eachPart(workers int, bounds []int, do func(worker, begin, end int)) {
	var next atomic.Int64
	parallel(workers, func(worker int) {
		for i := next.Add(1); i < int64(len(bounds)); i = next.Add(1) {
			if begin, end := bounds[i-1], bounds[i]; begin < end {
				do(worker, begin, end)
			}
		}
	})
}

// sortAll sorts fingerprints on all cores. It needs as much memory again.
func sortAll(fps []fp) {
	if len(fps) == 0 {
		return
	}
	workers := runtime.GOMAXPROCS(0)
	room := make([]fp, len(fps))
	hugepages.Prefer(room)
	bounds := partition(workers, fps, room, leading(workers, fps))
	eachPart(workers, bounds, func(_, begin, end int) {
		from, to := radix.Words(room[begin:end]), radix.Words(fps[begin:end])
		copy(to, from)
		if sorted := radix.Sort(to, from); &sorted[0] != &to[0] {
			copy(to, sorted)
		}
	})
}

// sortPlaces sorts fingerprints stably on all cores, and returns their earlier positions.
func sortPlaces(fps []fp) (places []uint32) {
	places = make([]uint32, len(fps))
	if len(fps) == 0 {
		return places
	}
	room := make([]fp, len(fps))
	hugepages.Prefer(places)
	hugepages.Prefer(room)
	workers := runtime.GOMAXPROCS(0)
	k := leading(workers, fps)
	next, bounds := partitionStarts(workers, fps, k)
	parallel(workers, func(i int) {
		next := next[i]
		begin, end := share(len(fps), i, workers)
		for place := begin; place < end; place++ {
			at := &next[k.of(fps[place])]
			room[*at], places[*at] = fps[place], uint32(place)
			*at++
		}
	})
	type records [][2]uint64
	rooms := make([][2]records, workers)
	eachPart(workers, bounds, func(worker, begin, end int) {
		n := end - begin
		copy(fps[begin:end], room[begin:end])
		if differing(fps[begin:end], fps[begin]) == 0 {
			return
		}
		r := &rooms[worker]
		if len(r[0]) < n {
			*r = [2]records{make(records, n+n/4), make(records, n+n/4)}
		}
		for i := range n {
			r[0][i] = [2]uint64{uint64(fps[begin+i]), uint64(places[begin+i])}
		}
		for i, s := range radix.Sort(r[0][:n], r[1][:n]) {
			fps[begin+i], places[begin+i] = fp(s[0]), uint32(s[1])
		}
	})
	return places
}
