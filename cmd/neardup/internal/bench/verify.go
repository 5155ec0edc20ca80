package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/radix"
	"golang.org/x/sync/errgroup"
)

// reference is what the index is compared with: the paper's k+1 tables in memory, a
// sorted array each. A table leads with one of k+1 blocks of bits; a query finds its
// prefix by a directory of up to 16 bits, without a search, and compares with every fingerprint
// that has it.
type reference struct {
	k      int
	tables []referenceTable
}

// referenceTable holds all fingerprints rotated to the left.
type referenceTable struct {
	rotate int
	prefix int
	mask   uint64 // the block, in the fingerprint as it is
	sorted []uint64

	directoryBits int
	directory     []int // of each leading bits, where the fingerprints begin that have them or come later
}

// findBlocks makes the directory.
func (t *referenceTable) findBlocks() {
	t.directoryBits = min(t.prefix, 16)
	t.directory = make([]int, 1<<t.directoryBits)
	at := 0
	for lead := range t.directory {
		for at < len(t.sorted) && t.sorted[at]>>(64-t.directoryBits) < uint64(lead) {
			at++
		}
		t.directory[lead] = at
	}
}

func newReference(ctx context.Context, c collection, k int) (*reference, error) {
	r := &reference{k: k}
	spare := make([]uint64, c.n)
	for first, i := 0, 0; i <= k; i++ {
		width := 64 / (k + 1)
		if i < 64%(k+1) {
			width++
		}
		rotated := make([]uint64, c.n)
		for i := range rotated {
			rotated[i] = bits.RotateLeft64(c.at(i), first)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sorted := radix.Sort(radix.Words(rotated), radix.Words(spare))
		if &sorted[0][0] == &spare[0] {
			rotated, spare = spare, rotated
		}
		r.tables = append(r.tables, referenceTable{first, width, bits.RotateLeft64(^uint64(0)<<(64-width), -first), rotated, 0, nil})
		r.tables[i].findBlocks()
		first += width
	}
	return r, nil
}

// query appends the fingerprints within k bits, each of them once: it is taken from
// the first table whose block has no flip.
func (r *reference) query(fp uint64, found []uint64) []uint64 {
	for i := range r.tables {
		t := &r.tables[i]
		v := bits.RotateLeft64(fp, t.rotate)
		drop := 64 - t.prefix
		for _, candidate := range t.sorted[t.directory[v>>(64-t.directoryBits)]:] {
			flips := candidate ^ v
			if t.prefix > t.directoryBits && candidate < v>>drop<<drop {
				continue // the directory leads to what comes before
			}
			if flips>>drop != 0 {
				break
			}
			if bits.OnesCount64(flips) <= r.k && !r.foundBefore(i, bits.RotateLeft64(flips, -t.rotate)) {
				found = append(found, bits.RotateLeft64(candidate, -t.rotate))
			}
		}
	}
	return found
}

func (r *reference) foundBefore(table int, flips uint64) bool {
	for i := range table {
		if flips&r.tables[i].mask == 0 {
			return true
		}
	}
	return false
}

// bytes returns the memory of the arrays.
func (r *reference) bytes() int64 {
	n := int64(0)
	for i := range r.tables {
		n += 8*int64(len(r.tables[i].sorted)) + 8*int64(len(r.tables[i].directory))
	}
	return n
}

// ErrWrongAnswer: the index did not return exactly the stored documents within the
// distance. It is a bug, and no figure of such an index is worth anything.
var ErrWrongAnswer = errors.New("wrong answer")

// A verification compares with every stored fingerprint so many times in all, within
// the bounds on the number of queries.
const (
	comparisons = 1 << 30
	minQueries  = 8
	maxQueries  = 64
)

// referenceQueries is the number of answers that are compared with the reference's.
const referenceQueries = 10_000

// verified compares answers with a scan of everything, and with those of the reference if it is
// there.
func (r *run) verified(ctx context.Context, section string, x *index.Index, ref *reference) error {
	asked, err := verify(ctx, x, r.stored, r.MaxDistance)
	if err != nil {
		return err
	}
	r.figure(section, "answers the same as those of a full scan", float64(asked), "queries")
	if ref == nil {
		return nil
	}
	queries := r.stored.queries(r.MaxDistance, streamReference).next(referenceQueries)
	err = eachAnswer(ctx, x, queries, func(q int, matches []index.Match) error {
		return verifyReference(queries[q], matches, ref.query(uint64(queries[q]), nil))
	})
	if err == nil {
		r.figure(section, "answers the same as those of the reference", referenceQueries, "queries")
	}
	return err
}

// verify asks the index and compares with every stored fingerprint of the collection.
func verify(ctx context.Context, x *index.Index, c collection, k int) (asked int, err error) {
	queries := c.queries(k, streamVerify).next(min(max(comparisons/max(c.n, 1), minQueries), maxQueries))
	expected, err := scan(ctx, c, k, queries)
	if err != nil {
		return 0, err
	}
	return len(queries), eachAnswer(ctx, x, queries, func(q int, matches []index.Match) error {
		return sameMatches(queries[q], matches, expected[q])
	})
}

// scan returns what is within k bits of each query, by (distance, ID).
func scan(ctx context.Context, c collection, k int, queries []fingerprint.Fingerprint) ([][]index.Match, error) {
	found := make([][]index.Match, len(queries))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for q, asked := range queries {
		group.Go(func() error {
			for i := range c.n {
				if i%(1<<20) == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
				if d := bits.OnesCount64(c.at(i) ^ uint64(asked)); d <= k {
					found[q] = append(found[q], index.Match{Document: index.Document{ID: uint64(i) + 1, Fingerprint: fingerprint.Fingerprint(c.at(i))}, Distance: d})
				}
			}
			slices.SortStableFunc(found[q], func(a, b index.Match) int { return cmp.Compare(a.Distance, b.Distance) })
			return nil
		})
	}
	return found, group.Wait()
}

func sameMatches(asked fingerprint.Fingerprint, matches, expected []index.Match) error {
	same := func(a, b index.Match) bool {
		return a.ID == b.ID && a.Fingerprint == b.Fingerprint && a.Distance == b.Distance
	}
	if !slices.EqualFunc(matches, expected, same) {
		return fmt.Errorf("%w: asked for %v, the index returned %+v, and %+v is stored", ErrWrongAnswer, asked, matches, expected)
	}
	return nil
}

// verifyReference compares the fingerprints that both find.
func verifyReference(asked fingerprint.Fingerprint, matches []index.Match, found []uint64) error {
	got := make([]uint64, len(matches))
	for i, m := range matches {
		got[i] = uint64(m.Fingerprint)
	}
	slices.Sort(got)
	found = slices.Sorted(slices.Values(found))
	if !slices.Equal(got, found) {
		return fmt.Errorf("%w: asked for %v, the index returned %x and the reference %x", ErrWrongAnswer, asked, got, found)
	}
	return nil
}
