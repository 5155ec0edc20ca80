//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris)

package store

func lockHolder(string) int { return 0 }

func processName(int) string { return "" }
