package store

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/store/block"
)

// View reads the store as it was at one moment. It must be closed, and keeps
// memory and files from being freed until then.
type View struct {
	store *Store
	it    *pebble.Iterator
	key   [tableKeyLen]byte
	limit [tableKeyLen + 1]byte // a table key and a zero byte: the next key after it
}

// View opens a view of this moment.
func (s *Store) View() (*View, error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return nil, classify(err)
	}
	return &View{store: s, it: it}, nil
}

// Close lets go of the view.
func (v *View) Close() error { return classify(v.it.Close()) }

// Clone opens another view of the same moment.
func (v *View) Clone() (*View, error) {
	it, err := v.it.Clone(pebble.CloneOptions{})
	if err != nil {
		return nil, classify(err)
	}
	return &View{store: v.store, it: it}, nil
}

func (v *View) uint64Key(keyspace byte, n uint64) []byte {
	putUint64Key(v.key[:], keyspace, n)
	return v.key[:uint64KeyLen]
}

func (v *View) tableKey(table int, permuted uint64) []byte {
	putTableKey(v.key[:], tableKeyspace, table, permuted)
	return v.key[:tableKeyLen]
}

// Scan yields the live entries of a table from first to last, both included, in
// ascending order, until yield returns false. This is the probe of the paper
// (section 3.1), a range scan in place of its binary search.
func (v *View) Scan(table int, first, last uint64, yield func(permuted uint64) bool) error {
	// Without a limit the iterator would leave a range only at the next live key,
	// past everything that was deleted since the last compaction.
	putTableKey(v.limit[:], tableKeyspace, table, last)
	state := v.it.SeekGEWithLimit(v.tableKey(table, first), v.limit[:])
	for ; state == pebble.IterValid; state = v.it.NextWithLimit(v.limit[:]) {
		key := v.it.Key()
		if len(key) != tableKeyLen || key[0] != tableKeyspace || binary.BigEndian.Uint16(key[1:]) != uint16(table) {
			break
		}
		permuted := binary.BigEndian.Uint64(key[3:])
		if permuted > last || !yield(permuted) {
			break
		}
	}
	return classify(v.it.Error())
}

// ScannedPosting returns the documents of the fingerprint that a Scan of table 0 is at.
func (v *View) ScannedPosting(stored uint64) (IDs, error) {
	packed, err := v.store.PackedPosting(stored)
	if err != nil {
		return IDs{}, err
	}
	value, err := v.it.ValueAndErr()
	if err != nil {
		return IDs{}, classify(err)
	}
	return postingOf(stored, value, packed)
}

// get moves to a key and reports whether it is there.
func (v *View) get(key []byte) (value []byte, found bool, err error) {
	n := copy(v.limit[:], key)
	v.limit[n] = 0
	if v.it.SeekGEWithLimit(key, v.limit[:n+1]) != pebble.IterValid || string(v.it.Key()) != string(key) {
		return nil, false, classify(v.it.Error())
	}
	value, err = v.it.ValueAndErr()
	return value, err == nil, classify(err)
}

// Posting returns the documents of a stored fingerprint; none if it is not stored.
func (v *View) Posting(stored uint64) (IDs, error) {
	packed, err := v.store.PackedPosting(stored)
	if err != nil {
		return IDs{}, err
	}
	value, found, err := v.get(v.tableKey(0, stored))
	if err != nil || !found {
		return packed, err
	}
	return postingOf(stored, value, packed)
}

func postingOf(stored uint64, live []byte, packed IDs) (IDs, error) {
	ids, err := readPosting(live, packed)
	if err != nil {
		return IDs{}, fmt.Errorf("posting of %016x: %w", stored, err)
	}
	return ids, nil
}

// Record returns the record of a document, and whether it has one.
func (v *View) Record(id uint64) (Record, bool, error) {
	value, found, err := v.get(v.uint64Key(documentKeyspace, id))
	if err != nil || !found {
		return Record{}, false, err
	}
	r, err := DecodeRecord(value)
	if err != nil {
		return Record{}, false, fmt.Errorf("document %d: %w", id, err)
	}
	return r, true, nil
}

// Records yields the documents that have a record, by ID, from first on. The
// view must not be used for anything else meanwhile.
func (v *View) Records(first uint64) iter.Seq2[DocumentRecord, error] {
	return func(yield func(DocumentRecord, error) bool) {
		for ok := v.it.SeekGE(v.uint64Key(documentKeyspace, first)); ok; ok = v.it.Next() {
			key := v.it.Key()
			if key[0] != documentKeyspace {
				break
			}
			id, err := uint64Of(key, uint64KeyLen)
			d := DocumentRecord{ID: id}
			var value []byte
			if err == nil {
				value, err = v.it.ValueAndErr()
			}
			if err == nil {
				d.Record, err = DecodeRecord(value)
			}
			if err != nil {
				yield(d, fmt.Errorf("document %d: %w", id, classify(err)))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
		if err := v.it.Error(); err != nil {
			yield(DocumentRecord{}, classify(err))
		}
	}
}

// DocumentRecord is a record and the ID of its document.
type DocumentRecord struct {
	ID uint64
	Record
}

// KeyIDs returns the documents whose key has this hash.
func (v *View) KeyIDs(hash uint64) (IDs, error) {
	value, found, err := v.get(v.uint64Key(keyKeyspace, hash))
	if err != nil || !found {
		return IDs{}, err
	}
	ids, err := block.DecodeIDs(value)
	if err != nil {
		return IDs{}, fmt.Errorf("key hash %016x: %w", hash, err)
	}
	return ids, nil
}

// KeyHashes yields the hashes of all keys, in ascending order. The view must not be used
// for anything else meanwhile.
func (v *View) KeyHashes() iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for ok := v.it.SeekGE(v.uint64Key(keyKeyspace, 0)); ok && v.it.Key()[0] == keyKeyspace; ok = v.it.Next() {
			hash, err := uint64Of(v.it.Key(), uint64KeyLen)
			if !yield(hash, err) || err != nil {
				return
			}
		}
		if err := v.it.Error(); err != nil {
			yield(0, classify(err))
		}
	}
}

// clockAt returns the last clock entry at or before an ID.
func (v *View) clockAt(id uint64) (first, seconds uint64, found bool, err error) {
	if id == math.MaxUint64 {
		id-- // no document has it, and the key after it is in another keyspace
	}
	if !v.it.SeekLT(v.uint64Key(clockKeyspace, id+1)) || v.it.Key()[0] != clockKeyspace {
		return 0, 0, false, classify(v.it.Error())
	}
	first, seconds, err = v.clockEntry()
	return first, seconds, err == nil, err
}

// clockEntry reads the entry of the clock that the view is at.
func (v *View) clockEntry() (first, seconds uint64, err error) {
	if first, err = uint64Of(v.it.Key(), uint64KeyLen); err != nil {
		return 0, 0, err
	}
	value, err := v.it.ValueAndErr()
	if err != nil {
		return first, 0, classify(err)
	}
	if len(value) != 8 {
		return first, 0, fmt.Errorf("%w: clock entry of document %d has %d bytes", ErrCorrupt, first, len(value))
	}
	return first, binary.BigEndian.Uint64(value), nil
}

// ClockRange returns the IDs from first to the one before end whose documents arrived
// in the same second as a given one, of those below next. found is false if no entry of
// the clock says when that was.
func (v *View) ClockRange(id, next uint64) (first, end, seconds uint64, found bool, err error) {
	first, seconds, found, err = v.clockAt(id)
	if err != nil || !found {
		return 0, 0, 0, false, err
	}
	end = next
	if v.it.Next() && v.it.Key()[0] == clockKeyspace {
		if end, err = uint64Of(v.it.Key(), uint64KeyLen); err != nil {
			return 0, 0, 0, false, err
		}
	}
	return first, end, seconds, true, classify(v.it.Error())
}

// Added returns when a document arrived, in whole seconds; the zero time if no
// entry of the clock says so.
func (v *View) Added(id uint64) (time.Time, error) {
	_, seconds, found, err := v.clockAt(id)
	if err != nil || !found {
		return time.Time{}, err
	}
	return time.Unix(int64(seconds), 0).UTC(), nil
}

// ClockEntry says that the documents from First to that of the next entry arrived in one
// second.
type ClockEntry struct {
	First uint64 // ID
	Added time.Time
}

// Clock yields the entries of the clock in the order of the documents; the seconds may go
// backwards. The view must not be used for anything else meanwhile.
func (v *View) Clock() iter.Seq2[ClockEntry, error] {
	return func(yield func(ClockEntry, error) bool) {
		for ok := v.it.SeekGE(v.uint64Key(clockKeyspace, 0)); ok && v.it.Key()[0] == clockKeyspace; ok = v.it.Next() {
			first, seconds, err := v.clockEntry()
			if !yield(ClockEntry{first, time.Unix(int64(seconds), 0).UTC()}, err) || err != nil {
				return
			}
		}
		if err := v.it.Error(); err != nil {
			yield(ClockEntry{}, classify(err))
		}
	}
}

// LastSecond returns the second of the newest clock entry, if there is one.
func (v *View) LastSecond() (seconds uint64, found bool, err error) {
	_, seconds, found, err = v.clockAt(math.MaxUint64)
	return seconds, found, err
}
