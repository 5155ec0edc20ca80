package store

import (
	"runtime"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Pebble reads the statistics of the tables that it finds in the background, and where a
// table is damaged or can not be read it does so again, at once and for ever: a processor is
// busy with that alone, and the log of what went wrong with thousands of lines a second.
// It can only be held up where it tells the error, which it does without its lock.

// maxStatisticsPause is the longest pause between two attempts.
const maxStatisticsPause = time.Minute

// statisticsRetry lets one attempt follow the other more and more slowly. Pebble makes one
// at a time.
type statisticsRetry struct {
	pause time.Duration
	last  string // what was logged
}

// failed logs an error, unless it is the last one again, and waits.
func (r *statisticsRetry) failed(err error, logger pebble.Logger, ending <-chan struct{}) {
	if what := err.Error(); what != r.last {
		logger.Errorf("the statistics of a table, in the background: %v", err)
		r.last = what
	}
	select {
	case <-time.After(r.pause):
	case <-ending: // Pebble's Close waits for this, and is perhaps not there yet
		time.Sleep(firstPause)
	}
	r.pause = min(2*r.pause, maxStatisticsPause)
}

// calledBy reports whether a function or method, as ".name", is among the callers.
func calledBy(name string) bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, name) {
			return true
		}
		if !more {
			return false
		}
	}
}
