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

	stop  atomic.Bool
	mu    sync.Mutex
	cause error
}

// newJoin returns a join with the given number of workers. All workers call found with pairs,
// which are valid until found returns.
func newJoin(k, workers int, found func(worker int, pairs []Pair) error) *join {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	j := &join{k: k, found: found}
	for i := range workers {
		j.workers = append(j.workers, &worker{join: j, number: i})
	}
	return j
}

// fail ends the join; the first error counts.
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

// finish passes on the last pairs, and returns the error of the join.
func (j *join) finish() error {
	for _, w := range j.workers {
		w.flush()
	}
	return j.failed()
}

// run finds the pairs of distinct fingerprints. All workers divide them together, and each worker
// then takes one part after another.
func (j *join) run(fps []fp) {
	c := constraint{free: ^fp(0), budget: j.k}
	s := c.split(len(fps), j.k, differingParallel(len(j.workers), fps))
	if s.none() {
		j.compare(fps, &c)
		return
	}
	room, left := make([]fp, len(fps)), compareBudget(len(fps))
	for step := range c.steps(&s) {
		bounds := partition(len(j.workers), fps, room, keyOf(step.block, maxPartitionBits))
		if left -= comparisons(bounds); left < 0 {
			j.compare(fps, step.before())
			return
		}
		eachPart(len(j.workers), bounds, func(worker, begin, end int) {
			j.workers[worker].run(room[begin:end], step.constraint)
		})
		if j.stop.Load() {
			return
		}
	}
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

// compare compares all pairs.
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
