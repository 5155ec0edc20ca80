package filter

// defaultBytes is what the memory for filters is bounded by where nothing else is asked for.
const defaultBytes = 2 << 30

// Shares divides the memory for filters, index.Options.FilterBytes: a half is for what is
// packed, a quarter for what was written since, and a quarter for keys.
func Shares(filterBytes int64) (packed, live, keys int64) {
	if filterBytes == 0 {
		filterBytes = defaultBytes
	}
	filterBytes = max(filterBytes, 0)
	return filterBytes / 2, filterBytes / 4, filterBytes / 4
}

// NewPacked returns the filter to save of one of the packed tables of a plan, nil if none
// is of use.
func NewPacked(prefix, tables int, fingerprints, filterBytes int64) *Prefix {
	packed, _, _ := Shares(filterBytes)
	return New(prefix, fingerprints, packed/int64(tables))
}

// KeyPrefix is the prefix of the filter of keys: all of a hash.
const KeyPrefix = 64

// NewKeys returns the filter to save of the keys, nil if none is of use. A sixteenth of its
// share is left for the keys that come later.
func NewKeys(keys, filterBytes int64) *Prefix {
	_, _, share := Shares(filterBytes)
	return New(KeyPrefix, keys, share-share/16)
}
