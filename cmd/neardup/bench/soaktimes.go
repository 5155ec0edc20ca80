package bench

import (
	"math/bits"
	"sync"
	"time"
)

// callTimes count how long calls took, in 32 steps for each power of two of
// nanoseconds: what is read from them is right to 3 %, and they never grow.
type callTimes struct {
	mu     sync.Mutex
	counts [64 * timeSteps]int64
	n      int64
	items  int64 // documents, keys or fingerprints that the calls were for
	most   time.Duration
}

const timeSteps = 32

func (l *callTimes) add(took time.Duration, items int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[timeStep(took)]++
	l.n++
	l.items += int64(items)
	l.most = max(l.most, took)
}

func timeStep(took time.Duration) int {
	v := uint64(max(took, 0))
	if v < timeSteps {
		return int(v)
	}
	power := bits.Len64(v) - 6 // so that v >> power is in 32..63
	return (power+1)*timeSteps + int(v>>power) - timeSteps
}

// stepEnd is the longest time of a step.
func stepEnd(step int) time.Duration {
	if step < timeSteps {
		return time.Duration(step)
	}
	power := step/timeSteps - 1
	return time.Duration((uint64(step%timeSteps+timeSteps)+1)<<power - 1)
}

// quantile returns the time that the given part of the calls did not exceed.
func (l *callTimes) quantile(part float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	rank := int64(part * float64(l.n))
	for step, n := range l.counts {
		if rank -= n; rank < 0 {
			return min(stepEnd(step), l.most)
		}
	}
	return l.most
}
