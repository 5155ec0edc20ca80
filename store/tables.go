package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/failfs"
	"github.com/neardup/neardup/internal/fault"
)

// epochs are the epochs of an index. Commits write to last. If first is not last, it is last-1 and
// frozen: it waits for a compaction.
type epochs struct{ first, last uint64 }

// keyspaceOf returns the keyspace of an epoch. The keyspaces of two adjacent epochs are on either
// side of the packed tables, so that a compaction replaces one span of keys, whichever epoch is
// frozen.
func keyspaceOf(epoch uint64) byte {
	if epoch%2 == 0 {
		return evenKeyspace
	}
	return oddKeyspace
}

// live returns the keyspaces of the epochs.
func (e epochs) live() []byte {
	if e.first == e.last {
		return []byte{keyspaceOf(e.last)}
	}
	return []byte{keyspaceOf(e.first), keyspaceOf(e.last)}
}

// packed returns the epochs after a compaction of the frozen epoch.
func (e epochs) packed() epochs { return epochs{e.last, e.last} }

func (e epochs) check() error {
	if e.last < e.first || e.last-e.first > 1 {
		return fmt.Errorf("%w: epochs %d to %d", fault.ErrCorrupt, e.first, e.last)
	}
	return nil
}

// packing describes the packed tables.
type packing struct {
	generation uint64      // 0: no packed tables
	nextID     uint64      // all packed documents have IDs below it
	tables     []tableInfo // by table
}

// tableInfo describes a packed table.
type tableInfo struct {
	Entries uint64 // fingerprints
	Blocks  uint64
	Bytes   uint64 // of the blocks
}

// Tables are the packed tables and the epochs of a store between two steps of a compaction (Freeze,
// Take). They show the newest commits as long as they are the current tables of the store. After
// the next step they show the state before that step, until the last holder releases them. So the
// packed tables and the keyspaces of the epochs never change for a holder.
type Tables struct {
	reader
	db      *pebble.DB
	guarded *failfs.FS
	jobs    *jobs
	packing packing
	epochs  epochs
	arena   *arena // nil: there are no packed tables

	holders  atomic.Int64 // their number, including the store
	released atomic.Bool  // the last holder has released the arena
	pin      atomic.Pointer[pin]
}

// newTables returns tables with one holder, the store.
func (s *Store) newTables(p packing, e epochs) *Tables {
	t := &Tables{db: s.db, guarded: s.guarded, jobs: &s.jobs, packing: p, epochs: e}
	t.reader = reader{from: t, live: e.live()}
	t.holders.Store(1)
	return t
}

// with returns tables with the same packed tables and other epochs.
func (s *Store) with(t *Tables, e epochs) *Tables {
	next := s.newTables(t.packing, e)
	if next.arena = t.arena; next.arena != nil {
		next.arena.holders.Add(1)
	}
	for _, p := range t.packed {
		q := *p
		q.from = next
		next.packed = append(next.packed, &q)
	}
	return next
}

// Tables returns the current tables. The caller must call Release.
func (s *Store) Tables() *Tables {
	for {
		t := s.tables.Load()
		t.Hold()
		if s.tables.Load() == t {
			return t
		}
		t.Release() // the store may have been the last holder
	}
}

// Now returns the current tables without holding them. The caller must be the only user of the
// store, or hold the commit lock of the index, so that neither Freeze nor Take runs while it uses
// the tables. Generation, PackedEntries and PackedBefore never change, so they need no lock.
func (s *Store) Now() *Tables { return s.tables.Load() }

// Hold adds a holder. A caller that is not a holder yet must check that the tables are still the
// current tables before it uses them.
func (t *Tables) Hold() { t.holders.Add(1) }

// Release removes a holder.
func (t *Tables) Release() {
	if t.holders.Add(-1) > 0 {
		return
	}
	if t.arena != nil && !t.released.Swap(true) {
		t.arena.release()
	}
	if p := t.pin.Swap(nil); p != nil {
		_ = t.closeIter(p.it, 0)
	}
}

// pinTo makes the tables show the current state of the database from now on. The caller must
// prevent writes during the call.
func (t *Tables) pinTo(db *pebble.DB) error {
	it, err := db.NewIter(nil)
	if err != nil {
		return translateError(err)
	}
	t.pin.Store(&pin{it: it})
	return nil
}

// replace makes next the current tables. The previous tables must have a pin.
func (s *Store) replace(next *Tables) { s.tables.Swap(next).Release() }

// Get returns the value of a key in the state that the tables show.
func (t *Tables) Get(key []byte) ([]byte, io.Closer, error) {
	if p := t.pin.Load(); p != nil {
		return p.Get(key)
	}
	value, closer, err := t.db.Get(key)
	p := t.pin.Load()
	if p == nil {
		return value, closer, err
	}
	if err == nil { // the value may have been written after the pin
		err = closer.Close()
	}
	if err != nil && !errors.Is(err, pebble.ErrNotFound) {
		return nil, nil, err
	}
	return p.Get(key)
}

// pin keeps a snapshot of the database.
type pin struct {
	mu sync.Mutex
	it *pebble.Iterator // is cloned, and never moved
}

func (p *pin) clone() (*pebble.Iterator, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.it.Clone(pebble.CloneOptions{})
}

// Get returns the value of a key in the snapshot.
func (p *pin) Get(key []byte) ([]byte, io.Closer, error) {
	it, err := p.clone()
	if err != nil {
		return nil, nil, err
	}
	if it.SeekGE(key) && bytes.Equal(it.Key(), key) {
		if value, err := it.ValueAndErr(); err == nil {
			return value, it, nil
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return nil, nil, err
	}
	return nil, nil, pebble.ErrNotFound
}

// newIter returns an iterator over the state that the tables show.
func (t *Tables) newIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	it, err := t.db.NewIter(o)
	if p := t.pin.Load(); p != nil && err == nil { // the iterator may show writes after the pin
		if err = t.guarded.CloseIterator(it); err == nil {
			it, err = p.clone()
		}
	}
	return it, translateError(err)
}

// closeIter closes an iterator that newIter returned. since is the number of jobs at that time.
func (t *Tables) closeIter(it *pebble.Iterator, since uint64) error {
	if t.jobs.none(since) {
		return translateError(t.guarded.CloseIterator(it))
	}
	err := it.Error()
	t.jobs.closing.Go(func() { _ = t.guarded.CloseIterator(it) })
	return translateError(err)
}

// View opens a view of the state that the tables show. The view holds the tables.
func (t *Tables) View() (*View, error) {
	since := t.jobs.count.Load()
	it, err := t.newIter(nil)
	if err != nil {
		return nil, err
	}
	t.Hold()
	v := newView(it, t.packed, t.live)
	v.tables, v.jobs = t, since
	return v, nil
}

// Packed returns a packed table, or nil if the store has no packed tables.
func (t *Tables) Packed(table int) *PackedTable {
	if table >= len(t.packed) {
		return nil
	}
	return t.packed[table]
}

// PackedEntries returns the number of packed fingerprints.
func (t *Tables) PackedEntries() uint64 {
	if len(t.packing.tables) == 0 {
		return 0
	}
	return t.packing.tables[0].Entries
}

// PackedCached returns the share of packed bytes that are in memory, from 0 to 1.
func (t *Tables) PackedCached() float64 {
	total := uint64(0)
	for _, info := range t.packing.tables {
		total += info.Bytes
	}
	if total == 0 || t.arena == nil {
		return 1
	}
	return min(1, float64(t.arena.bytes.Load())/float64(total))
}

// PackedMemory returns the bytes of memory that the directories and the cached blocks occupy.
func (t *Tables) PackedMemory() (directory, cached int64) {
	for _, p := range t.packed {
		directory += p.ramBytes()
	}
	if t.arena != nil {
		cached = t.arena.bytes.Load()
	}
	return directory, cached
}

// Generation returns the number of compactions and bulk loads that have written the packed tables.
func (t *Tables) Generation() uint64 { return t.packing.generation }

// PackedBefore returns a number that is larger than the IDs of all packed documents.
func (t *Tables) PackedBefore() uint64 { return t.packing.nextID }

// Epochs returns the number of epochs: 1, or 2 if one is frozen.
func (t *Tables) Epochs() int { return len(t.live) }

// Frozen reports whether an epoch is frozen.
func (t *Tables) Frozen() bool { return t.epochs.first < t.epochs.last }

// Freeze starts a new epoch: the live entries are frozen, and commits write to the new epoch from
// now on. The caller must prevent writes during the call. Freeze returns an error if an epoch is
// already frozen. After a crash, the epoch is frozen, or all later writes are lost.
//
// The caller must call WaitForCheckpoint after the previous Take. A checkpoint copies the files
// first and the log later. If it copied the files before that Take and the log after Freeze, the
// new epoch would have the same keyspace as the epoch that was taken.
func (s *Store) Freeze() error {
	if err := s.writable(); err != nil {
		return err
	}
	t := s.tables.Load()
	if t.Frozen() {
		return errors.New("freeze: an epoch is already frozen")
	}
	e := epochs{t.epochs.last, t.epochs.last + 1}
	if err := t.pinTo(s.db); err != nil {
		return err
	}
	b := s.NewBatch()
	b.setMeta("epochs", Meta{epochs: e})
	if err := s.Apply(b, false); err != nil {
		return err // the store has failed; the pinned tables show all commits
	}
	s.replace(s.with(t, e))
	return nil
}

// Take replaces the packed tables and the frozen epoch by the tables of a Rewrite, in one durable
// step. The caller must have called Prepare, and must prevent writes during the call. Take does not
// change the newest epoch. After an error other than ErrFailed, nothing has changed.
func (s *Store) Take(ctx context.Context, r *Rewrite) error {
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	before := s.tables.Load()
	if !before.Frozen() {
		return errors.New("take: no epoch is frozen")
	}
	if err := before.pinTo(s.db); err != nil {
		return err
	}
	span := exciseSpan(before.epochs)
	err := translateError(
		s.guard(func() error { return s.excise(context.WithoutCancel(ctx), r.paths, span) }))
	var next *Tables
	if err == nil {
		next, err = s.openTables(r.packing(before), before.epochs.packed())
		if err != nil {
			s.fail(err) // the new tables are installed on disk, and the next Open reads them
		}
	}
	if failed := s.writable(); failed != nil {
		// Readers keep the pinned tables, since the store accepts no further writes.
		if next != nil {
			next.Release()
		}
		return failed
	}
	if err != nil {
		s.replace(s.with(before, before.epochs))
		return err
	}
	if before.arena != nil {
		before.arena.stopFilling()
	}
	s.startFilling(next, before.arena)
	s.replace(next)
	return nil
}
