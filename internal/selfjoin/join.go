package selfjoin

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Pair is two fingerprints near each other.
type Pair struct {
	First, Second fp // First < Second
	Distance      int
}

func pairOf(f, g fp) Pair {
	return Pair{min(f, g), max(f, g), f.Distance(g)}
}

// join is one search for all pairs.
type join struct {
	k       int
	found   func(worker int, pairs []Pair) error
	workers []*worker
	room    []fp // for large groups
	least   int  // minLarge, less in tests

	stop  atomic.Bool
	mu    sync.Mutex
	cause error
}

// each calls found with all pairs of distinct fingerprints, from several goroutines,
// each of them with its own number. The pairs are good until found returns.
func each(ctx context.Context, fps []fp, k, workers int, found func(worker int, pairs []Pair) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if k <= 0 || len(fps) < 2 {
		return nil
	}
	j := newJoin(k, workers, found)
	defer context.AfterFunc(ctx, func() { j.fail(context.Cause(ctx)) })()
	j.joinParallel(fps, make([]fp, len(fps)), constraint{free: ^fp(0), budget: k}, false)
	return j.finish()
}

// finish hands on the last pairs, and returns why the join failed, if it did.
func (j *join) finish() error {
	for _, w := range j.workers {
		w.flush()
	}
	return j.failed()
}

func (j *join) failed() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cause
}

// newJoin returns a join of as many workers as there are processors, or as asked.
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

// fail ends the join; the first error counts.
func (j *join) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cause == nil {
		j.cause = err
	}
	j.stop.Store(true)
}

// parallel runs f on every worker.
func (j *join) parallel(f func(w *worker)) {
	var group sync.WaitGroup
	for _, w := range j.workers {
		group.Go(func() { f(w) })
	}
	group.Wait()
}

const (
	// minLarge is the least number of fingerprints that all workers take on together.
	minLarge = 1 << 14
	// minShare: a part is large if it is more than this share of a worker's.
	minShare = 4
)

// joinParallel finds the pairs of a group with all workers. What is in group stays there, in
// another order if it may be changed; room has the same length.
func (j *join) joinParallel(group, room []fp, c constraint, change bool) {
	if j.stop.Load() {
		return
	}
	s := c.split(len(group), j.k, j.differing(group))
	if s.none() {
		j.compare(group, &c)
		return
	}
	swapped, left := false, compareBudget(len(group))
	for step := range c.steps(&s) {
		ends := j.divide(group, room, step.block)
		if left -= comparisons(ends); left < 0 {
			j.compare(group, step.before())
			break
		}
		j.parts(room, ends, step.constraint, func(begin, end int) {
			j.joinParallel(room[begin:end], j.roomFor(group[begin:end], change), step.constraint, true)
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

// comparisons returns how many pairs parts have.
func comparisons(ends []int) float64 {
	sum, begin := 0.0, 0
	for _, end := range ends {
		sum += float64(end-begin) * float64(end-begin) / 2
		begin = end
	}
	return sum
}

// roomFor returns room for a part: where it was, if that may be overwritten.
func (j *join) roomFor(was []fp, change bool) []fp {
	if change {
		return was
	}
	if len(j.room) < len(was) {
		j.room = make([]fp, len(was))
	}
	return j.room[:len(was)]
}

// parts has the workers find the pairs of all parts, and then large those that are worth
// all workers together.
func (j *join) parts(fps []fp, ends []int, c constraint, large func(begin, end int)) {
	const atOnce = 16
	threshold := max(j.least, len(fps)/(minShare*len(j.workers)))
	var next atomic.Int64
	j.parallel(func(w *worker) {
		for {
			first := int(next.Add(atOnce)) - atOnce
			if first >= len(ends) {
				return
			}
			begin := 0
			if first > 0 {
				begin = ends[first-1]
			}
			for _, end := range ends[first:min(first+atOnce, len(ends))] {
				if end-begin <= threshold {
					w.run(fps[begin:end], c)
				}
				begin = end
			}
		}
	})
	begin := 0
	for _, end := range ends {
		if end-begin > threshold {
			large(begin, end)
		}
		begin = end
	}
}

func (j *join) differing(fps []fp) fp {
	ors, ands := make([]fp, len(j.workers)), make([]fp, len(j.workers))
	j.parallel(func(w *worker) {
		or, and := fp(0), ^fp(0)
		for _, f := range shareOf(fps, w.number, len(j.workers)) {
			or |= f
			and &= f
		}
		ors[w.number], ands[w.number] = or, and
	})
	or, and := fp(0), ^fp(0)
	for i := range ors {
		or |= ors[i]
		and &= ands[i]
	}
	return or &^ and
}

// divide sorts fingerprints into room by a block, and returns where the parts end.
func (j *join) divide(fps, room []fp, block fp) (ends []int) {
	k := keyOf(block, maxPartitionBits)
	return partition(j.parallelShares, fps, room, &k)
}

// compare compares all with all.
func (j *join) compare(fps []fp, c *constraint) {
	tiles := (len(fps) + tileLen - 1) / tileLen
	var next atomic.Int64
	j.parallel(func(w *worker) {
		for {
			i := int(next.Add(1)) - 1
			if i >= tiles || j.stop.Load() {
				return
			}
			end := min((i+1)*tileLen, len(fps))
			tile := fps[i*tileLen : end]
			w.compareWithin(tile, c)
			w.compareTiles(tile, fps[end:], c)
		}
	})
}

func (j *join) parallelShares(f func(number, of int)) {
	j.parallel(func(w *worker) { f(w.number, len(j.workers)) })
}
