//go:build !linux

package index

func preferHugePages([]line) {}
