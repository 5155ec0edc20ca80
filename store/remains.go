package store

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"sort"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/fault"
)

// Remains reads the documents of a store that may be damaged. It changes nothing in the store.
type Remains struct {
	*View
	store *Store

	// Unreadable is called with the error of each place that cannot be read.
	Unreadable func(error)

	// Lost is the number of documents that Documents has found but cannot yield. It cannot read
	// their record, or it cannot read whether they were removed.
	Lost uint64

	// Err is the error that has ended Documents early although the files are not damaged, such as
	// too many open files.
	Err error
}

// OpenRemains opens the store in dir for reading, even if meta or packed tables are damaged.
// It fails if Pebble refuses to open the database. It returns the errors of Open.
func OpenRemains(dir string, opts Options) (*Remains, error) {
	opts.ReadOnly, opts.remains = true, true
	s, err := Open(dir, opts)
	if err != nil {
		return nil, err
	}
	v, err := s.View()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	v.live = []byte{evenKeyspace, oddKeyspace}
	return &Remains{View: v, store: s}, nil
}

// Close closes the store.
func (r *Remains) Close() error { return errors.Join(r.View.Close(), r.store.Close()) }

// Documents yields every document that can be read: first the documents with a record, by ID, then
// the documents of bulk loads, which have none.
func (r *Remains) Documents() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		seen, removed := roaring64.New(), roaring64.New()
		var unknown ranges // of IDs: the record, or whether it was removed, cannot be read
		for d := range readable(r, &unknown, r.Records, func(d Record) uint64 { return d.ID }) {
			if seen.Add(d.ID); !yield(d) {
				return
			}
		}
		for epoch := range r.live {
			scan := func(first uint64) iter.Seq2[uint64, error] {
				return r.removedFrom(epoch, first)
			}
			for id := range readable(r, &unknown, scan, func(id uint64) uint64 { return id }) {
				removed.Add(id)
			}
		}
		var packed ranges
		for block := range readable(r, &packed, r.blocks,
			func(block []Posting) uint64 { return block[len(block)-1].Stored }) {
			for _, p := range block {
				for id := range p.IDs.All() {
					switch {
					case removed.Contains(id) || !seen.CheckedAdd(id):
					case unknown.contain(id):
						r.Lost++
					case !yield(Record{ID: id, Fingerprint: p.Stored}):
						return
					}
				}
			}
		}
	}
}

// blocks yields the postings of each packed block of table 0, from the block of a
// fingerprint on. It does not need the directory.
func (r *Remains) blocks(first uint64) iter.Seq2[[]Posting, error] {
	return scan(r.View, tableKey(packedKeyspace, 0, first), tableEnd(packedKeyspace, 0),
		func(key, value []byte) (all []Posting, err error) {
			last, err := keyNumber(key, tableKeyLen)
			if err != nil {
				return nil, err
			}
			var b Block
			if err := openBlock(&b, value, 0, last, followed{}); err != nil {
				return nil, err
			}
			if err := b.Verify(); err != nil {
				return nil, err
			}
			for i, stored := range b.AppendTo(nil) {
				ids, err := b.Posting(i)
				if err != nil {
					return nil, err
				}
				all = append(all, Posting{stored, ids})
			}
			return all, nil
		})
}

// ranges are numbers of entries that cannot be read: the first of each range, and its end.
type ranges [][2]uint64

func (rs ranges) contain(n uint64) bool {
	for _, r := range rs {
		if r[0] <= n && n < r[1] {
			return true
		}
	}
	return false
}

// readable yields the entries that scan can read, in the order of their numbers, and adds all
// other numbers to unknown. To pass over what cannot be read, it doubles its steps until an
// entry can be read, and then searches between the last two steps.
func readable[T any](
	r *Remains, unknown *ranges, scan func(first uint64) iter.Seq2[T, error], number func(T) uint64,
) iter.Seq[T] {
	canRead := func(n uint64) bool {
		for _, err := range scan(n) {
			return err == nil
		}
		return true
	}
	return func(yield func(T) bool) {
		for first := uint64(0); first < math.MaxUint64; {
			var failed error
			for entry, err := range scan(first) {
				if failed = err; err != nil {
					break
				}
				if !yield(entry) || number(entry) == math.MaxUint64 {
					return
				}
				first = number(entry) + 1
			}
			if fault.Denied(failed) {
				r.Err = failed
			}
			if failed == nil || r.Err != nil {
				return
			}
			r.Unreadable(fmt.Errorf("%w: %w", fault.ErrCorrupt, firstLine{failed}))
			bad, good := first, uint64(math.MaxUint64)
			for step := uint64(1); step < good-bad; step *= 2 {
				if canRead(bad + step) {
					good = bad + step
				} else {
					bad += step
				}
			}
			good = bad + 1 + uint64(sort.Search(int(good-bad-1),
				func(i int) bool { return canRead(bad + 1 + uint64(i)) }))
			*unknown = append(*unknown, [2]uint64{first, good})
			first = good
		}
	}
}
