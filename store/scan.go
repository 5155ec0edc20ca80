package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/surgeon"
)

// Corruption is something in a store that cannot be read, or does not follow docs/format.md.
type Corruption struct {
	Unreadable bool   // the bytes cannot be had at all; not set: they are wrong
	Keyspace   string // as docs/format.md names it, or "file"
	Key        []byte // of the entry, or the first that may be missing; the name of a file
	Err        error  // Is ErrCorrupt
}

// policy says what becomes of corruption: it is reported, and the scan goes on. Without one, a scan ends
// with the first corruption as its error.
type policy struct {
	ctx    context.Context
	report func(Corruption)
	tell   func() // for each entry read; nil: nobody asks
	lost   map[byte]bool
	seen   map[int]PackedTableInfo
}

// Lenient returns a view of the same moment that passes over what cannot be read or does not follow the
// format. report gets all of that as it is found, tell, if it is not nil, is called for every entry read.
// What its methods yield follows the format by itself; their only error is that of ctx. It is good until v is
// closed, and need not be closed.
func (v *View) Lenient(ctx context.Context, report func(Corruption), tell func()) *View {
	lenient := newView(v.it, v.packed, v.live)
	lenient.policy = &policy{ctx: ctx, report: report, tell: tell, lost: map[byte]bool{}, seen: map[int]PackedTableInfo{}}
	return lenient
}

// Complete reports whether everything of the keyspaces could be read that a lenient view was asked for.
func (v *View) Complete(keyspaces ...string) bool {
	for keyspace := range v.policy.lost {
		if slices.Contains(keyspaces, keyspaceNames[keyspace]) {
			return false
		}
	}
	return true
}

func (p *policy) corrupt(unreadable bool, key []byte, err error) {
	name := "unknown"
	if len(key) > 0 {
		p.lost[key[0]] = true
		name = cmp.Or(keyspaceNames[key[0]], name)
	}
	p.report(Corruption{unreadable, name, bytes.Clone(key), corrupt(err)})
}

// corrupt makes ErrCorrupt of whatever keeps something from being read.
func corrupt(err error) error {
	if err = translateError(err); err == nil || errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
}

// CheckFiles reads the sorted tables that hold the store, every block of them from the
// disk, and compares their checksums. report gets each file that is damaged, tell, if it
// is not nil, the bytes of each one read.
func (s *Store) CheckFiles(ctx context.Context, report func(Corruption), tell func(bytes uint64)) error {
	o := *s.options
	o.FS = s.fs
	return translateError(surgeon.CheckTables(ctx, s.db, &o, s.dir, ofFiles(report), tell))
}

func ofFiles(report func(Corruption)) func(surgeon.Damage) {
	return func(d surgeon.Damage) { report(Corruption{d.Unreadable, "file", []byte(d.File), corrupt(d.Err)}) }
}

// scan yields what decode makes of the entries from first to the one before end, in ascending order. Bytes
// that decode gets are good until it is called again.
func scan[T any](v *View, first, end []byte, decode func(key, value []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var failed error
		err := v.entries(first, end, func(key, value []byte) bool {
			entry, err := decode(key, value)
			switch {
			case err == nil:
				return yield(entry, nil)
			case v.policy != nil:
				v.policy.corrupt(false, key, err)
				return true
			}
			failed = fmt.Errorf("%s entry %x: %w", keyspaceNames[key[0]], key, err)
			return false
		})
		if err = cmp.Or(failed, err); err != nil {
			var none T
			yield(none, err)
		}
	}
}

// entries yields the entries from first to the one before end until yield returns false.
func (v *View) entries(first, end []byte, yield func(key, value []byte) bool) error {
	it, err := v.it.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: first, UpperBound: end}})
	if err != nil {
		return translateError(err)
	}
	defer it.Close() // its errors are those of each step
	if v.policy != nil {
		return v.policy.entries(it, first, end, yield)
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return translateError(err)
		}
		if !yield(it.Key(), value) {
			return nil
		}
	}
	return translateError(it.Error())
}

func (p *policy) entries(it *pebble.Iterator, first, end []byte, yield func(key, value []byte) bool) error {
	at := bytes.Clone(first) // the next key that there may be
	ok := it.First()
	for n := 0; ; n++ {
		if n%1024 == 0 && p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		if !ok {
			if err := it.Error(); err == nil || fault.Denied(err) {
				return translateError(err)
			} else if !p.resume(it, at, end, err) {
				return p.ctx.Err()
			}
		}
		key := it.Key()
		value, err := it.ValueAndErr()
		if fault.Denied(err) {
			return translateError(err)
		}
		if err != nil {
			p.corrupt(true, key, err)
		} else {
			if p.tell != nil {
				p.tell()
			}
			if !yield(key, value) {
				return nil
			}
		}
		at = append(append(at[:0], key...), 0)
		ok = it.Next()
	}
}

// resume moves an iterator that failed to the first entry behind what it cannot read,
// and reports what that is.
func (p *policy) resume(it *pebble.Iterator, at, end []byte, err error) bool {
	var to []byte
	block := surgeon.DamagedBlock{Cause: err}
	if len(at) > 0 {
		to = nextReadable(at, func(key []byte) bool {
			if p.ctx.Err() != nil || bytes.Compare(key, end) >= 0 {
				return true // there is nothing to read
			}
			if block.Has(key) {
				return false
			}
			it.SeekGE(key)
			block.Note(key, it.Error())
			return it.Error() == nil
		})
	}
	if p.ctx.Err() != nil {
		return false
	}
	if to == nil || bytes.Compare(to, end) > 0 {
		to = end
	}
	p.corrupt(true, at, fmt.Errorf("%w (nothing from key %x up to %x)", corrupt(err), at, to))
	return it.SeekGE(to)
}

// UnknownKeys reports every entry in a keyspace or a table that an index with so many tables
// does not have; packed says whether it has any that are packed. The view must be a lenient one.
func (v *View) UnknownKeys(tables int, packed bool) error {
	// What is allowed, in the order of the keys; what is between is not.
	allowed := [][2][]byte{}
	for _, keyspace := range []byte{clockKeyspace, documentKeyspace, keyKeyspace, metaKeyspace} {
		allowed = append(allowed, [2][]byte{{keyspace}, keyspaceEnd(keyspace)})
	}
	live := func(keyspace byte) {
		i := slices.IndexFunc(v.live, func(l liveEntries) bool { return l.keyspace == keyspace })
		switch {
		case i < 0:
		case v.live[i].replanned:
			allowed = append(allowed, [2][]byte{{keyspace}, tableEnd(keyspace, ComingTables+tables-1)})
		default: // a change of the plan that came to no end may have written more
			allowed = append(allowed, [2][]byte{{keyspace}, tableEnd(keyspace, tables-1)}, [2][]byte{tableStart(keyspace, max(tables, ComingTables)), keyspaceEnd(keyspace)})
		}
	}
	live(evenKeyspace)
	if packed {
		for _, keyspace := range []byte{packedKeyspace, directoryKeyspace, filterKeyspace} {
			allowed = append(allowed, [2][]byte{{keyspace}, tableEnd(keyspace, tables-1)})
		}
		allowed = append(allowed, [2][]byte{tableStart(filterKeyspace, KeyFilterTable), tableEnd(filterKeyspace, KeyFilterTable)})
	}
	live(oddKeyspace)
	allowed = append(allowed, [2][]byte{bytes.Repeat([]byte{0xff}, tableKeyLen+1), nil})
	var first []byte
	for _, span := range allowed {
		if bytes.Equal(first, span[0]) {
			first = span[1]
			continue
		}
		err := v.entries(first, span[0], func(key, _ []byte) bool {
			v.policy.report(Corruption{false, "unknown", bytes.Clone(key), fmt.Errorf("%w: an index with %d tables has no such entry", fault.ErrCorrupt, tables)})
			return true
		})
		if err != nil {
			return err
		}
		first = span[1]
	}
	return nil
}
