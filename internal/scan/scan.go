// Package scan compares a collection of fingerprints with many queries at once, while
// it reads the collection from beginning to end and without an index of it: the batch
// plan of Manku, Jain and Das Sarma (WWW 2007, section 3.2 and 3.3), with the tables
// over the queries in memory.
//
// It finds every pair within k bits, each once. The work is a few looks into memory for
// each fingerprint of the collection, however it is stored and ordered; a collection
// that is sorted is faster, since part of these looks are then at the same place.
//
// # Memory
//
// A query takes 12 bytes, 4 more if some are equal, and in each table 12 and up to 8 for
// the table's buckets: 92 to 96 bytes with the four tables of k = 3, 12 + 20 (k+1) at
// most. Filters take at most 1 GiB: 256 MiB in all for a million queries, k = 3 and a
// collection of a hundred million, half of that for one of ten million. A scan itself takes 14 KiB for each goroutine.
//
// # Queries that have much in common
//
// What shares a bucket is compared one by one, which takes a nanosecond or two for each
// fingerprint that the filter lets through and query. So a scan for queries that all begin
// alike, or are numbers in a row, is slower than one for as many that are spread.
package scan

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/neardup/neardup/internal/radix"
)

// MaxDistance is the largest k.
const MaxDistance = 16

// Queries are fingerprints in memory with which those of a collection are compared.
// They do not change. All methods may be called from several goroutines.
type Queries struct {
	k int

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

const defaultCollection = 100_000_000

// New prepares queries, on all cores, for matches within k bits, and for a collection of
// about so many fingerprints, 100 million by default: with many, it pays to prepare more. The package comment
// says what memory they take. It refuses another k than 0 to MaxDistance, and more queries than
// can be numbered in 32 bits.
func New[F ~uint64](queries []F, k int, collection int64) (*Queries, error) {
	if k < 0 || k > MaxDistance {
		return nil, fmt.Errorf("scan: k = %d is not in 0..%d", k, MaxDistance)
	}
	if uint64(len(queries)) > math.MaxUint32-1 {
		return nil, fmt.Errorf("scan: %d queries, at most %d", len(queries), uint32(math.MaxUint32-1))
	}
	if collection <= 0 {
		collection = defaultCollection
	}
	q := &Queries{k: k}
	q.fps, q.numbers, q.next = distinct(queries)
	q.prepare(planFor(len(q.fps), k, collection, maxFilterBytes))
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
func (q *Queries) prepare(p plan) {
	q.plan = p
	q.blocks = make([]prepared, len(p))
	var group sync.WaitGroup
	for i, b := range p {
		to := &q.blocks[i]
		to.radiusField, to.mask, to.tables = b.radiusField, b.mask(), make([]*table, len(b.tables))
		if b.filterBits > 0 {
			group.Go(func() { to.filter = newFilter(b.radiusField, b.filterBits, q.fps) })
		}
		for j, t := range b.tables {
			group.Go(func() { to.tables[j] = newTable(t, q.fps, q.numbers) })
		}
	}
	group.Wait()
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
