package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
)

// comparer orders keys by their bytes. The entries of one key hash, and the live entries of one stored
// fingerprint, have a common prefix and end in an ID, so that Bloom filters answer for the prefix.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "neardup.1"
	c.Split = splitKey
	c.ComparePointSuffixes = bytes.Compare
	c.CompareRangeSuffixes = bytes.Compare
	c.ImmediateSuccessor = func(dst, prefix []byte) []byte {
		if n := prefixLen(prefix); n == 0 || len(prefix) < n {
			return append(append(dst, prefix...), 0)
		}
		at := len(dst)
		dst = append(dst, prefix...)
		for i := len(dst) - 1; i >= at; i-- {
			if dst[i]++; dst[i] != 0 {
				break
			}
		}
		return dst
	}
	return c.EnsureDefaults()
}()

// prefixLen returns the length of the prefix of keys that end in an ID; 0 for other keys.
func prefixLen(key []byte) int {
	switch {
	case len(key) == 0:
		return 0
	case key[0] == keyKeyspace:
		return keyKeyLen - 8
	case (key[0] == evenKeyspace || key[0] == oddKeyspace) && len(key) >= 3 && key[1] == 0 && key[2] == 0:
		return tableKeyLen
	}
	return 0
}

func splitKey(key []byte) int {
	if n := prefixLen(key); n > 0 && len(key) > n {
		return n
	}
	return len(key)
}
