package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/store/internal/block"
)

// View reads the store as it was at one moment. It must be closed, and keeps
// memory and files from being freed until then. What yields many entries has an iterator of its own, so it
// may be used within the others' loops.
type View struct {
	reader
	it     *pebble.Iterator // of Get and Scan
	tables *Tables          // that it holds; nil: none
	moment uint64           // of the file system, before it was opened
	second clockRange       // of the last document that Added was asked for
	key    [tableKeyLen]byte
	limit  [tableKeyLen + 1]byte // a key and a zero byte: the next key after it
}

func newView(it *pebble.Iterator, packed []*PackedTable, live []liveEntries) *View {
	v := &View{it: it}
	v.reader = reader{documents: documents{v}, packed: packed, live: live}
	return v
}

// View opens a view of this moment.
func (s *Store) View() (*View, error) {
	t := s.Tables()
	defer t.Release()
	return t.View()
}

// Close lets go of the view.
func (v *View) Close() error {
	if v.tables == nil {
		return translateError(v.it.Close())
	}
	defer v.tables.Release()
	if v.tables.guarded.Moment() == v.moment {
		return v.tables.CloseIter(v.it)
	}
	v.tables.guarded.CloseIteratorLater(v.it)
	return nil
}

// Frozen returns what a view has of the packed entries and of the epoch that is frozen. It is good until v is
// closed, and need not be closed.
func (v *View) Frozen() *View { return newView(v.it, v.packed, v.live[:len(v.live)-1]) }

// Clone opens another view of the same moment.
func (v *View) Clone() (*View, error) {
	it, err := v.it.Clone(pebble.CloneOptions{})
	if err != nil {
		return nil, translateError(err)
	}
	clone := newView(it, v.packed, v.live)
	clone.moment = v.moment
	if clone.tables = v.tables; clone.tables != nil {
		clone.tables.Hold()
	}
	return clone, nil
}

// Get returns the value of a key, until the next call; pebble.ErrNotFound if there is none. The key is its own prefix, so
// that Bloom filters tell which files do not have it.
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

// Scan yields the live entries of a table from first to last, both included, in
// ascending order within each epoch, until yield returns false. This is the probe of the live part: the
// paper's (section 3.1), with a range scan in place of its binary search.
func (v *View) Scan(table int, first, last uint64, yield func(permuted uint64) bool) error {
	for _, live := range v.live {
		if more, err := v.scanEpoch(live.keyspace, table, first, last, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// scanEpoch scans the entries of one epoch, and reports whether more are wanted.
func (v *View) scanEpoch(keyspace byte, table int, first, last uint64, yield func(permuted uint64) bool) (bool, error) {
	// Without a limit the iterator would leave a range only at the next live key,
	// past everything that was deleted since the last compaction.
	putTableKey(v.limit[:], keyspace, table, last)
	v.limit[tableKeyLen] = 0
	state := v.it.SeekGEWithLimit(putTableKey(v.key[:], keyspace, table, first), v.limit[:])
	for ; state == pebble.IterValid; state = v.it.NextWithLimit(v.limit[:]) {
		key := v.it.Key()
		if len(key) != tableKeyLen || !bytes.Equal(key[:3], v.key[:3]) {
			break
		}
		permuted := binary.BigEndian.Uint64(key[3:])
		if permuted > last {
			break
		}
		if !yield(permuted) {
			return false, nil
		}
	}
	return true, translateError(v.it.Error())
}

// ScannedPosting returns the documents of the fingerprint that a Scan of table 0 is at. No epoch may be frozen:
// another one would have a part of them.
func (v *View) ScannedPosting(stored uint64) (IDs, error) {
	packed, err := v.PackedPosting(stored)
	if err != nil {
		return IDs{}, err
	}
	value, err := v.it.ValueAndErr()
	if err != nil {
		return IDs{}, translateError(err)
	}
	c, err := decodeChange(value)
	if err != nil {
		return IDs{}, fmt.Errorf("posting of %016x: %w", stored, err)
	}
	return c.apply(packed), nil
}

// DocumentRecord is a record and the ID of its document.
type DocumentRecord struct {
	ID uint64
	Record
}

// Records yields the documents that have a record, by ID, from first on.
func (v *View) Records(first uint64) iter.Seq2[DocumentRecord, error] {
	return scan(v, uint64Key(documentKeyspace, first), keyspaceEnd(documentKeyspace), func(key, value []byte) (d DocumentRecord, err error) {
		if d.ID, err = keyNumber(key); err != nil {
			return d, err
		}
		if d.Record, err = DecodeRecord(value); err == nil && (d.ID == 0 || d.Bare()) {
			err = fmt.Errorf("%w: document %d has a record with nothing in it, or no ID", fault.ErrCorrupt, d.ID)
		}
		return d, err
	})
}

// KeyEntry is the hash of a key, and the documents that have a key of this hash.
type KeyEntry struct {
	Hash uint64
	IDs  IDs
}

// Keys yields all keys, by hash.
func (v *View) Keys() iter.Seq2[KeyEntry, error] {
	return scan(v, []byte{keyKeyspace}, keyspaceEnd(keyKeyspace), func(key, value []byte) (k KeyEntry, err error) {
		if k.Hash, err = keyNumber(key); err != nil {
			return k, err
		}
		if k.IDs, err = block.DecodeIDs(value); err == nil && k.IDs.Empty() {
			err = fmt.Errorf("%w: no documents", fault.ErrCorrupt)
		}
		return k, err
	})
}

// KeyHashes yields the hashes of all keys, in ascending order.
func (v *View) KeyHashes() iter.Seq2[uint64, error] {
	return scan(v, []byte{keyKeyspace}, keyspaceEnd(keyKeyspace), func(key, _ []byte) (uint64, error) { return keyNumber(key) })
}

// Live yields the live entries of a table, in ascending order, those of a frozen epoch first. Those of table 0
// are the stored fingerprints of which Postings tells what the entry says.
func (v *View) Live(table int) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for i := range v.live {
			for permuted, err := range v.LiveOf(i, table) {
				if !yield(permuted, err) || err != nil {
					return
				}
			}
		}
	}
}

// Generation returns which generation of packed tables the view has.
func (v *View) Generation() uint64 { return v.tables.Generation() }

// Epochs returns how many epochs are live: 1, or 2 where one is frozen.
func (v *View) Epochs() int { return len(v.live) }

// LiveOf is Live for one epoch: the frozen one, where there is one, is 0.
func (v *View) LiveOf(epoch, table int) iter.Seq2[uint64, error] {
	live := v.live[epoch]
	return scan(v, tableStart(live.keyspace, table), tableEnd(live.keyspace, table), func(key, value []byte) (permuted uint64, err error) {
		if permuted, err = keyNumber(key); err == nil && table > 0 && len(value) > 0 {
			err = fmt.Errorf("%w: a value of %d bytes", fault.ErrCorrupt, len(value))
		}
		return permuted, err
	})
}

// FilterChunks yields the chunks of the saved filter of a table, or of KeyFilterTable, each good until the
// next.
func (v *View) FilterChunks(table int) iter.Seq2[[]byte, error] {
	next := uint64(0)
	return scan(v, tableStart(filterKeyspace, table), tableEnd(filterKeyspace, table), func(key, value []byte) ([]byte, error) {
		if chunk, err := keyNumber(key); err != nil || chunk != next {
			return nil, fmt.Errorf("%w: it comes as chunk %d", fault.ErrCorrupt, next)
		}
		next++
		return value, nil
	})
}

// ClockEntry says that the documents from First to that of the next entry arrived in one
// second.
type ClockEntry struct {
	First   uint64 // ID
	Seconds uint64 // Unix
}

// Added returns when the documents of the entry arrived.
func (c ClockEntry) Added() time.Time { return time.Unix(int64(c.Seconds), 0).UTC() }

// Clock yields the entries of the clock from a document ID on, in the order of the documents. The
// seconds may go backwards.
func (v *View) Clock(first uint64) iter.Seq2[ClockEntry, error] {
	return scan(v, uint64Key(clockKeyspace, first), keyspaceEnd(clockKeyspace), decodeClock)
}

func decodeClock(key, value []byte) (c ClockEntry, err error) {
	if c.First, err = keyNumber(key); err != nil {
		return c, err
	}
	if len(value) != 8 {
		return c, fmt.Errorf("%w: clock entry of document %d has %d bytes", fault.ErrCorrupt, c.First, len(value))
	}
	c.Seconds = binary.BigEndian.Uint64(value)
	return c, nil
}

// ClockAt returns the last entry of the clock at or before an ID; found is false if there is none.
func (v *View) ClockAt(id uint64) (c ClockEntry, found bool, err error) {
	if id == math.MaxUint64 {
		id-- // no document has it, and the key after it is in another keyspace
	}
	if !v.it.SeekLT(uint64Key(clockKeyspace, id+1)) || !v.atClock() {
		return ClockEntry{}, false, translateError(v.it.Error())
	}
	value, err := v.it.ValueAndErr()
	if err != nil {
		return ClockEntry{}, false, translateError(err)
	}
	c, err = decodeClock(v.it.Key(), value)
	return c, err == nil, err
}

func (v *View) atClock() bool { return bytes.HasPrefix(v.it.Key(), []byte{clockKeyspace}) }

// clockRange is the IDs, before end, of the documents that an entry of the clock tells of.
type clockRange struct {
	ClockEntry
	end uint64
}

// Added returns when a document arrived, in whole seconds; the zero time if no
// entry of the clock says so. For the next document of the same second it looks nothing up.
func (v *View) Added(id uint64) (time.Time, error) {
	if id < v.second.First || id >= v.second.end {
		c, found, err := v.ClockAt(id)
		if err != nil || !found {
			return time.Time{}, err
		}
		end := uint64(math.MaxUint64)
		if v.it.Next() && v.atClock() {
			if end, err = keyNumber(v.it.Key()); err != nil {
				return time.Time{}, err
			}
		}
		if err := v.it.Error(); err != nil {
			return time.Time{}, translateError(err)
		}
		v.second = clockRange{c, end}
	}
	return v.second.Added(), nil
}

// LastSecond returns the second of the newest clock entry, if there is one.
func (v *View) LastSecond() (seconds uint64, found bool, err error) {
	c, found, err := v.ClockAt(math.MaxUint64)
	return c.Seconds, found, err
}

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

// documents looks up what belongs to documents: of a View that of its moment, of a Store that of the newest
// commit that was applied.
type documents struct{ from getter }

// Record returns the record of a document, and whether it has one.
func (d documents) Record(id uint64) (record Record, found bool, err error) {
	if record, found, err = get(d.from, uint64Key(documentKeyspace, id), DecodeRecord); err != nil {
		err = fmt.Errorf("document %d: %w", id, err)
	}
	return record, found, err
}

// KeyIDs returns the documents whose key has this hash.
func (d documents) KeyIDs(hash uint64) (IDs, error) {
	ids, _, err := get(d.from, uint64Key(keyKeyspace, hash), block.DecodeIDs)
	if err != nil {
		return IDs{}, fmt.Errorf("key hash %016x: %w", hash, err)
	}
	return ids, nil
}

// reader looks up single entries of the tables as well.
type reader struct {
	documents
	packed []*PackedTable // by table; none if there is no packed part
	live   []liveEntries  // of the live epochs; the last takes writes
}

func (r *reader) newest() liveEntries { return r.live[len(r.live)-1] }

// ContainsLive reports whether a table has an entry of a permuted fingerprint in the epoch that takes writes.
func (r *reader) ContainsLive(table int, permuted uint64) (found bool, err error) {
	_, found, err = get(r.from, r.newest().key(table, permuted), func([]byte) (none struct{}, err error) { return })
	return found, err
}

// Posting returns the documents of a stored fingerprint; none if it is not stored.
func (r *reader) Posting(stored uint64) (IDs, error) { return r.posting(stored, r.live) }

// SettledPosting returns what there is in Posting without the epoch that takes writes: of what is packed and,
// where one is frozen, of that epoch. It changes only when an epoch is frozen.
func (r *reader) SettledPosting(stored uint64) (IDs, error) {
	return r.posting(stored, r.live[:len(r.live)-1])
}

func (r *reader) posting(stored uint64, epochs []liveEntries) (IDs, error) {
	ids, err := r.PackedPosting(stored)
	for _, live := range epochs {
		if err == nil {
			var c change
			c, err = r.livePosting(live, stored)
			ids = c.apply(ids)
		}
	}
	return ids, err
}

// LivePosting returns what was added to the posting of a stored fingerprint in the epoch that takes writes,
// and removed from it.
func (r *reader) LivePosting(stored uint64) (added, removed IDs, err error) {
	c, err := r.livePosting(r.newest(), stored)
	return c.added.Without(c.removed), c.removed, err
}

func (r *reader) livePosting(live liveEntries, stored uint64) (c change, err error) {
	if c, _, err = get(r.from, live.key(0, stored), decodeChange); err != nil {
		return change{}, fmt.Errorf("posting of %016x: %w", stored, err)
	}
	return c, nil
}

// PackedPosting returns what the last compaction knew of the documents of a stored
// fingerprint.
func (r *reader) PackedPosting(stored uint64) (IDs, error) {
	if len(r.packed) == 0 {
		return IDs{}, nil
	}
	return r.packed[0].posting(stored)
}
