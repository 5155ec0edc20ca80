package scan

import (
	"errors"
	"fmt"
	"math"
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

	// Sorted says that the collection is in order, or nearly. It only changes what is
	// prepared, not what is found.
	Sorted bool

	// FilterBytes bounds the memory for filters, and as much again for what tells crowds
	// of queries apart. With less, a scan is slower. Default 1 GiB.
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
	k     int
	len   int
	group *group
	next  []uint32 // the next equal query, noQuery if there is none; nil: all are different
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
	fps, places, next := distinct(queries)
	q.next = next
	q.group = newGroup(fps, places, k, o.orDefault())
	return q, nil
}

// Len returns the number of queries.
func (q *Queries) Len() int { return q.len }

// Bytes returns the memory that the queries take.
func (q *Queries) Bytes() int64 {
	if q.len == 0 {
		return 0
	}
	return int64(12*len(q.group.queries)+4*len(q.next)) + q.group.bytes()
}

// String says how the collection is compared with the queries.
func (q *Queries) String() string {
	if q.len == 0 {
		return "no queries"
	}
	return fmt.Sprintf("%d distinct queries within %d bits: %v", len(q.group.queries), q.k, q.group.design)
}
