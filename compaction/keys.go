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

// addedKey is the hash of the key of an added document, the two words of its checksum, and the ID
// of the document. Keys are compared by checksum, so long keys take no more memory or disk than
// short keys.
type addedKey = [4]uint64

// checksum is the first half of the SHA-256 of a key.
type checksum [2]uint64

func checksumOf(key string) checksum {
	sum := sha256.Sum256([]byte(key))
	return checksum{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}

func (b *builder) addKey(id uint64, key string) error {
	sum := checksumOf(key)
	return b.keys.Add(addedKey{store.KeyHash(key), sum[0], sum[1], id})
}

// writeKeys writes the added keys, adds them to the key filter, and finds the documents that a
// later document with the same key replaces.
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
			// the same key again
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

// writeKey writes the entries of the newest document of each key with one hash, and deletes the
// entries that they replace. Nearly always, there is one such key.
func (b *builder) writeKey(keys []addedKey) error {
	hash := keys[0][0]
	b.keyFilter.add(hash)
	if len(keys) == 1 && b.before.Documents == b.before.Bare { // no stored document has a key
		return b.r.AddKey(hash, keys[0][3])
	}
	newest := make(map[checksum]uint64) // document of each key
	for _, k := range keys {
		sum := checksum{k[1], k[2]}
		if earlier, again := newest[sum]; again {
			b.replaced.Add(earlier)
		}
		newest[sum] = k[3]
	}
	replaced, err := b.replacedBy(hash, newest)
	if err != nil {
		return err
	}
	for _, id := range replaced { // before the added IDs, which are larger
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

// replacedBy returns the IDs of the stored documents with a key in newest, in ascending order, and
// adds them to b.replaced. The keys have the given hash.
func (b *builder) replacedBy(
	hash uint64, newest map[checksum]uint64,
) (replaced []uint64, err error) {
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
		if _, again := newest[checksumOf(record.Key)]; again {
			b.replaced.Add(id)
			replaced = append(replaced, id)
		}
	}
	return replaced, nil
}

// saveKeyFilter adds the keys of the stored documents to the key filter, and writes the filter.
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
