//go:build !linux

package bench

// Memory is not measured here.
func peakDuring(do func()) int64 {
	do()
	return 0
}
