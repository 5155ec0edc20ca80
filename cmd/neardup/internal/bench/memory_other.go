//go:build !linux

package bench

// Memory is not measured here.
func held() int64 { return 0 }

func peakDuring(do func()) int64 {
	do()
	return 0
}
