package selfjoin

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// join is one search for all pairs.
type join struct {
	k       int
	found   func(worker int, pairs []Pair) error
	workers []*worker
	room    []fp // second copy of a large group
	least   int  // minLarge, or less in tests

	stop  atomic.Bool
	mu    sync.Mutex
	cause error
}

// newJoin returns a join with the given number of workers; 0: runtime.GOMAXPROCS(0). All workers
// call found with pairs, which are valid until found returns.
func newJoin(k, workers int, found func(worker int, pairs []Pair) error) *join {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	j := &join{k: k, found: found, least: minLarge}
	for i := range workers {
		j.workers = append(j.workers, &worker{join: j, number: i})
	}
	return j
}

// fail ends the join with err, unless it has failed before.
func (j *join) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cause == nil {
		j.cause = err
	}
	j.stop.Store(true)
}

func (j *join) failed() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cause
}

// finish calls found with the last pairs, and returns the error of the join.
func (j *join) finish() error {
	for _, w := range j.workers {
		w.flush()
	}
	return j.failed()
}

const (
	// minLarge is the largest number of fingerprints of a part that is never large.
	minLarge = 1 << 14
	// minShare: a larger part is large if it exceeds 1/minShare of a worker's share.
	minShare = 4
)

// joinParallel finds the pairs of a group with all workers. It may change the order of the group if
// change is true. room must have the same length.
func (j *join) joinParallel(group, room []fp, c constraint, change bool) {
	if j.stop.Load() {
		return
	}
	s := c.split(len(group), j.k, differingParallel(len(j.workers), group))
	if s.none() {
		j.compare(group, &c)
		return
	}
	swapped, left := false, compareBudget(len(group))
	for step := range c.steps(&s) {
		bounds := j.divide(group, room, step.block)
		if left -= comparisons(bounds); left < 0 {
			j.compare(group, step.before())
			break
		}
		j.parts(room, bounds, step.constraint, func(begin, end int) {
			j.joinParallel(room[begin:end], j.roomFor(group[begin:end], change),
				step.constraint, true)
		})
		if change {
			group, room = room, group
			swapped = !swapped
		}
		if j.stop.Load() {
			return
		}
	}
	if swapped {
		copy(room, group)
	}
}

// divide sorts fingerprints by a block into room, and returns the bounds of the parts.
func (j *join) divide(fps, room []fp, block fp) (bounds []int) {
	return partition(len(j.workers), fps, room, keyOf(block, maxPartitionBits))
}

// comparisons returns the number of pairs within parts.
func comparisons(bounds []int) float64 {
	sum := 0.0
	for i, end := range bounds[1:] {
		n := float64(end - bounds[i])
		sum += n * n / 2
	}
	return sum
}

// roomFor returns room for a part: the part's previous memory, if it may be overwritten.
func (j *join) roomFor(was []fp, change bool) []fp {
	if change {
		return was
	}
	if len(j.room) < len(was) {
		j.room = make([]fp, len(was))
	}
	return j.room[:len(was)]
}

// parts finds the pairs of all parts. Each worker handles some parts. For each large part, which
// all workers handle together, large is called.
func (j *join) parts(fps []fp, bounds []int, c constraint, large func(begin, end int)) {
	threshold := max(j.least, len(fps)/(minShare*len(j.workers)))
	eachPart(len(j.workers), bounds, func(worker, begin, end int) {
		if end-begin <= threshold {
			j.workers[worker].run(fps[begin:end], c)
		}
	})
	for i, end := range bounds[1:] {
		if begin := bounds[i]; end-begin > threshold {
			large(begin, end)
		}
	}
}

// compare compares all pairs with all workers.
func (j *join) compare(fps []fp, c *constraint) {
	var next atomic.Int64
	parallel(len(j.workers), func(worker int) {
		for !j.stop.Load() {
			begin := int(next.Add(1)-1) * tileLen
			if begin >= len(fps) {
				return
			}
			j.workers[worker].compareTile(fps[begin:], c)
		}
	})
}
