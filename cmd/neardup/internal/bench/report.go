package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Figure is something measured.
type Figure struct {
	Section, Name string
	Value         float64
	Unit          string
	// Ratio is to the reference in the same rounds. 0: there is none.
	Ratio float64
}

// field returns the value of the first line "name: value" of a file of /proc; "" if there is none.
func field(file []byte, name string) string {
	for line := range strings.Lines(string(file)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Title returns what stands above the figures of a run: of which machine they are, how
// to get them again, and the names of the columns of Figure.String.
func Title(o Options) string {
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	of, cache := "with a second fingerprint", "that of an index"
	if o.Bare {
		of = "without a second fingerprint"
	}
	if o.CacheBytes > 0 {
		cache = fmt.Sprintf("%d MiB", o.CacheBytes>>20)
	}
	return fmt.Sprintf("%d cores of %s, %s/%s, %s\n%d documents %s, k = %d, seed %d, cache: %s\n\n%s", runtime.GOMAXPROCS(0), field(cpus, "model name"),
		runtime.GOOS, runtime.GOARCH, runtime.Version(), o.Documents, of, o.MaxDistance, o.Seed, cache, tableLine("figure", "value", "unit", "ratio"))
}

// String returns the figure as a line of the table.
func (f Figure) String() string {
	ratio := ""
	if f.Ratio != 0 {
		ratio = significant(f.Ratio)
	}
	return tableLine(f.Section+": "+f.Name, significant(f.Value), f.Unit, ratio)
}

func tableLine(name, value, unit, ratio string) string {
	return strings.TrimRight(fmt.Sprintf("%-58s %12s %-12s %8s", name, value, unit, ratio), " ")
}

// significant writes three digits that count, and all of those before the point.
func significant(v float64) string {
	decimals := 0
	for limit := 100.0; v != 0 && decimals < 6 && max(v, -v) < limit; limit /= 10 {
		decimals++
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
