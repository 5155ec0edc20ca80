package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/store/block"
)

// The reads in this file see the newest commit applied. For an absent key they
// mostly get by with a Bloom filter, where a View has to seek.

// ContainsLive reports whether a table has a live entry of a permuted fingerprint.
func (s *Store) ContainsLive(table int, permuted uint64) (found bool, err error) {
	var key [tableKeyLen]byte
	putTableKey(key[:], tableKeyspace, table, permuted)
	err = s.get(key[:], func([]byte) error { found = true; return nil })
	return found, err
}

// Posting returns the documents of a stored fingerprint; none if it is not stored.
func (s *Store) Posting(stored uint64) (ids IDs, err error) {
	if ids, err = s.PackedPosting(stored); err != nil {
		return IDs{}, err
	}
	var key [tableKeyLen]byte
	putTableKey(key[:], tableKeyspace, 0, stored)
	err = s.get(key[:], func(value []byte) (err error) { ids, err = readPosting(value, ids); return err })
	if err != nil {
		return IDs{}, fmt.Errorf("posting of %016x: %w", stored, err)
	}
	return ids, nil
}

// LivePosting returns what was added to the posting of a stored fingerprint since the last
// compaction, and removed from it.
func (s *Store) LivePosting(stored uint64) (added, removed IDs, err error) {
	var key [tableKeyLen]byte
	putTableKey(key[:], tableKeyspace, 0, stored)
	err = s.get(key[:], func(value []byte) (err error) { added, removed, err = decodeChange(value); return err })
	if err != nil {
		return IDs{}, IDs{}, fmt.Errorf("posting of %016x: %w", stored, err)
	}
	return added.Without(removed), removed, nil
}

// PackedPosting returns what the last compaction knew of the documents of a stored
// fingerprint.
func (s *Store) PackedPosting(stored uint64) (IDs, error) {
	if s.generation == 0 {
		return IDs{}, nil
	}
	return s.packed[0].Posting(stored)
}

// Record returns the record of a document, and whether it has one.
func (s *Store) Record(id uint64) (r Record, found bool, err error) {
	var key [uint64KeyLen]byte
	putUint64Key(key[:], documentKeyspace, id)
	err = s.get(key[:], func(value []byte) (err error) {
		r, err = DecodeRecord(value)
		found = err == nil
		return err
	})
	if err != nil {
		return Record{}, false, fmt.Errorf("document %d: %w", id, err)
	}
	return r, found, nil
}

// KeyIDs returns the documents whose key has this hash.
func (s *Store) KeyIDs(hash uint64) (ids IDs, err error) {
	var key [uint64KeyLen]byte
	putUint64Key(key[:], keyKeyspace, hash)
	err = s.get(key[:], func(value []byte) (err error) { ids, err = block.DecodeIDs(value); return err })
	if err != nil {
		return IDs{}, fmt.Errorf("key hash %016x: %w", hash, err)
	}
	return ids, nil
}

// get calls read with the value of a key, if it is there.
func (s *Store) get(key []byte, read func(value []byte) error) error {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return classify(err)
	}
	return errors.Join(read(value), closer.Close())
}
