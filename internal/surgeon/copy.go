package surgeon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/neardup/neardup/internal/fault"
)

// copyReadable puts every entry that can be read of any file into a database of its own, the
// oldest first, so that a damaged block takes along nothing that lies over or under it. It closes db, which
// is nil if it could not be opened.
func (p *Patient) copyReadable(ctx context.Context, db *pebble.DB, whole string) (to *pebble.DB, err error) {
	tables, err := p.tables(db, whole)
	if db != nil {
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return nil, err
	}
	o := p.Options()
	o.DisableWAL = true
	if to, err = pebble.Open(p.FS.PathJoin(p.Work, "readable"), o); err != nil {
		return nil, err
	}
	for _, table := range tables {
		if err == nil {
			err = p.copyTable(ctx, to, whole, table, o)
		}
	}
	names, listErr := p.FS.List(whole)
	err = errors.Join(err, listErr)
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") && err == nil {
			err = p.copyBatches(to, whole, name)
		}
	}
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}

// copyTable writes what can be read of a file of sorted entries. Only its deletions of
// whole ranges are left out: those are of the clock, where what comes back does no harm.
func (p *Patient) copyTable(ctx context.Context, to *pebble.DB, whole string, table readableTable, o *pebble.Options) (err error) {
	lost := func(err error) error {
		if fault.Denied(err) {
			return err
		}
		p.Report(Damage{true, table.name, fmt.Errorf("nothing of it can be read: %w", err)})
		return nil
	}
	r, err := openTable(ctx, p.FS.PathJoin(whole, table.name), o)
	if err != nil {
		return lost(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return lost(err)
	}
	defer it.Close()
	w := versionWriter{to: to, batch: to.NewBatch()}
	defer func() { err = errors.Join(err, w.batch.Close()) }()
	at := bytes.Clone(table.first)
	if len(at) == 0 {
		at = []byte{0}
	}
	kv := it.SeekGE(at, 0)
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if kv == nil {
			if it.Error() == nil {
				return w.flush(0)
			}
			next := p.skip(ctx, it, at, table)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if next == nil {
				return w.flush(0)
			}
			kv = it.SeekGE(next, 0)
			continue
		}
		if table.last != nil && bytes.Compare(kv.K.UserKey, table.last) > 0 {
			return w.flush(0)
		}
		value, _, err := kv.Value(nil)
		if err == nil {
			err = w.add(kv.K.UserKey, version{p.kindOf(kv.K, table), bytes.Clone(value)})
		}
		if err != nil {
			return err
		}
		at = append(append(at[:0], kv.K.UserKey...), 0)
		kv = it.Next()
	}
}

// kindOf returns the kind of an entry as it is to be written. What is set in a file must not take the place of what another one
// merges, where nothing tells which of the two is older.
func (p *Patient) kindOf(key pebble.InternalKey, table readableTable) pebble.InternalKeyKind {
	kind := key.Kind()
	if set := kind == pebble.InternalKeyKindSet || kind == pebble.InternalKeyKindSetWithDelete; set && table.numbered && p.Merged(key.UserKey) {
		return pebble.InternalKeyKindMerge
	}
	return kind
}

// skip finds the first key behind what cannot be read from a key on; nil if there is none.
func (p *Patient) skip(ctx context.Context, it sstable.Iterator, at []byte, table readableTable) (next []byte) {
	cause := it.Error()
	block := DamagedBlock{Cause: cause}
	if table.last != nil {
		it.SeekGE(table.last, 0)
		block.Note(table.last, it.Error())
	}
	next = p.Next(at, func(key []byte) bool {
		if table.last != nil && bytes.Compare(key, table.last) > 0 || ctx.Err() != nil || block.Has(key) {
			return false
		}
		found := it.SeekGE(key, 0) != nil
		block.Note(key, it.Error())
		return found
	})
	p.Report(Damage{true, table.name, fmt.Errorf("%w (nothing from key %x up to %x)", cause, at, next)})
	return next
}

// DamagedBlock remembers which keys are in a block that cannot be read. Pebble takes up to seconds for each key that it looks for there.
type DamagedBlock struct {
	Cause error  // of a first key
	last  []byte // the largest key that gave it too; what is between the two does
}

// Has reports whether a key behind the first one is known to be in the block.
func (b *DamagedBlock) Has(key []byte) bool { return bytes.Compare(key, b.last) <= 0 }

// Note remembers what came of looking for a key.
func (b *DamagedBlock) Note(key []byte, err error) {
	if err != nil && err.Error() == b.Cause.Error() && !b.Has(key) {
		b.last = bytes.Clone(key)
	}
}

// batchBytes is about how much is written at once.
const batchBytes = 1 << 20

// version is one entry of a file; a key may have several, the newest first.
type version struct {
	kind  pebble.InternalKeyKind
	value []byte
}

// versionWriter writes the versions of each key, the oldest first.
type versionWriter struct {
	to       *pebble.DB
	batch    *pebble.Batch
	key      []byte
	versions []version
}

func (w *versionWriter) add(key []byte, v version) (err error) {
	if !bytes.Equal(key, w.key) {
		err = w.flush(batchBytes)
		w.key = append(w.key[:0], key...)
	}
	w.versions = append(w.versions, v)
	return err
}

// flush writes the versions, and a batch that has this many bytes.
func (w *versionWriter) flush(least int) error {
	for _, v := range slices.Backward(w.versions) {
		if err := addEntry(w.batch, v.kind, w.key, v.value); err != nil {
			return err
		}
	}
	w.versions = w.versions[:0]
	if w.batch.Len() < least {
		return nil
	}
	err := w.to.Apply(w.batch, pebble.NoSync)
	w.batch = w.to.NewBatch()
	return err
}

func addEntry(b *pebble.Batch, kind pebble.InternalKeyKind, key, value []byte) error {
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

// copyBatches writes what can be read of a log, which ends where it is damaged.
func (p *Patient) copyBatches(to *pebble.DB, whole, name string) error {
	l, err := readLog(whole, name, p.FS)
	if err != nil {
		return err
	}
	l.read(func(record []byte) bool {
		if isBatch(record) {
			err = copyBatch(to, record)
		}
		return err == nil
	})
	return err
}

func copyBatch(to *pebble.DB, record []byte) error {
	b, batch := to.NewBatch(), batchrepr.Read(record)
	for {
		kind, key, value, ok, err := batch.Next()
		if err != nil || !ok {
			return to.Apply(b, pebble.NoSync)
		}
		if err := addEntry(b, kind, key, value); err != nil {
			return errors.Join(err, b.Close())
		}
	}
}
