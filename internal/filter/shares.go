package filter

// defaultBytes is the default limit of the memory for filters.
const defaultBytes = 2 << 30

// Shares divides the memory for filters, index.Options.FilterBytes: one half for packed entries,
// one quarter for live entries, and one quarter for keys.
func Shares(filterBytes int64) (packed, live, keys int64) {
	if filterBytes == 0 {
		filterBytes = defaultBytes
	}
	filterBytes = max(filterBytes, 0)
	return filterBytes / 2, filterBytes / 4, filterBytes / 4
}

// NewPacked returns an empty filter for one of the packed tables of a plan, or nil if New does.
func NewPacked(prefix, tables int, fingerprints, filterBytes int64) *Prefix {
	packed, _, _ := Shares(filterBytes)
	return New(prefix, fingerprints, packed/int64(tables))
}

// KeyPrefix is the length of the prefix in the filter of keys: the whole hash.
const KeyPrefix = 64

// NewKeys returns an empty filter for the keys, or nil if New does. It leaves a sixteenth of its
// share for keys that are added later.
func NewKeys(keys, filterBytes int64) *Prefix {
	_, _, share := Shares(filterBytes)
	return New(KeyPrefix, keys, share-share/16)
}
