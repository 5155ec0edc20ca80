//go:build !linux

package bench

import "time"

// processorTime returns false: it is not known here.
func processorTime() (time.Duration, bool) { return 0, false }
