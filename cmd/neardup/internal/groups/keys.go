package groups

// Keys has the keys of the documents of a list, one after another in memory.
type Keys struct {
	text []byte
	ends []uint64
}

// Add adds the key of document number at. Earlier documents without a key need not be added.
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

// At returns the key of document number i. If any key was added, Add must have been called for i.
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
