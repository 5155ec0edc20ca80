package bench

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// memory returns how much memory the process has now, and the most it had since the peak
// was last forgotten.
func memory() (now, peak int64) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		kib, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, _ := strconv.ParseInt(kib, 10, 64)
		switch name {
		case "VmRSS":
			now = n << 10
		case "VmHWM":
			peak = n << 10
		}
	}
	return now, peak
}

// held returns the memory of the process once garbage is given back.
func held() int64 {
	runtime.GC()
	debug.FreeOSMemory()
	now, _ := memory()
	return now
}

// peakDuring returns how much more memory the process had at most, while do ran, than
// before; 0 where the system does not say.
func peakDuring(do func()) int64 {
	before := held()
	forgotten := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil
	do()
	_, peak := memory()
	if !forgotten {
		return 0
	}
	return max(0, peak-before)
}
