package store

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/internal/fault"
)

// Batch gathers writes that become visible, and durable, together. Its methods fail only if the
// batch grows beyond Pebble's limit of 4 GB; Apply returns the first such error.
type Batch struct {
	batch  *pebble.Batch
	live   byte // keyspace of the epoch that commits write to
	err    error
	buffer []byte
}

// NewBatch returns an empty batch. It must be applied or closed, and applied before the next
// Freeze.
func (s *Store) NewBatch() *Batch {
	return &Batch{batch: s.db.NewBatch(), live: s.tables.Load().newest()}
}

// Close releases a batch that is not applied.
func (b *Batch) Close() error { return b.batch.Close() }

func (b *Batch) keep(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *Batch) set(key, value []byte) { b.keep(b.batch.Set(key, value, nil)) }

// SetLive adds a stored fingerprint and the ID of its document to table 0.
func (b *Batch) SetLive(stored, id uint64) { b.set(liveKey(b.live, stored, id), nil) }

// SetEntry adds a permuted fingerprint to a table other than table 0.
func (b *Batch) SetEntry(table int, permuted uint64) {
	b.set(tableKey(b.live, table, permuted), nil)
}

// Remove makes all entries with an ID invalid.
func (b *Batch) Remove(id uint64) { b.set(tableKey(b.live, removedTable, id), nil) }

// SetRecord writes the record of a document.
func (b *Batch) SetRecord(r Record) {
	b.buffer = r.appendTo(b.buffer[:0])
	b.set(documentKey(r.ID), b.buffer)
}

// DeleteRecord deletes the record of a document.
func (b *Batch) DeleteRecord(id uint64) { b.keep(b.batch.Delete(documentKey(id), nil)) }

// SetKey adds an entry of a key hash and a document ID.
func (b *Batch) SetKey(hash, id uint64) { b.set(keyKey(hash, id), nil) }

// DeleteKey deletes an entry of a key hash and a document ID.
func (b *Batch) DeleteKey(hash, id uint64) { b.keep(b.batch.Delete(keyKey(hash, id), nil)) }

// DuplicateCount has the numbers of duplicates of a stored document.
type DuplicateCount = duplicates.Count

// AddDuplicates adds to the count of the duplicates of a document.
func (b *Batch) AddDuplicates(id uint64, c DuplicateCount) {
	b.buffer = appendCount(b.buffer[:0], c)
	b.keep(b.batch.Merge(countKey(id), b.buffer, nil))
}

// DeleteDuplicates deletes the count of the duplicates of a document.
func (b *Batch) DeleteDuplicates(id uint64) { b.keep(b.batch.Delete(countKey(id), nil)) }

// SetCrowded writes the IDs of the crowded documents.
func (b *Batch) SetCrowded(ids []uint64) { b.setMeta("crowded", Meta{Crowded: ids}) }

// SetCounters writes the counters.
func (b *Batch) SetCounters(c Counters) { b.setMeta("counters", Meta{Counters: c}) }

func (b *Batch) setMeta(name string, m Meta) { b.set(metaKey(name), m.encode(name)) }

// applyPatience is how long Apply waits for a batch in progress after a failure. A batch that
// completes in that time is visible, and reported as applied.
const applyPatience = 2 * time.Second

// Commit is a batch that was applied. It is visible, and it may not be durable yet. Any number of
// goroutines may wait for it. A nil Commit is durable.
type Commit struct{ wait func() error }

// Wait waits until the commit, and every commit before it, is durable.
func (c *Commit) Wait() error {
	if c == nil {
		return nil
	}
	return c.wait()
}

// Apply makes the batch visible to every View that is opened later. If durable is true, Last then
// returns its Commit. Otherwise, the batch becomes durable later. Batches become durable in the
// order in which they are applied. The batch must not be used again. The caller must serialize
// calls.
func (s *Store) Apply(b *Batch, durable bool) error {
	if err := s.writable(); err != nil {
		return errors.Join(err, b.Close())
	}
	if b.err != nil {
		return errors.Join(b.err, b.Close())
	}
	if !durable {
		if err := s.guarded.Do(applyPatience, func() error {
			return s.db.Apply(b.batch, pebble.NoSync)
		}); err != nil {
			return s.fail(err)
		}
		return b.Close()
	}
	applied := make(chan error, 1)
	commit := &Commit{wait: sync.OnceValue(func() error {
		if err := <-applied; err != nil {
			return err
		}
		if err := s.fail(s.guard(b.batch.SyncWait)); err != nil {
			return err
		}
		return b.Close()
	})}
	before := s.last.Swap(commit) // before a View can show the batch
	err := s.fail(s.guarded.Do(applyPatience, func() error {
		return s.db.ApplyNoSyncWait(b.batch, pebble.Sync)
	}))
	if err != nil {
		s.last.Store(before)
	}
	applied <- err
	return err
}

// Last returns the newest commit that was applied as durable, or nil. A writer that names a
// document in its answer must wait for the commit that Last returns after the View with the
// document was opened. Queries may return documents that are not durable yet.
func (s *Store) Last() *Commit { return s.last.Load() }

// Sync makes all applied batches durable.
func (s *Store) Sync() error {
	if s.readOnly {
		return nil
	}
	if err := s.writable(); err != nil {
		return err
	}
	mark := s.db.NewBatch()
	if err := mark.LogData(nil, nil); err != nil {
		return errors.Join(err, mark.Close())
	}
	return s.commit(mark)
}

// commit applies a batch and waits until it is durable.
func (s *Store) commit(b *pebble.Batch) error {
	err := s.guard(func() error {
		if err := s.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
			return err
		}
		return b.SyncWait()
	})
	if err != nil {
		return s.fail(err)
	}
	return b.Close()
}

func (s *Store) writable() error {
	if s.readOnly {
		return fault.ErrReadOnly
	}
	if err := s.failed.Load(); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrFailed, *err)
	}
	return nil
}

// fail translates the error of a write, and records the first one: after a failed write, the
// contents of the log are unknown until the index is opened again.
func (s *Store) fail(err error) error {
	if err == nil {
		return nil
	}
	err = translateError(err)
	s.failed.CompareAndSwap(nil, &err)
	return err
}
