package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/fault"
)

// View reads one snapshot of the store. It must be closed; until then it keeps memory and files
// from being freed. Methods that yield many entries use separate iterators, so they may be called
// within each other's loops. A View is for one goroutine at a time.
type View struct {
	reader
	it     *pebble.Iterator // of Get and Scan
	jobs   uint64           // the count of jobs when the view was opened
	tables *Tables          // held by the view; nil for Frozen
	key    [liveKeyLen]byte
	limit  [liveKeyLen + 1]byte
}

func newView(it *pebble.Iterator, packed []*PackedTable, live []byte) *View {
	v := &View{it: it}
	for i := range v.limit {
		v.limit[i] = 0xff
	}
	v.reader = reader{from: v, packed: packed, live: live}
	return v
}

// View opens a view of the newest commit.
func (s *Store) View() (*View, error) {
	t := s.Tables()
	defer t.Release()
	return t.View()
}

// Close closes the view.
func (v *View) Close() error {
	if v.tables == nil {
		return translateError(v.it.Close())
	}
	defer v.tables.Release()
	return v.tables.closeIter(v.it, v.jobs)
}

// Frozen returns a view of the packed tables and the frozen epoch, which must exist. The view is
// valid until v is closed, and need not be closed.
func (v *View) Frozen() *View { return newView(v.it, v.packed, v.live[:len(v.live)-1]) }

// Clone opens another view of the same snapshot.
func (v *View) Clone() (*View, error) {
	it, err := v.it.Clone(pebble.CloneOptions{})
	if err != nil {
		return nil, translateError(err)
	}
	clone := newView(it, v.packed, v.live)
	clone.jobs = v.jobs
	if clone.tables = v.tables; clone.tables != nil {
		clone.tables.Hold()
	}
	return clone, nil
}

// Get returns the value of a key, which is valid until the next call. It returns pebble.ErrNotFound
// if the key does not exist. The key must be equal to its prefix (see comparer), so that Bloom
// filters exclude files.
func (v *View) Get(key []byte) ([]byte, io.Closer, error) {
	if !v.it.SeekPrefixGE(key) {
		if err := v.it.Error(); err != nil {
			return nil, nil, err
		}
		return nil, nil, pebble.ErrNotFound
	}
	value, err := v.it.ValueAndErr()
	return value, noCloser{}, err
}

type noCloser struct{}

func (noCloser) Close() error { return nil }

// Scan yields the live entries of a table from first to last, both included, in ascending order
// within each epoch, until yield returns false. It yields a fingerprint of several documents once
// per epoch. Scan probes the live entries as in section 3.1 of the paper, with a range scan instead
// of a binary search.
func (v *View) Scan(table int, first, last uint64, yield func(permuted uint64) bool) error {
	for _, keyspace := range v.live {
		if more, err := v.scanEpoch(keyspace, table, first, last, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// scanEpoch scans the entries of one epoch, and reports whether yield wants more.
func (v *View) scanEpoch(
	keyspace byte, table int, first, last uint64, yield func(permuted uint64) bool,
) (bool, error) {
	// The limit keeps the iterator from stepping over deleted keys after the range.
	limit := putTableKey(v.limit[:], keyspace, table, last)
	state := v.it.SeekGEWithLimit(putTableKey(v.key[:tableKeyLen], keyspace, table, first), limit)
	previous, copies := uint64(0), 0
	for state == pebble.IterValid {
		key := v.it.Key()
		if len(key) < tableKeyLen || !bytes.Equal(key[:3], v.key[:3]) {
			break
		}
		permuted := binary.BigEndian.Uint64(key[3:])
		switch {
		case permuted > last:
			return true, nil
		case copies > 0 && permuted == previous:
			copies++
		case !yield(permuted):
			return false, nil
		default:
			previous, copies = permuted, 1
		}
		if copies > manyCopies {
			if permuted == last {
				return true, nil
			}
			copies = 0
			state = v.it.SeekGEWithLimit(putTableKey(v.key[:tableKeyLen], keyspace, table,
				permuted+1), limit)
			continue
		}
		state = v.it.NextWithLimit(limit)
	}
	return true, translateError(v.it.Error())
}

// manyCopies is the number of live entries with one fingerprint after which a scan seeks the next
// fingerprint.
const manyCopies = 16

// AppendLive appends up to n IDs of the live entries of a stored fingerprint, in ascending order,
// starting at an ID. It includes removed IDs.
func (v *View) AppendLive(dst []uint64, stored, from uint64, n int) ([]uint64, error) {
	for _, keyspace := range v.live {
		if n == 0 {
			break
		}
		key := binary.BigEndian.AppendUint64(putTableKey(v.key[:tableKeyLen], keyspace, 0, stored),
			from)
		for ok := v.it.SeekPrefixGE(key); ok && n > 0; ok = v.it.Next() {
			if key := v.it.Key(); len(key) == liveKeyLen {
				dst = append(dst, binary.BigEndian.Uint64(key[tableKeyLen:]))
				n--
			}
		}
		if err := v.it.Error(); err != nil {
			return dst, translateError(err)
		}
	}
	return dst, nil
}

// AppendKey appends the IDs of the documents whose keys have a hash, in ascending order.
func (v *View) AppendKey(dst []uint64, hash uint64) ([]uint64, error) {
	for ok := v.it.SeekPrefixGE(keyKey(hash, 0)); ok; ok = v.it.Next() {
		if key := v.it.Key(); len(key) == keyKeyLen {
			dst = append(dst, binary.BigEndian.Uint64(key[keyKeyLen-8:]))
		}
	}
	return dst, translateError(v.it.Error())
}

// Records yields the records in the order of their IDs, from first on.
func (v *View) Records(first uint64) iter.Seq2[Record, error] {
	return scan(v, documentKey(first), keyspaceEnd(documentKeyspace),
		func(key, value []byte) (Record, error) {
			id, err := keyNumber(key, documentKeyLen)
			if err != nil {
				return Record{}, err
			}
			r, err := decodeRecord(value)
			if r.ID = id; err == nil && id == 0 {
				err = fmt.Errorf("%w: a document without an ID", fault.ErrCorrupt)
			}
			return r, err
		})
}

// KeyEntry is the hash of a key and the ID of the document with the key.
type KeyEntry struct{ Hash, ID uint64 }

// Keys yields all entries of keys, by hash, then ID.
func (v *View) Keys() iter.Seq2[KeyEntry, error] {
	return scan(v, []byte{keyKeyspace}, keyspaceEnd(keyKeyspace),
		func(key, value []byte) (k KeyEntry, err error) {
			if k.ID, err = keyNumber(key, keyKeyLen); err == nil {
				err = checkEmpty(value)
				k.Hash = binary.BigEndian.Uint64(key[1:])
			}
			return k, err
		})
}

// KeyHashes yields the hashes of all keys, in ascending order.
func (v *View) KeyHashes() iter.Seq2[uint64, error] {
	return mapped(v.Keys(), func(k KeyEntry) uint64 { return k.Hash })
}

// Generation returns the Generation of the tables of the view.
func (v *View) Generation() uint64 { return v.tables.Generation() }

// Epochs returns the number of epochs: 1, or 2 if one is frozen. If there are 2, epoch 0 is frozen.
func (v *View) Epochs() int { return len(v.live) }

// FilterChunks yields the chunks of the saved filter of a table, or of KeyFilterTable. A chunk is
// valid until the next one.
func (v *View) FilterChunks(table int) iter.Seq2[[]byte, error] {
	next := uint64(0)
	return scan(v, tableStart(filterKeyspace, table), tableEnd(filterKeyspace, table),
		func(key, value []byte) ([]byte, error) {
			if chunk, err := keyNumber(key, chunkKeyLen); err != nil || chunk != next {
				return nil, fmt.Errorf("%w: found instead of chunk %d", fault.ErrCorrupt, next)
			}
			next++
			return value, nil
		})
}

// getter gets the value of a key, or pebble.ErrNotFound. A *pebble.DB is a getter.
type getter interface {
	Get(key []byte) (value []byte, closer io.Closer, err error)
}

// get decodes the value of a key, and reports whether the key exists.
func get[T any](
	from getter, key []byte, decode func(value []byte) (T, error),
) (entry T, found bool, err error) {
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

// reader looks up records, removed IDs and packed entries.
type reader struct {
	from   getter
	packed []*PackedTable // by table; empty if there are no packed tables
	live   []byte         // keyspaces of the epochs; commits write to the last
}

// Record returns the record of a document, and whether it has one.
func (r *reader) Record(id uint64) (record Record, found bool, err error) {
	record, found, err = get(r.from, documentKey(id), decodeRecord)
	switch {
	case err != nil:
		err = fmt.Errorf("document %d: %w", id, err)
	case found:
		record.ID = id
	}
	return record, found, err
}

// Duplicates returns the count of the duplicates of a document. It is zero if there are none.
func (r *reader) Duplicates(id uint64) (DuplicateCount, error) {
	c, _, err := get(r.from, countKey(id), decodeCount)
	if err != nil {
		err = fmt.Errorf("duplicates of document %d: %w", id, err)
	}
	return c, err
}

func (r *reader) newest() byte { return r.live[len(r.live)-1] }

// IsRemoved reports whether an ID was removed since the last compaction.
func (r *reader) IsRemoved(id uint64) (found bool, err error) {
	for _, keyspace := range r.live {
		_, found, err = get(r.from, tableKey(keyspace, removedTable, id),
			func([]byte) (none struct{}, err error) { return })
		if found || err != nil {
			break
		}
	}
	return found, err
}

// PackedIDs returns the IDs of a stored fingerprint in the packed tables, including removed IDs.
func (r *reader) PackedIDs(stored uint64) (IDs, error) {
	if len(r.packed) == 0 {
		return IDs{}, nil
	}
	return r.packed[0].posting(stored)
}
