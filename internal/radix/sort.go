package radix

import "math/bits"

const (
	// insertionLen is the largest number of records for which insertion sort is fastest.
	insertionLen = 24

	// cacheBytes is the largest size of records that are not distributed first. Distributed parts
	// fit in a core's own cache.
	cacheBytes = 1 << 20

	maxDigitBits = 11
)

// Sort sorts a by the first words, stably. b must have the same length. Sort returns a or b,
// whichever has the result. The content of the other slice is undefined.
func Sort[R Record](a, b []R) []R {
	if int64(len(a))*Bytes[R]() <= cacheBytes {
		sortDigits(a, b)
		return a
	}
	SortParts([][]R{a}, b)
	return b
}

// SortParts sorts the records of all parts by their first words into b, stably: records with
// equal first words keep the order of the parts, and their order in a part. No part may be empty.
// b must have the length of all parts together. The content of the parts is undefined afterwards.
// SortParts allocates no memory for records.
func SortParts[R Record](parts [][]R, b []R) {
	ends, sorted := distribute(parts, b)
	if sorted {
		return
	}
	var room []R
	for _, p := range parts {
		if len(p) > len(room) {
			room = p
		}
	}
	from := 0
	for _, to := range ends {
		if part := b[from:to]; len(part) > 0 {
			if len(part) > len(room) {
				SortParts(moved(part, parts), part)
			} else if s := Sort(part, room[:len(part)]); &s[0] != &part[0] {
				copy(part, s)
			}
		}
		from = to
	}
}

// moved copies records to parts, which have room for all of them, and returns the used parts.
func moved[R Record](records []R, parts [][]R) (used [][]R) {
	for _, p := range parts {
		n := copy(p, records)
		used, records = append(used, p[:n]), records[n:]
		if len(records) == 0 {
			break
		}
	}
	return used
}

// distribute copies the records of all parts to b, in the order of eight bits from the highest bit
// that differs. It returns the end of the records of each value of these bits. sorted is true if no
// lower bits exist, so that b is sorted.
func distribute[R Record](parts [][]R, b []R) (ends [256]int, sorted bool) {
	differing := uint64(0)
	for _, a := range parts {
		differing |= Differing(a, parts[0][0][0])
	}
	shift := max(bits.Len64(differing)-8, 0)
	for _, a := range parts {
		for i := range a {
			ends[byte(a[i][0]>>shift)]++
		}
	}
	at := 0
	for d, n := range ends {
		ends[d] = at
		at += n
	}
	for _, a := range parts {
		for i := range a {
			d := byte(a[i][0] >> shift)
			b[ends[d]] = a[i]
			ends[d]++
		}
	}
	return ends, shift == 0
}

// sortDigits sorts a in place, stably, with b as room. Two passes sort by about log2(len) of the
// highest bits that differ, by the lowest digit first. Then few records are out of order, and mend
// sorts them.
func sortDigits[R Record](a, b []R) {
	if len(a) <= insertionLen {
		insertionSort(a)
		return
	}
	differing := Differing(a, a[0][0])
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

// twoPasses sorts a by its bits from low to below low+2*width, stably.
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

// mend sorts a, which is sorted by its bits from low up.
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
