//go:build !unix

package store

import "math"

func openFilesLimit() uint64 { return math.MaxInt32 }
