package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/fault"
)

// Batch gathers writes that become visible, and durable, together. Its methods
// only fail when the batch grows over Pebble's limit of 4 GB or an ID list cannot
// be encoded; the first such error is kept and comes back from Apply.
type Batch struct {
	batch  *pebble.Batch
	live   liveEntries // of the epoch that takes writes
	err    error
	buffer []byte
}

// NewBatch returns an empty batch. It must be applied or closed, with changes of tables before Freeze.
func (s *Store) NewBatch() *Batch {
	return &Batch{batch: s.db.NewBatch(), live: s.tables.Load().newest()}
}

// Close lets go of a batch that is not to be applied.
func (b *Batch) Close() error { return b.batch.Close() }

func (b *Batch) keep(err error) {
	if b.err == nil {
		b.err = err
	}
}

// ChangePosting adds IDs to the posting of a stored fingerprint and removes
// others. Where that would leave none, the entry of table 0 must be deleted.
func (b *Batch) ChangePosting(stored uint64, added, removed IDs) {
	b.encode(change{added, removed}.append)
	b.keep(b.batch.Merge(b.live.key(0, stored), b.buffer, nil))
}

// SetPosting writes a live posting whole, in the place of all that was added to it and
// removed from it, and returns its size.
func (b *Batch) SetPosting(stored uint64, added, removed IDs) int {
	b.encode(change{added, removed}.append)
	b.keep(b.batch.Set(b.live.key(0, stored), b.buffer, nil))
	return len(b.buffer)
}

// encode puts a value into the buffer.
func (b *Batch) encode(appendTo func(dst []byte) ([]byte, error)) {
	var err error
	b.buffer, err = appendTo(b.buffer[:0])
	b.keep(err)
}

// SetEntry puts a permuted fingerprint into a table from 1 on: of the plan.
func (b *Batch) SetEntry(table int, permuted uint64) {
	b.keep(b.batch.Set(b.live.key(table, permuted), nil, nil))
}

// DeleteEntry takes a permuted fingerprint out of a table; from table 0 with its posting.
func (b *Batch) DeleteEntry(table int, permuted uint64) {
	b.keep(b.batch.Delete(b.live.key(table, permuted), nil))
}

// SetRecord writes the record of a document.
func (b *Batch) SetRecord(id uint64, r Record) {
	b.buffer = r.Append(b.buffer[:0])
	b.keep(b.batch.Set(uint64Key(documentKeyspace, id), b.buffer, nil))
}

// DeleteRecord deletes the record of a document.
func (b *Batch) DeleteRecord(id uint64) {
	b.keep(b.batch.Delete(uint64Key(documentKeyspace, id), nil))
}

// SetKeyIDs writes which documents have a key of this hash; none deletes the entry.
func (b *Batch) SetKeyIDs(hash uint64, ids IDs) {
	if ids.Len() == 0 {
		b.keep(b.batch.Delete(uint64Key(keyKeyspace, hash), nil))
		return
	}
	b.encode(ids.Append)
	b.keep(b.batch.Set(uint64Key(keyKeyspace, hash), b.buffer, nil))
}

// SetClock notes that the documents from id on arrived at the given Unix second.
func (b *Batch) SetClock(id, seconds uint64) {
	b.buffer = binary.BigEndian.AppendUint64(b.buffer[:0], seconds)
	b.keep(b.batch.Set(uint64Key(clockKeyspace, id), b.buffer, nil))
}

// ForgetClock drops the clock entries from one ID to the one before another.
func (b *Batch) ForgetClock(first, end uint64) {
	b.keep(b.batch.DeleteRange(uint64Key(clockKeyspace, first), uint64Key(clockKeyspace, end), nil))
}

// SetCounters writes the counters.
func (b *Batch) SetCounters(c Counters) {
	b.keep(b.batch.Set(metaKey("counters"), c.encode(), nil))
}

// applyPatience is how long Apply waits for a batch in progress after a failure. One that completes in
// time is visible, and reported as applied.
const applyPatience = 2 * time.Second

// Commit is a batch that was applied: visible, and on its way to the disk.
type Commit struct {
	applied chan struct{} // closed once wait is set
	wait    func() error
}

var nothingPending = func() *Commit {
	c := &Commit{applied: make(chan struct{}), wait: func() error { return nil }}
	close(c.applied)
	return c
}()

// Wait waits until the commit, and every commit before it, is durable. It may be called from several
// goroutines. None of them waits for another caller.
func (c *Commit) Wait() error {
	<-c.applied
	return c.wait()
}

// Apply makes the batch visible to every View opened from now on, and returns
// finish, which must be called: if durable is set it waits until the batch is
// durable. Batches become durable in the order in which they were applied. The
// batch must not be used again. Calls wait for each other.
func (s *Store) Apply(b *Batch, durable bool) (finish func() error, err error) {
	s.pebbleCache.writes()
	s.applying.Lock() // Last must not go back to an older commit
	defer s.applying.Unlock()
	if err := s.writable(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if b.err != nil {
		return nil, errors.Join(b.err, b.Close())
	}
	if !durable {
		if err := s.guarded.Do(applyPatience, func() error { return s.db.Apply(b.batch, pebble.NoSync) }); err != nil {
			return nil, s.fail(err)
		}
		return b.Close, nil
	}
	// Last must name the commit by the time that a View can show it.
	commit := &Commit{applied: make(chan struct{}), wait: func() error { return fault.ErrFailed }}
	defer close(commit.applied)
	before := s.last.Swap(commit)
	if err := s.guarded.Do(applyPatience, func() error { return s.db.ApplyNoSyncWait(b.batch, pebble.Sync) }); err != nil {
		s.last.Store(before)
		err = s.fail(err)
		commit.wait = func() error { return err }
		return nil, err
	}
	commit.wait = sync.OnceValue(func() error {
		if err := s.fail(s.guard(b.batch.SyncWait)); err != nil {
			return err
		}
		return b.Close()
	})
	return commit.Wait, nil
}

// Last returns the newest commit that was applied for durability. Who has seen
// something in a View and must answer for it waits for the Last of that moment
// or a later one.
func (s *Store) Last() *Commit {
	if c := s.last.Load(); c != nil {
		return c
	}
	return nothingPending
}

// Sync makes everything durable that was applied.
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

// FlushSoon lets Pebble write out in the background what is in its memtable: of a key that was written
// again and again only the newest version is left then. A store that fails over it says so at the next write.
func (s *Store) FlushSoon() {
	s.fail(s.guard(func() error {
		_, err := s.db.AsyncFlush()
		return err
	}))
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

// fail remembers the first failed write: what the log holds after it is not
// known until the index is opened again.
func (s *Store) fail(err error) error {
	if err == nil {
		return nil
	}
	err = translateError(err)
	s.failed.CompareAndSwap(nil, &err)
	return err
}
