package radix

import "math/bits"

const (
	// insertionLen is the largest number of records for which insertion sort is fastest.
	insertionLen = 24

	// cacheBytes: records that take more are first distributed, so that the
	// passes over each part stay in a core's own cache.
	cacheBytes = 1 << 20

	maxDigitBits = 11
)

// Sort sorts a by the first words, stably. b must have the same length. Sort returns the
// one of them that holds the result. The content of the other one is undefined.
func Sort[R Record](a, b []R) []R {
	if int64(len(a))*Bytes[R]() <= cacheBytes {
		sortDigits(a, b)
		return a
	}
	differing := SpreadOf(a).Differing()
	if differing == 0 {
		return a
	}
	shift := max(bits.Len64(differing)-8, 0)
	var counts [256]int
	for i := range a {
		counts[byte(a[i][0]>>shift)]++
	}
	var ends [256]int
	at := 0
	for d, n := range counts {
		ends[d] = at
		at += n
	}
	for i := range a {
		d := byte(a[i][0] >> shift)
		b[ends[d]] = a[i]
		ends[d]++
	}
	if shift == 0 {
		return b
	}
	for d, n := range counts {
		from, to := ends[d]-n, ends[d]
		part := b[from:to]
		if sorted := Sort(part, a[from:to]); n > 0 && &sorted[0] != &part[0] {
			copy(part, sorted)
		}
	}
	return b
}

// sortDigits sorts a in place, stably, with b as room: by radix on about
// log2(len) of the highest bits that differ, lowest digit first, in two passes;
// few records are then out of order, and mend puts them right.
func sortDigits[R Record](a, b []R) {
	if len(a) <= insertionLen {
		insertionSort(a)
		return
	}
	differing := SpreadOf(a).Differing()
	if differing == 0 {
		return
	}
	high := bits.Len64(differing)
	width := min((bits.Len(uint(len(a)))+2)/2, maxDigitBits, (high+1)/2)
	low := max(high-2*width, 0)
	twoPasses(a, b, low, width)
	if low > 0 {
		mend(a, b, low)
	}
}

// twoPasses orders a by its bits low to low+2*width, stably.
func twoPasses[R Record](a, b []R, low, width int) {
	const size = 1 << maxDigitBits
	b = b[:len(a)]
	mask := uint64(1)<<width - 1
	var first, second [size]uint32
	for i := range a {
		x := a[i][0] >> (low & 63)
		first[x&mask%size]++
		second[x>>(width&63)&mask%size]++
	}
	var at1, at2 uint32
	for d := range min(1<<width, size) {
		first[d], at1 = at1, at1+first[d]
		second[d], at2 = at2, at2+second[d]
	}
	for i := range a {
		at := &first[a[i][0]>>(low&63)&mask%size]
		b[*at] = a[i]
		*at++
	}
	low += width
	for i := range b {
		at := &second[b[i][0]>>(low&63)&mask%size]
		a[*at] = b[i]
		*at++
	}
}

// mend sorts a, whose bits from low up are in order.
func mend[R Record](a, b []R, low int) {
	for i := 1; i < len(a); i++ {
		if a[i-1][0] <= a[i][0] {
			continue
		}
		group := a[i][0] >> low
		from, to := i-1, i+1
		for from > 0 && a[from-1][0]>>low == group {
			from--
		}
		for to < len(a) && a[to][0]>>low == group {
			to++
		}
		sortDigits(a[from:to], b[from:to])
		i = to
	}
}

func insertionSort[R Record](a []R) {
	for i := 1; i < len(a); i++ {
		r := a[i]
		j := i
		for ; j > 0 && a[j-1][0] > r[0]; j-- {
			a[j] = a[j-1]
		}
		a[j] = r
	}
}
