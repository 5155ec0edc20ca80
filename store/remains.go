package store

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/fault"
)

// Remains calls add with every document that can be read in a view of a damaged store: first the
// documents with a record, by ID, then the documents of bulk loads, which have none. It calls
// unreadable with the error of each place that cannot be read. It returns the number of documents
// that it finds but does not add, because their records or the removed IDs cannot be read there. It
// ends at an error of add, and at an error that does not indicate damage, such as too many open
// files.
func (v *View) Remains(
	add func(Record) error, unreadable func(error),
) (lost uint64, err error) {
	known := roaring64.New() // IDs that were added or removed
	unknown, err := readable(v.Records, func(d Record) (uint64, error) {
		known.Add(d.ID)
		return d.ID, add(d)
	}, unreadable)
	if err != nil {
		return 0, err
	}
	for epoch := range v.live {
		removed := func(first uint64) iter.Seq2[uint64, error] {
			return v.removedFrom(epoch, first)
		}
		gaps, err := readable(removed, func(id uint64) (uint64, error) {
			known.Add(id)
			return id, nil
		}, unreadable)
		if err != nil {
			return 0, err
		}
		unknown = append(unknown, gaps...)
	}
	_, err = readable(v.verifiedBlocks, func(b *Block) (uint64, error) {
		for i, stored := range b.AppendTo(nil) {
			ids, err := b.Posting(i)
			if err != nil {
				return 0, err
			}
			for id := range ids.All() {
				if !known.CheckedAdd(id) {
					continue
				}
				if inGap(unknown, id) {
					lost++
				} else if err := add(Record{ID: id, Fingerprint: stored}); err != nil {
					return 0, err
				}
			}
		}
		return b.Last(), nil
	}, unreadable)
	return lost, err
}

// verifiedBlocks yields the packed blocks of table 0 from a fingerprint on, without the directory.
// A block is valid until the next one.
func (v *View) verifiedBlocks(first uint64) iter.Seq2[*Block, error] {
	var b Block
	return scan(v, tableKey(packedKeyspace, 0, first), tableEnd(packedKeyspace, 0),
		func(key, value []byte) (*Block, error) {
			last, err := keyNumber(key, tableKeyLen)
			if err == nil {
				err = openBlock(&b, value, 0, last, previousBlock{})
			}
			if err == nil {
				err = b.Verify()
			}
			return &b, err
		})
}

// gap is a range of numbers whose entries cannot be read: the first, and the end (exclusive).
type gap [2]uint64

func inGap(gaps []gap, n uint64) bool {
	return slices.ContainsFunc(gaps, func(g gap) bool { return g[0] <= n && n < g[1] })
}

// readable calls visit with the entries that scan can read, in the order of their numbers, which
// visit returns. It returns the gaps. To find the end of a gap, it doubles its steps until an entry
// can be read, and then searches between the last two steps by bisection.
func readable[T any](
	scan func(first uint64) iter.Seq2[T, error], visit func(T) (number uint64, err error),
	unreadable func(error),
) (gaps []gap, err error) {
	canRead := func(n uint64) bool {
		for _, err := range scan(n) {
			return err == nil
		}
		return true
	}
	for first := uint64(0); first < math.MaxUint64; {
		var failed error
		for entry, err := range scan(first) {
			if failed = err; err != nil {
				break
			}
			number, err := visit(entry)
			if err != nil || number == math.MaxUint64 {
				return gaps, err
			}
			first = number + 1
		}
		if failed == nil || fault.Denied(failed) {
			return gaps, failed
		}
		if !errors.Is(failed, fault.ErrCorrupt) {
			failed = fmt.Errorf("%w: %w", fault.ErrCorrupt, failed)
		}
		unreadable(firstLine{failed})
		bad, step := first, uint64(1)
		for step < math.MaxUint64-bad && !canRead(bad+step) {
			bad += step
			step *= 2
		}
		between := min(step, math.MaxUint64-bad) - 1
		end := bad + 1 + uint64(sort.Search(int(between),
			func(i int) bool { return canRead(bad + 1 + uint64(i)) }))
		gaps = append(gaps, gap{first, end})
		first = end
	}
	return gaps, nil
}
