package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns what all cores together have worked for this process; false if
// that is not known.
func processorTime() (time.Duration, bool) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err == nil
}
