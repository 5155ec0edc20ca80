package scan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
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

	// FilterBytes bounds the memory for filters. With less, a scan is slower. Default
	// 1 GiB.
	FilterBytes int64
}

const (
	defaultCollection  = 100_000_000
	defaultFilterBytes = 1 << 30
)

// Queries are fingerprints in memory with which those of a collection are compared.
// They do not change. All methods may be called from several goroutines.
type Queries struct {
	k        int
	len      int
	distinct []uint64
	members  []uint32 // places among the queries as given, in the order of distinct
	starts   []uint32 // of the members of each distinct query, and their end
	design   design
	blocks   []prepared
}

// prepared is a block of the design with what is in it.
type prepared struct {
	near
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

// New prepares queries, for matches within k bits. A million at k = 3 take 70 MB, and
// filters of 128 MiB for a collection of ten million fingerprints or of 512 MiB for
// one of a hundred million. Errors: ErrDistance, ErrTooMany.
func New[F ~uint64](queries []F, k int, o Options) (*Queries, error) {
	if k < 0 || k > MaxDistance {
		return nil, fmt.Errorf("%w: k = %d is not in 0..%d", ErrDistance, k, MaxDistance)
	}
	if len(queries) > math.MaxUint32-1 {
		return nil, fmt.Errorf("%w: %d, at most %d", ErrTooMany, len(queries), uint32(math.MaxUint32-1))
	}
	q := &Queries{k: k, len: len(queries)}
	if len(queries) == 0 {
		return q, nil
	}
	if o.Collection <= 0 {
		o.Collection = defaultCollection
	}
	if o.FilterBytes <= 0 {
		o.FilterBytes = defaultFilterBytes
	}
	distinctQueries(q, queries)
	q.design = choose(len(q.distinct), int(o.Collection), k, o.FilterBytes)
	q.prepare()
	return q, nil
}

// distinctQueries sorts the queries and puts equal ones together.
func distinctQueries[F ~uint64](q *Queries, queries []F) {
	type numbered struct {
		fp    uint64
		place uint32
	}
	all := make([]numbered, len(queries))
	for i, fp := range queries {
		all[i] = numbered{uint64(fp), uint32(i)}
	}
	slices.SortFunc(all, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.fp, b.fp), cmp.Compare(a.place, b.place))
	})
	q.members = make([]uint32, len(queries))
	for i, n := range all {
		q.members[i] = n.place
		if i == 0 || n.fp != q.distinct[len(q.distinct)-1] {
			q.distinct = append(q.distinct, n.fp)
			q.starts = append(q.starts, uint32(i))
		}
	}
	q.starts = append(q.starts, uint32(len(queries)))
}

// prepare makes the filters and tables, each of them on a core of its own.
func (q *Queries) prepare() {
	var wg sync.WaitGroup
	q.blocks = make([]prepared, len(q.design.blocks))
	for i, b := range q.design.blocks {
		p := &q.blocks[i]
		p.near, p.mask, p.tables = b.near, b.mask(), make([]*table, len(b.tables))
		if b.filterBits > 0 {
			wg.Go(func() { p.filter = newFilter(b.near, b.filterBits, q.distinct) })
		}
		for j, t := range b.tables {
			wg.Go(func() { p.tables[j] = newTable(t, q.distinct) })
		}
	}
	wg.Wait()
}

// Len returns the number of queries.
func (q *Queries) Len() int { return q.len }

// Bytes returns the memory that the queries take.
func (q *Queries) Bytes() int64 {
	n := 8*len(q.distinct) + 4*(len(q.members)+len(q.starts))
	for _, b := range q.blocks {
		if b.filter != nil {
			n += 8 * len(b.filter.words)
		}
		for _, t := range b.tables {
			n += 8*len(t.keys) + 4*(len(t.query)+len(t.starts))
		}
	}
	return int64(n)
}

// String says how the collection is compared with the queries.
func (q *Queries) String() string {
	return fmt.Sprintf("%d distinct queries within %d bits: %v", len(q.distinct), q.k, q.design)
}

// Cost returns the seconds of one core that a scan of n fingerprints is expected to
// take, for this many distinct queries, with preparation.
func Cost(queries int, k int, n int64, filterBytes int64) float64 {
	if filterBytes <= 0 {
		filterBytes = defaultFilterBytes
	}
	return choose(max(queries, 1), int(max(n, 1)), k, filterBytes).total(int(n)) / 1e9
}
