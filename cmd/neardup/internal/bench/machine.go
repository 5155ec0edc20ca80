package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine is what the figures are of.
type Machine struct {
	System    string `json:"system"`
	Processor string `json:"processor,omitempty"`
	Cores     int    `json:"cores"` // that Go uses
	Go        string `json:"go"`
}

func thisMachine() Machine {
	return Machine{runtime.GOOS + "/" + runtime.GOARCH, processor(), runtime.GOMAXPROCS(0), runtime.Version()}
}

// processor returns the name that Linux gives, elsewhere none.
func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %s, %s", m.Cores, m.Processor, m.System, m.Go)
}
