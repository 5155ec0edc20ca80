package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
)

// comparer orders keys by their bytes. Its name is part of the storage format.
//
// Entries of the key keyspace, and live entries of table 0, end in a document ID. Split cuts the ID off,
// so that the Bloom filter of a file answers for a key hash, or for a stored fingerprint.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "neardup.1"
	c.Split = splitKey
	c.ComparePointSuffixes = bytes.Compare
	c.CompareRangeSuffixes = bytes.Compare
	c.ImmediateSuccessor = appendSuccessor
	return c.EnsureDefaults()
}()

// splitKey returns the length of a key without the ID at its end.
func splitKey(key []byte) int {
	if n := prefixLen(key); n > 0 {
		return min(n, len(key))
	}
	return len(key)
}

// prefixLen returns the length of the prefix of keys that end in an ID. It returns 0 for other keys.
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

// appendSuccessor appends the smallest prefix that is greater than a given prefix.
func appendSuccessor(dst, prefix []byte) []byte {
	if n := prefixLen(prefix); n == 0 || len(prefix) < n {
		return append(append(dst, prefix...), 0)
	}
	// All keys that begin with a whole prefix have that prefix. The next key does not begin with it. A whole
	// prefix begins with the name of a keyspace, so not all of its bytes are 0xff.
	dst = append(dst, bytes.TrimRight(prefix, "\xff")...)
	dst[len(dst)-1]++
	return dst
}
