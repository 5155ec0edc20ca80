package store

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/fault"
)

// Remains reads the documents of a store that may be damaged. It changes nothing in the store.
type Remains struct {
	store *Store
	view  *View

	// Unreadable, if set, is called with the error of each place that cannot be read.
	Unreadable func(error)

	// Lost is the number of documents that Documents has seen but cannot yield: their record, or
	// whether they were removed, cannot be read.
	Lost uint64

	err error // that says nothing of the files, such as too many open files
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
	return &Remains{store: s, view: v}, nil
}

// Close closes the store.
func (r *Remains) Close() error { return errors.Join(r.view.Close(), r.store.Close()) }

// Err returns the error that has ended Documents early, if any has.
func (r *Remains) Err() error { return r.err }

// Plan and Analyzer return the values of the header, and whether they can be read.
func (r *Remains) Plan() (plan string, ok bool) { return r.text("plan") }

// Analyzer is like Plan.
func (r *Remains) Analyzer() (name string, ok bool) { return r.text("analyzer") }

func (r *Remains) text(name string) (text string, ok bool) {
	text, found, err := get(r.view, metaKey(name), func(value []byte) (string, error) {
		return string(value), nil
	})
	return text, found && err == nil
}

// Counters returns the counters of the store, and whether they can be read.
func (r *Remains) Counters() (c Counters, ok bool) {
	c, found, err := get(r.view, metaKey("counters"), decodeCounters)
	return c, found && err == nil
}

// Documents yields the ID and the record of every document that can be read: first those with a
// record, by ID, then the documents of bulk loads, which have none.
func (r *Remains) Documents() iter.Seq2[uint64, Record] {
	return func(yield func(uint64, Record) bool) {
		r.Lost = 0
		seen, removed := roaring64.New(), roaring64.New()
		var records, removals, live, packed ranges // that cannot be read
		for d := range readable(r, &records, r.view.Records,
			func(d DocumentRecord) uint64 { return d.ID }) {
			if seen.Add(d.ID); !yield(d.ID, d.Record) {
				return
			}
		}
		for epoch := range r.view.live {
			scan := func(first uint64) iter.Seq2[uint64, error] {
				return r.view.removedFrom(epoch, first)
			}
			for id := range readable(r, &removals, scan, func(id uint64) uint64 { return id }) {
				removed.Add(id)
			}
		}
		for epoch := range r.view.live {
			scan := func(first uint64) iter.Seq2[liveID, error] {
				return r.view.liveIDs(epoch, first)
			}
			for e := range readable(r, &live, scan, func(e liveID) uint64 { return e.stored }) {
				if !removed.Contains(e.id) && seen.CheckedAdd(e.id) && !removals.contain(e.id) {
					r.Lost++ // every live document has a record
				}
			}
		}
		for block := range readable(r, &packed, r.packedPostings,
			func(block []Posting) uint64 { return block[len(block)-1].Stored }) {
			for _, p := range block {
				for id := range p.IDs.All() {
					switch {
					case id == 0 || removed.Contains(id) || !seen.CheckedAdd(id):
					// it may have had a record, or have been removed
					case records.contain(id) || removals.contain(id):
						r.Lost++
					case !yield(id, Record{Fingerprint: p.Stored}):
						return
					}
				}
			}
		}
	}
}

// packedPostings yields the postings of each packed block of table 0, from the block of a
// fingerprint on. It does not need the directory.
func (r *Remains) packedPostings(first uint64) iter.Seq2[[]Posting, error] {
	return scan(r.view, tableKey(packedKeyspace, 0, first), tableEnd(packedKeyspace, 0),
		func(key, value []byte) (all []Posting, err error) {
			last, err := keyNumber(key, tableKeyLen)
			if err != nil {
				return nil, err
			}
			var b Block
			if err := openBlock(&b, value, 0, last, followed{}); err != nil {
				return nil, err
			}
			postings, err := b.Postings()
			for i, stored := range b.AppendTo(nil) {
				if err != nil {
					break
				}
				p := Posting{Stored: stored}
				p.IDs, err = postings.IDs(i)
				all = append(all, p)
			}
			return all, errors.Join(err, b.Verify())
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
// other numbers to unknown. To pass over what cannot be read it doubles its steps until an
// entry can be read, and then halves the distance.
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
				r.err = failed
			}
			if failed == nil || r.err != nil {
				return
			}
			if r.Unreadable != nil {
				r.Unreadable(fmt.Errorf("%w: %w", fault.ErrCorrupt, firstLine{failed}))
			}
			bad, good := first, uint64(math.MaxUint64)
			for step := uint64(1); step != 0 && step < good-bad; step *= 2 {
				if canRead(bad + step) {
					good = bad + step
				} else {
					bad += step
				}
			}
			for good-bad > 1 {
				if middle := bad + (good-bad)/2; canRead(middle) {
					good = middle
				} else {
					bad = middle
				}
			}
			*unknown = append(*unknown, [2]uint64{first, good})
			first = good
		}
	}
}
