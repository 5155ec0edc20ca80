package groups

// Keys holds the keys of all documents of a list, one after another in memory, or none.
type Keys struct {
	text []byte
	ends []uint64
}

// Add adds the key of a document. Earlier documents without a key need not be added.
func (k *Keys) Add(at int, key string) {
	if k.ends == nil && key == "" {
		return
	}
	for len(k.ends) < at {
		k.ends = append(k.ends, 0)
	}
	k.text = append(k.text, key...)
	k.ends = append(k.ends, uint64(len(k.text)))
}

// At returns the key of a document.
func (k *Keys) At(i int) string {
	if k.ends == nil {
		return ""
	}
	begin := uint64(0)
	if i > 0 {
		begin = k.ends[i-1]
	}
	return string(k.text[begin:k.ends[i]])
}
