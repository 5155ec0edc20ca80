//go:build !amd64 || purego

package fingerprint

func notZeros(masks []uint64, b []byte) { notZerosPortable(masks, b) }
