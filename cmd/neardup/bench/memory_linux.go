package bench

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// memory returns how much memory the process has now, and the most it ever had. Of
// what /proc tells, the peak is of this program alone; getrusage gives a child that
// of its parent as well.
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
