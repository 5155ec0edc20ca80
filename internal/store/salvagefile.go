package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// siftBatchBytes is about how much is written at once.
const siftBatchBytes = 1 << 20

// version is one entry of a file; a key may have several, the newest first.
type version struct {
	kind  pebble.InternalKeyKind
	value []byte
}

// siftTable writes what can be read of a file of sorted entries. Only its deletions of
// whole ranges are left out: those are of the clock, where what comes back does no harm.
func (s *Salvage) siftTable(ctx context.Context, to *pebble.DB, whole string, file siftedTable, o *pebble.Options) (err error) {
	r, err := openSorted(ctx, s.fs, s.fs.PathJoin(whole, file.name), o.MakeReaderOptions())
	if err != nil {
		s.report(Corruption{true, "file", []byte(file.name), fmt.Errorf("nothing of it can be read: %w", corrupt(err))})
		return nil
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		s.report(Corruption{true, "file", []byte(file.name), fmt.Errorf("nothing of it can be read: %w", corrupt(err))})
		return nil
	}
	defer it.Close()
	w := siftWriter{to: to, batch: to.NewBatch()}
	at := bytes.Clone(file.first)
	if len(at) == 0 {
		at = []byte{0}
	}
	gap, before := uint64(1), uint64(0)
	for kv := it.SeekGE(at, 0); ; {
		if kv == nil {
			if it.Error() == nil {
				return w.finish()
			}
			if err := ctx.Err(); err != nil {
				return errors.Join(err, w.batch.Close())
			}
			next := s.skip(it, at, gap, file.name)
			if next == nil {
				return w.finish()
			}
			kv = it.SeekGE(next, 0)
			continue
		}
		if file.last != nil && bytes.Compare(kv.K.UserKey, file.last) > 0 {
			return w.finish()
		}
		value, _, err := kv.Value(nil)
		if err == nil {
			err = w.add(kv.K.UserKey, version{kv.K.Kind(), bytes.Clone(value)})
		}
		if err != nil {
			return errors.Join(err, w.batch.Close())
		}
		if n := len(kv.K.UserKey); n >= uint64KeyLen {
			number := binary.BigEndian.Uint64(kv.K.UserKey[n-8:])
			before, gap = number, max(number-before, 1)
		}
		at = append(append(at[:0], kv.K.UserKey...), 0)
		kv = it.Next()
	}
}

// skip finds the first key behind what cannot be read from a key on; nil if there is none.
// See policy.resume.
func (s *Salvage) skip(it sstable.Iterator, at []byte, gap uint64, name string) []byte {
	cause := it.Error()
	readable := func(key []byte) []byte {
		if kv := it.SeekGE(key, 0); kv != nil {
			return bytes.Clone(kv.K.UserKey)
		}
		return nil
	}
	var next []byte
	if n, width := keyLayout(at[0]); width == 8 && len(at) >= n {
		start := binary.BigEndian.Uint64(at[n-8:])
		for step := gap; step < math.MaxUint64/4 && start+step > start && next == nil; step *= 2 {
			key := bytes.Clone(at[:n])
			for i := range 8 {
				key[n-1-i] = byte((start + step) >> (8 * i))
			}
			next = readable(key)
		}
	}
	// What is in other tables and keyspaces begins with other bytes.
	for table := 0; next == nil && table < 64 && (at[0] == tableKeyspace || at[0] == packedKeyspace || at[0] == directoryKeyspace || at[0] == filterKeyspace); table++ {
		if first := tableStart(at[0], table); bytes.Compare(first, at) > 0 {
			next = readable(first)
		}
	}
	for keyspace := int(at[0]) + 1; next == nil && keyspace <= afterTables; keyspace++ {
		next = readable([]byte{byte(keyspace)})
	}
	s.report(Corruption{true, "file", []byte(name), fmt.Errorf("%w (nothing from key %x up to %x)", corrupt(cause), at, next)})
	return next
}

// siftWriter writes the versions of each key, the oldest first.
type siftWriter struct {
	to       *pebble.DB
	batch    *pebble.Batch
	key      []byte
	versions []version
}

func (w *siftWriter) add(key []byte, v version) error {
	if !bytes.Equal(key, w.key) {
		if err := w.flush(); err != nil {
			return err
		}
		w.key = append(w.key[:0], key...)
	}
	w.versions = append(w.versions, v)
	return nil
}

func (w *siftWriter) flush() error {
	for i := len(w.versions) - 1; i >= 0; i-- {
		if err := siftEntry(w.batch, w.versions[i].kind, w.key, w.versions[i].value); err != nil {
			return err
		}
	}
	w.versions = w.versions[:0]
	if w.batch.Len() < siftBatchBytes {
		return nil
	}
	if err := w.to.Apply(w.batch, pebble.NoSync); err != nil {
		return err
	}
	w.batch = w.to.NewBatch()
	return nil
}

func (w *siftWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.to.Apply(w.batch, pebble.NoSync)
}

func siftEntry(b *pebble.Batch, kind pebble.InternalKeyKind, key, value []byte) error {
	switch kind {
	case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete:
		return b.Set(key, value, nil)
	case pebble.InternalKeyKindMerge:
		return b.Merge(key, value, nil)
	case pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized, pebble.InternalKeyKindSingleDelete:
		return b.Delete(key, nil)
	case pebble.InternalKeyKindRangeDelete:
		return b.DeleteRange(key, value, nil)
	}
	return nil // of the log only
}

// siftLog writes what can be read of a log, which ends where it is damaged.
func (s *Salvage) siftLog(to *pebble.DB, path, name string) error {
	data, err := readFile(path, s.fs)
	if err != nil {
		return err
	}
	for record := range (logData{data, fileNumber(name, "")}).records {
		if isBatch(record) {
			if err := siftBatch(to, record); err != nil {
				return err
			}
		}
	}
	return nil
}

func siftBatch(to *pebble.DB, record []byte) error {
	b, batch := to.NewBatch(), batchrepr.Read(record)
	for {
		kind, key, value, ok, err := batch.Next()
		if err != nil || !ok {
			return to.Apply(b, pebble.NoSync)
		}
		if err := siftEntry(b, kind, key, value); err != nil {
			return errors.Join(err, b.Close())
		}
	}
}
