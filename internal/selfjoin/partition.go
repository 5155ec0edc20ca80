package selfjoin

import "sync"

// shares runs f on several goroutines, each with its number.
type shares func(f func(number, of int))

// partition sorts fingerprints into room by their key, and returns where the parts
// end, one for each key.
func partition(run shares, fps, room []fp, k *key) (ends []int) {
	var counts [][]int
	var mu sync.Mutex
	run(func(number, of int) {
		mine := make([]int, 1<<k.width)
		for _, f := range shareOf(fps, number, of) {
			mine[k.of(f)]++
		}
		mu.Lock()
		defer mu.Unlock()
		if counts == nil {
			counts = make([][]int, of)
		}
		counts[number] = mine
	})
	ends = make([]int, 1<<k.width)
	at := 0
	for i := range ends {
		for _, c := range counts {
			c[i], at = at, at+c[i]
		}
		ends[i] = at
	}
	run(func(number, of int) {
		places := counts[number]
		for _, f := range shareOf(fps, number, of) {
			place := &places[k.of(f)]
			room[*place] = f
			*place++
		}
	})
	return ends
}

// shareOf returns the part of fingerprints that one of some goroutines has.
func shareOf(fps []fp, number, of int) []fp {
	begin, end := share(len(fps), number, of)
	return fps[begin:end]
}

// share returns the part of n that one of some goroutines has.
func share(n, number, of int) (begin, end int) {
	at := func(i int) int { return int(uint64(n) * uint64(i) / uint64(of)) }
	return at(number), at(number + 1)
}
