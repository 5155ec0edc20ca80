package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/neardup/neardup/internal/store/block"
)

// getter gets the value of a key; pebble.ErrNotFound if there is none. A Pebble database is one.
type getter interface {
	Get(key []byte) (value []byte, closer io.Closer, err error)
}

// get returns what decode makes of the value of a key, if it is there.
func get[T any](from getter, key []byte, decode func(value []byte) (T, error)) (entry T, found bool, err error) {
	value, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return entry, false, nil
	}
	if err != nil {
		return entry, false, translateError(err)
	}
	entry, err = decode(value)
	err = errors.Join(err, closer.Close())
	return entry, err == nil, err
}

// reader looks up single entries: of a View those of its moment, of a Store those of the newest commit
// that was applied. For an absent key a Store mostly gets by with a Bloom filter, where a View has to seek.
type reader struct {
	from   getter
	packed []*PackedTable // by table; none if there is no packed part
}

// ContainsLive reports whether a table has a live entry of a permuted fingerprint.
func (r *reader) ContainsLive(table int, permuted uint64) (found bool, err error) {
	_, found, err = get(r.from, tableKey(tableKeyspace, table, permuted), func([]byte) (none struct{}, err error) { return })
	return found, err
}

// Posting returns the documents of a stored fingerprint; none if it is not stored.
func (r *reader) Posting(stored uint64) (IDs, error) {
	packed, err := r.PackedPosting(stored)
	if err != nil {
		return IDs{}, err
	}
	added, removed, err := r.LivePosting(stored)
	if err != nil {
		return IDs{}, err
	}
	return change{added, removed}.apply(packed), nil
}

// LivePosting returns what was added to the posting of a stored fingerprint since the last
// compaction, and removed from it.
func (r *reader) LivePosting(stored uint64) (added, removed IDs, err error) {
	c, _, err := get(r.from, tableKey(tableKeyspace, 0, stored), decodeChange)
	if err != nil {
		return IDs{}, IDs{}, fmt.Errorf("posting of %016x: %w", stored, err)
	}
	return c.added.Without(c.removed), c.removed, nil
}

// PackedPosting returns what the last compaction knew of the documents of a stored
// fingerprint.
func (r *reader) PackedPosting(stored uint64) (IDs, error) {
	if len(r.packed) == 0 {
		return IDs{}, nil
	}
	return r.packed[0].Posting(stored)
}

// Record returns the record of a document, and whether it has one.
func (r *reader) Record(id uint64) (record Record, found bool, err error) {
	if record, found, err = get(r.from, uint64Key(documentKeyspace, id), DecodeRecord); err != nil {
		err = fmt.Errorf("document %d: %w", id, err)
	}
	return record, found, err
}

// KeyIDs returns the documents whose key has this hash.
func (r *reader) KeyIDs(hash uint64) (IDs, error) {
	ids, _, err := get(r.from, uint64Key(keyKeyspace, hash), block.DecodeIDs)
	if err != nil {
		return IDs{}, fmt.Errorf("key hash %016x: %w", hash, err)
	}
	return ids, nil
}
