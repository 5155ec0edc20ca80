//go:build !linux

package scan

func preferHugePages([]uint64) {}
