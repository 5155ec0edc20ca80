package scan

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/neardup/neardup/internal/radix"
)

// MaxDistance is the largest k.
const MaxDistance = 16

var (
	// ErrDistance: k is not in 0..MaxDistance.
	ErrDistance = errors.New("scan: distance out of range")
	// ErrTooMany: there are more queries than can be numbered in 32 bits.
	ErrTooMany = errors.New("scan: too many queries")
)

// Options of New. The zero value is ready to use.
type Options struct {
	// Collection is about how many fingerprints will be scanned: with many, it pays to
	// prepare more. Default 100 million.
	Collection int64

	// FilterBytes bounds the memory for filters. With less, a scan is slower. Default 1 GiB.
	FilterBytes int64
}

const (
	defaultCollection  = 100_000_000
	defaultFilterBytes = 1 << 30
)

func (o Options) orDefault() Options {
	if o.Collection <= 0 {
		o.Collection = defaultCollection
	}
	if o.FilterBytes <= 0 {
		o.FilterBytes = defaultFilterBytes
	}
	return o
}

// Queries are fingerprints in memory with which those of a collection are compared.
// They do not change. All methods may be called from several goroutines.
type Queries struct {
	k   int
	len int

	fps     []uint64 // without repetitions, ascending
	numbers []uint32 // of the first query of each
	next    []uint32 // the next equal query, noQuery if there is none; nil: all are different
	plan    plan
	blocks  []prepared
}

// prepared is a block of the plan with what is in it.
type prepared struct {
	radiusField
	mask   uint64
	filter *filter // nil: all may be near
	tables []*table
}

// Match is a fingerprint of a collection within k bits of a query.
type Match struct {
	At       int // place in the block that was scanned
	Query    int // place among the queries as they were given
	Distance int
}

// New prepares queries, on all cores, for matches within k bits. The package comment
// says what memory they take. Errors: ErrDistance, ErrTooMany.
func New[F ~uint64](queries []F, k int, o Options) (*Queries, error) {
	if k < 0 || k > MaxDistance {
		return nil, fmt.Errorf("%w: k = %d is not in 0..%d", ErrDistance, k, MaxDistance)
	}
	if uint64(len(queries)) > math.MaxUint32-1 {
		return nil, fmt.Errorf("%w: %d, at most %d", ErrTooMany, len(queries), uint32(math.MaxUint32-1))
	}
	q := &Queries{k: k, len: len(queries)}
	if len(queries) == 0 {
		return q, nil
	}
	q.fps, q.numbers, q.next = distinct(queries)
	q.prepare(planFor(len(q.fps), k, o.orDefault()))
	return q, nil
}

// noQuery ends a chain of equal queries.
const noQuery = ^uint32(0)

// distinct returns the different ones of the queries, in order, with the place of the
// first of each, and for each place that of the next equal one; next is nil if all are
// different.
func distinct[F ~uint64](queries []F) (fps []uint64, places, next []uint32) {
	all := make([][2]uint64, len(queries)) // fingerprint and place
	for i, fp := range queries {
		all[i] = [2]uint64{uint64(fp), uint64(i)}
	}
	all = radix.Sort(all, make([][2]uint64, len(all)))
	fps, places = make([]uint64, 0, len(all)), make([]uint32, 0, len(all))
	for i, n := range all {
		if i == 0 || n[0] != all[i-1][0] {
			fps, places = append(fps, n[0]), append(places, uint32(n[1]))
			continue
		}
		if next == nil {
			next = slices.Repeat([]uint32{noQuery}, len(queries))
		}
		next[all[i-1][1]] = uint32(n[1])
	}
	return fps, places, next
}

// prepare makes the filters and tables, each of them on a core of its own.
func (q *Queries) prepare(d plan) {
	q.plan = d
	q.blocks = make([]prepared, len(d))
	var group sync.WaitGroup
	for i, b := range d {
		p := &q.blocks[i]
		p.radiusField, p.mask, p.tables = b.radiusField, b.mask(), make([]*table, len(b.tables))
		if b.filterBits > 0 {
			group.Go(func() { p.filter = newFilter(b.radiusField, b.filterBits, q.fps) })
		}
		for j, t := range b.tables {
			group.Go(func() { p.tables[j] = newTable(t, q.fps, q.numbers) })
		}
	}
	group.Wait()
}

// Len returns the number of queries.
func (q *Queries) Len() int { return q.len }

// Bytes returns the memory that the queries take.
func (q *Queries) Bytes() int64 {
	n := int64(12*len(q.fps) + 4*len(q.next))
	for _, b := range q.blocks {
		if b.filter != nil {
			n += int64(8 * len(b.filter.words))
		}
		for _, t := range b.tables {
			n += t.bytes()
		}
	}
	return n
}

// String says how the collection is compared with the queries.
func (q *Queries) String() string {
	return fmt.Sprintf("%d distinct queries within %d bits: %v", len(q.fps), q.k, q.plan)
}

// first reports whether a pair that differs in these bits is near in the block and the
// table, and not in one before. So each pair is found once.
func (q *Queries) first(block, table int, flips uint64) bool {
	for i := range q.blocks[:block] {
		if b := &q.blocks[i]; bits.OnesCount64(flips&b.mask) <= b.radius {
			return false
		}
	}
	b := &q.blocks[block]
	if bits.OnesCount64(flips&b.mask) > b.radius {
		return false
	}
	for _, t := range b.tables[:table] {
		if bits.OnesCount64(flips&t.mask) <= t.radius {
			return false
		}
	}
	return bits.OnesCount64(flips&b.tables[table].mask) <= b.tables[table].radius
}
