//go:build !linux

package hugepages

// Prefer does nothing on this system.
func Prefer[T any]([]T) {}
