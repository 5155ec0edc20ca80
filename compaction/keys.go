package compaction

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/store"
)

// addedKey is the hash of a key that is added, its digest, and the document's ID. Keys are
// compared by the 128 bits of the digest, so that long ones take no more memory or disk
// than short ones.
type addedKey = [4]uint64

// digest is half of a SHA-256, in two words.
type digest [2]uint64

func digestOf(key string) digest {
	sum := sha256.Sum256([]byte(key))
	return digest{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}

func (b *builder) addKey(id uint64, key string) error {
	d := digestOf(key)
	return b.keys.Add(addedKey{store.KeyHash(key), d[0], d[1], id})
}

// writeKeys writes the keys that are added, puts them into their filter, and finds the documents
// that are replaced by a later one with the same key.
func (b *builder) writeKeys() error {
	if n := int64(b.before.Documents-b.before.Bare) + b.keys.Len(); n > 0 {
		b.keyFilter.Prefix = filter.NewKeys(n, b.opts.FilterBytes)
	}
	var keys []addedKey // of one hash
	for run, err := range b.keys.Sorted(b.ctx) {
		if err != nil {
			return err
		}
		for _, k := range run {
			if len(keys) > 0 && k[0] != keys[0][0] {
				if err := b.writeKey(keys); err != nil {
					return err
				}
				keys = keys[:0]
			}
			// one key, many times
			if last := len(keys) - 1; last >= 0 && keys[last][1] == k[1] && keys[last][2] == k[2] {
				b.replaced.Add(keys[last][3])
				keys = keys[:last]
			}
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return b.writeKey(keys)
}

// writeKey writes the entries of one hash, nearly always of one key: entries of the newest document
// of each key, and deletes of the entries that they replace.
func (b *builder) writeKey(keys []addedKey) error {
	hash := keys[0][0]
	b.keyFilter.add(hash)
	if len(keys) == 1 && b.before.Documents == b.before.Bare { // no stored document has a key
		return b.r.AddKey(hash, keys[0][3])
	}
	newest := make(map[digest]uint64) // document of each key
	for _, k := range keys {
		d := digest{k[1], k[2]}
		if earlier, again := newest[d]; again {
			b.replaced.Add(earlier)
		}
		newest[d] = k[3]
	}
	replaced, err := b.replacedBy(hash, newest)
	if err != nil {
		return err
	}
	for _, id := range replaced { // all less than the added IDs
		if err := b.r.DeleteKey(hash, id); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Values(newest)) {
		if err := b.r.AddKey(hash, id); err != nil {
			return err
		}
	}
	return nil
}

// replacedBy returns the documents of the index that have one of the newest keys of a hash, in
// ascending order, and notes that they are replaced.
func (b *builder) replacedBy(hash uint64, newest map[digest]uint64) (replaced []uint64, err error) {
	if b.before.Documents == b.before.Bare {
		return nil, nil
	}
	ids, err := b.view.AppendKey(nil, hash)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		record, found, err := b.view.Record(id)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("%w: document %d of key hash %016x has no record",
				index.ErrCorrupt, id, hash)
		}
		if _, again := newest[digestOf(record.Key)]; again {
			b.replaced.Add(id)
			replaced = append(replaced, id)
		}
	}
	return replaced, nil
}

// saveKeyFilter adds the keys that the index has and writes the filter.
func (b *builder) saveKeyFilter() error {
	n := 0
	for hash, err := range b.view.KeyHashes() {
		if n++; n%batchLen == 0 && err == nil {
			err = b.ctx.Err()
		}
		if err != nil {
			return err
		}
		b.keyFilter.add(hash)
	}
	if err := b.ctx.Err(); err != nil {
		return err
	}
	return b.keyFilter.save(b.r, store.KeyFilterTable)
}
