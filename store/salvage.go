package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/surgeon"
)

// Salvage is what can be read of a store that may be damaged, also one that Open refuses.
// Nothing of the store is changed.
type Salvage struct {
	db    *pebble.DB
	it    *pebble.Iterator
	close []func() error
}

// OpenSalvage opens the store in dir, which no one else may have open. work is a folder
// for what that takes, which must not exist; package surgeon says what is in it. report gets all damage
// that is found. Errors: ErrLocked, ctx's, those of the file system.
func OpenSalvage(ctx context.Context, dir, work string, opts Options, report func(Corruption)) (s *Salvage, err error) {
	opts.FS = fileSystem(opts.FS)
	lock, err := lockDir(dir, opts.FS)
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	s = &Salvage{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("salvage index %s: %w", dir, translateError(err)), s.Close())
		}
	}()
	s.close = []func() error{func() error { return opts.FS.RemoveAll(work) }, lock.own.Close}
	cache := pebble.NewCache(pebbleCacheBytes(opts.CacheBytes))
	defer cache.Unref()
	if err := opts.FS.RemoveAll(work); err != nil { // of a salvage that was cut short
		return s, err
	}
	patient := surgeon.Patient{Dir: dir, Work: work, FS: opts.FS, Report: ofFiles(report), Next: nextReadable, Merged: isLivePosting, Skip: notPebbles,
		Options: func() *pebble.Options {
			o := pebbleOptions(opts, cache)
			s.close = append(s.close, func() error { o.FileCache.Unref(); return nil })
			return o
		},
	}
	if s.db, err = patient.Open(ctx); err != nil {
		return s, err
	}
	s.close = append(s.close, s.db.Close)
	if s.it, err = s.db.NewIter(nil); err == nil {
		s.close = append(s.close, s.it.Close)
	}
	return s, err
}

// View returns a lenient view of what was saved.
func (s *Salvage) View(ctx context.Context, report func(Corruption), tell func()) *View {
	return newView(s.it, nil, []liveEntries{{keyspace: evenKeyspace}, {keyspace: oddKeyspace}}).Lenient(ctx, report, tell)
}

// Close lets go of the store and removes the folder for work.
func (s *Salvage) Close() (err error) {
	for _, f := range slices.Backward(s.close) {
		err = errors.Join(err, f())
	}
	return err
}

// nextReadable returns where reading goes on behind a key from which on nothing can be read; nil if nowhere. Of the
// keys that differ from it in the number at their end only it takes ever larger steps until one is readable, and then
// halves them, so that what lies between two damaged places is passed over only where it is shorter than the first of
// them. Behind those come the next tables and keyspaces. The last of some keys is looked at first: where it is in the
// damaged block, so are all before it, of which readable then knows without another look.
func nextReadable(at []byte, readable func(key []byte) bool) []byte {
	length, width := keyLayout(at[0])
	if prefix := length - width; width > 0 && len(at) >= prefix {
		key := func(n uint64) []byte {
			full := binary.BigEndian.AppendUint64(nil, n)
			return append(bytes.Clone(at[:prefix]), full[8-width:]...)
		}
		bad, good := uint64(0), uint64(math.MaxUint64)>>(64-8*width)
		for _, b := range append(bytes.Clone(at[prefix:]), make([]byte, width)...)[:width] { // at may be shorter than a key
			bad = bad<<8 | uint64(b)
		}
		readable(key(good))
		for step := uint64(1); step <= (good-bad)/4; step *= 4 {
			if n := bad + step; readable(key(n)) {
				good = n
			} else {
				bad = n
			}
		}
		for good-bad > 1 {
			if middle := bad + (good-bad)/2; readable(key(middle)) {
				good = middle
			} else {
				bad = middle
			}
		}
		if readable(key(good)) {
			return key(good)
		}
	}
	for keyspace := int(at[0]); keyspace <= afterTables; keyspace++ {
		keys := [][]byte{{byte(keyspace)}}
		for table := 0; keyspace >= evenKeyspace && table < 64; table++ {
			keys = append(keys, tableStart(byte(keyspace), table))
		}
		readable(keys[len(keys)-1])
		for _, key := range keys {
			if bytes.Compare(key, at) > 0 && readable(key) {
				return key
			}
		}
	}
	return nil
}
