// Package scan compares a collection of fingerprints with many queries while it reads the
// collection once from beginning to end: the batch plan of Manku, Jain and Das Sarma (WWW 2007,
// section 3.3), with the tables over the queries in memory.
//
// It finds every pair within k bits once. Each fingerprint of the collection needs a few reads of
// memory. The collection may have any order. A sorted collection is faster, since successive reads
// are then close together. Queries that share a bucket are compared one by one, so a scan for
// queries with a long common prefix is slower than one for random queries.
//
// A query takes 12 bytes, and 12 to 20 bytes in each table. For k = 3, this is about 50 bytes.
// Filters take at most 1 GiB: 256 MiB for a million queries, k = 3 and a collection of a hundred
// million.
package scan

import (
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/neardup/neardup/internal/radix"
)

// MaxDistance is the largest k.
const MaxDistance = 16

// Queries are prepared fingerprints. They are immutable and safe for concurrent use.
type Queries struct {
	k      int
	fps    []uint64 // distinct, ascending
	places []uint32 // positions of all queries in the caller's list, in the order of fps
	starts []uint32 // the start in places of each of fps, and the end of the last one
	blocks []prepared
}

// prepared is a block of the plan.
type prepared struct {
	field
	filter *filter // nil: all fingerprints are looked up
	tables []*table
}

// Match is a fingerprint of a collection within k bits of a query.
type Match struct {
	At       int // position in the slice that was scanned
	Query    int // position in the list of queries
	Distance int
}

const defaultCollection = 100_000_000

// New prepares queries on all cores for matches within k bits, 0 to MaxDistance. collection is the
// approximate size of the collection; 0: 100 million. New returns an error for another k, and for
// 2^32-1 queries or more.
func New[F ~uint64](queries []F, k int, collection int64) (*Queries, error) {
	if k < 0 || k > MaxDistance {
		return nil, fmt.Errorf("scan: k = %d is not in 0..%d", k, MaxDistance)
	}
	if uint64(len(queries)) >= math.MaxUint32 {
		return nil, fmt.Errorf("scan: %d queries, want at most %d", len(queries),
			uint32(math.MaxUint32-1))
	}
	if collection <= 0 {
		collection = defaultCollection
	}
	q := distinct(queries, k)
	q.prepare(planFor(len(q.fps), k, collection))
	return q, nil
}

// distinct returns the sorted queries, without filters and tables.
func distinct[F ~uint64](queries []F, k int) *Queries {
	all := make([][2]uint64, len(queries)) // fingerprint and place
	for i, fp := range queries {
		all[i] = [2]uint64{uint64(fp), uint64(i)}
	}
	q := &Queries{k: k, places: make([]uint32, len(all))}
	for i, r := range radix.Sort(all, make([][2]uint64, len(all))) {
		if q.places[i] = uint32(r[1]); i == 0 || r[0] != q.fps[len(q.fps)-1] {
			q.fps, q.starts = append(q.fps, r[0]), append(q.starts, uint32(i))
		}
	}
	q.starts = append(q.starts, uint32(len(all)))
	return q
}

// prepare creates the filters and tables of a plan concurrently.
func (q *Queries) prepare(plan []block) {
	q.blocks = make([]prepared, len(plan))
	var group sync.WaitGroup
	for i, b := range plan {
		to := &q.blocks[i]
		to.field, to.tables = b.field, make([]*table, len(b.parts))
		if b.filterBits > 0 {
			group.Go(func() { to.filter = newFilter(b.field, b.filterBits, q.fps) })
		}
		for j, part := range b.parts {
			group.Go(func() { to.tables[j] = newTable(part, q.fps) })
		}
	}
	group.Wait()
}

// Scan calls found with every pair of a fingerprint and a query within k bits, each once, in no
// particular order.
func (q *Queries) Scan(fps []uint64, found func(Match)) {
	s := scanner{Queries: q, found: found}
	for s.from = 0; s.from < len(fps); s.from += step {
		s.fps = fps[s.from:min(s.from+step, len(fps))]
		if len(s.blocks) == 0 {
			s.compareAll()
		}
		for i := range s.blocks {
			s.scan(i)
		}
	}
}

const (
	step      = 1024 // fingerprints looked up together
	maxRanges = 256  // buckets read together
)

// scanner scans a slice of the collection. It issues many reads of memory before it uses the
// result of the first one, so that the processor waits for several of them at the same time.
type scanner struct {
	*Queries
	found  func(Match)
	from   int      // position of fps in the slice
	fps    []uint64 // the fingerprints of this step
	words  [step]uint64
	at     [step]uint16
	ranges [maxRanges]bucketRange
	sum    uint64 // keeps the reads that fill the processor's cache from being optimized away
}

// bucketRange has the queries of a bucket to compare with the fingerprint at a position.
type bucketRange struct{ at, from, to uint32 }

func (s *scanner) compareAll() {
	for at, fp := range s.fps {
		for i, query := range s.Queries.fps {
			if bits.OnesCount64(query^fp) <= s.k {
				s.report(uint32(at), uint32(i))
			}
		}
	}
}

// scan finds the matches of the fingerprints in a block.
func (s *scanner) scan(block int) {
	b := &s.blocks[block]
	passing := b.filter.passing(s.fps, &s.words, &s.at)
	for i, t := range b.tables {
		ranges := 0
		for _, at := range passing {
			bucket := t.bucketOf(s.fps[at])
			for _, flip := range t.flips {
				r := bucketRange{uint32(at), t.starts[bucket^flip], t.starts[bucket^flip+1]}
				if s.ranges[ranges] = r; r.from < r.to {
					ranges++
				}
				if ranges == maxRanges {
					s.compare(block, i, s.ranges[:])
					ranges = 0
				}
			}
		}
		s.compare(block, i, s.ranges[:ranges])
	}
}

// compare compares fingerprints with the queries of their buckets.
func (s *scanner) compare(block, table int, ranges []bucketRange) {
	t := s.blocks[block].tables[table]
	for _, r := range ranges {
		s.sum += t.keys[r.from] + t.keys[r.to-1]
	}
	for _, r := range ranges {
		fp := s.fps[r.at]
		for i, key := range t.keys[r.from:r.to] {
			if flips := key ^ fp; bits.OnesCount64(flips) <= s.k && s.first(block, table, flips) {
				s.report(r.at, t.numbers[r.from+uint32(i)])
			}
		}
	}
}

// first reports whether a pair that differs in these bits is near in the block and in the table,
// but not in an earlier block or an earlier table of the block. So each pair is found once.
func (s *scanner) first(block, table int, flips uint64) bool {
	for i := range s.blocks[:block] {
		if s.blocks[i].near(flips) {
			return false
		}
	}
	b := &s.blocks[block]
	for _, t := range b.tables[:table] {
		if t.near(flips) {
			return false
		}
	}
	return b.near(flips) && b.tables[table].near(flips)
}

// report calls found for the queries that are equal to distinct query n.
func (s *scanner) report(at, n uint32) {
	distance := bits.OnesCount64(s.Queries.fps[n] ^ s.fps[at])
	for _, place := range s.places[s.starts[n]:s.starts[n+1]] {
		s.found(Match{s.from + int(at), int(place), distance})
	}
}
