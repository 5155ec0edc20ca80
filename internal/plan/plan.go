// Package plan defines the tables of an index, in which a few lookups find every fingerprint
// within k bits of a query.
//
// A table is a sorted copy of all fingerprints under a permutation of their bits (Manku, Jain and
// Das Sarma, "Detecting Near-Duplicates for Web Crawling", 2007, section 3.1). A probe reads the
// fingerprints whose first bits, the prefix, equal the prefix of the query. The design 4 for k = 3
// cuts fingerprints into four blocks of 16 bits, and each block is the prefix of one table:
//
//	fingerprint   AAAA BBBB CCCC DDDD     k=3
//	table 0      [AAAA]BBBB CCCC DDDD     0-63/16
//	table 1      [BBBB]AAAA CCCC DDDD     16-31,0-15,32-63/16
//	table 2      [CCCC]AAAA BBBB DDDD     32-47,0-31,48-63/16
//	table 3      [DDDD]AAAA BBBB CCCC     48-63,0-47/16
//
// If three bits differ, at least one block is equal, so one of four probes finds the match. The
// other results of a probe are candidates that do not match. A table with a radius is also probed
// under the prefixes within that many bits of the prefix of the query. With blocks of 32 bits and
// radius 1, two tables suffice for k = 3, since one of the blocks has at most one of three
// different bits. Fewer tables need less space, but more probes take more time.
//
// New, and therefore every function that returns a Plan, proves that the tables find every pair
// within k bits, or returns an error.
package plan

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/neardup/neardup/store"
)

// ErrUnusable means that a plan is malformed, misses matches, or exceeds a limit of the index.
var ErrUnusable = errors.New("unusable plan")

// MaxDistance is the largest k of a plan. For a larger k, the prefixes are so short that tables
// save no work.
const MaxDistance = 16

// DefaultDocuments is the number of documents for which an index chooses its plan if the caller
// does not know their number.
const DefaultDocuments = 10_000_000

// maxTableProbes limits the probes of one table per query, which then take some seconds.
const maxTableProbes = 1 << 20

// Plan is a set of tables that together find every fingerprint within MaxDistance bits of a query.
// New returns a Plan. A Plan is immutable.
type Plan struct {
	MaxDistance int
	Tables      []Table

	masks []uint64 // of each table, the bits of a fingerprint that are in its prefix
}

// Table is a sorted copy of all fingerprints under a permutation of their bits. A probe returns the
// fingerprints with a given prefix of Prefix bits. A query probes all prefixes that differ from its
// own prefix in up to Radius bits.
type Table struct {
	Permutation Permutation
	Prefix      int // 1..64
	Radius      int // 0..Prefix, and at most the plan's MaxDistance
}

// New returns the plan of the given tables. The permutation of the first table must be the
// identity, since its entries have the IDs of the documents. Error: ErrUnusable, for tables that
// are malformed or that miss a pair within maxDistance.
func New(maxDistance int, tables ...Table) (*Plan, error) {
	if err := checkDistance(maxDistance); err != nil {
		return nil, err
	}
	if len(tables) == 0 || len(tables) > store.MaxTables {
		return nil, fmt.Errorf("%w: %d tables, want 1 to %d", ErrUnusable, len(tables),
			store.MaxTables)
	}
	p := &Plan{MaxDistance: maxDistance}
	for i, t := range tables {
		if err := t.check(maxDistance); err != nil {
			return nil, fmt.Errorf("%w: table %d: %w", ErrUnusable, i, err)
		}
		t.Permutation = bringForward(t.Permutation...) // adjacent ranges become one
		p.Tables = append(p.Tables, t)
		p.masks = append(p.masks, t.mask())
	}
	if !p.Tables[0].Permutation.identity() {
		return nil, fmt.Errorf("%w: the permutation of table 0 is not the identity", ErrUnusable)
	}
	flips, found, decided := p.uncovered()
	if found {
		return nil, fmt.Errorf(
			"%w: no table finds a fingerprint that differs from the query in the bits %016x",
			ErrUnusable, flips)
	}
	if !decided {
		return nil, fmt.Errorf("%w: %d tables overlap in too many ways to prove that they find "+
			"every match", ErrUnusable, len(tables))
	}
	return p, nil
}

func checkDistance(k int) error {
	if k < 0 || k > MaxDistance {
		return fmt.Errorf("%w: k = %d is not in 0..%d", ErrUnusable, k, MaxDistance)
	}
	return nil
}

// Probes returns the number of probes of a query.
func (p *Plan) Probes() int {
	n := 0
	for _, t := range p.Tables {
		n += t.Probes()
	}
	return n
}

// FoundBefore reports whether a table before the given one finds a fingerprint that differs from
// the query in the bits of flips.
func (p *Plan) FoundBefore(table int, flips uint64) bool {
	for i, mask := range p.masks[:table] {
		if bits.OnesCount64(flips&mask) <= p.Tables[i].Radius {
			return true
		}
	}
	return false
}

// check returns an error if a table is invalid in a plan for k.
func (t Table) check(k int) error {
	if t.Prefix < 1 || t.Prefix > 64 || t.Radius < 0 || t.Radius > min(t.Prefix, k) {
		return fmt.Errorf("prefix %d and radius %d, want a prefix of 1 to 64 bits and a radius "+
			"of 0 to k", t.Prefix, t.Radius)
	}
	if t.Probes() > maxTableProbes {
		return fmt.Errorf("%d probes per query, want at most %d", t.Probes(), maxTableProbes)
	}
	return t.Permutation.check()
}

// Probes returns the number of prefixes within the radius.
func (t Table) Probes() int {
	n, choose := 0, 1
	for flips := 0; flips <= t.Radius; flips++ {
		n += choose
		choose = choose * (t.Prefix - flips) / (flips + 1)
	}
	return n
}

// Permute returns the entry that a stored fingerprint has in this table.
func (t *Table) Permute(stored uint64) uint64 { return t.Permutation.apply(stored) }

// Invert returns the stored fingerprint of an entry.
func (t *Table) Invert(permuted uint64) uint64 { return t.Permutation.invert(permuted) }

// PrefixRange returns the first and the last possible entry with the same prefix.
func (t *Table) PrefixRange(permuted uint64) (first, last uint64) {
	rest := uint64(1)<<((64-t.Prefix)&63) - 1
	return permuted &^ rest, permuted | rest
}

// mask returns the bits of a fingerprint that are in the prefix.
func (t Table) mask() uint64 { return t.Permutation.invert(^uint64(0) << (64 - t.Prefix)) }

// String returns the plan as docs/format.md specifies.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "k=%d", p.MaxDistance)
	for _, t := range p.Tables {
		fmt.Fprintf(&b, " %s/%d", t.Permutation, t.Prefix)
		if t.Radius > 0 {
			fmt.Fprintf(&b, "~%d", t.Radius)
		}
	}
	return b.String()
}

// Parse parses the result of String, and checks the plan as New does.
func Parse(s string) (*Plan, error) {
	fields := strings.Fields(s)
	if len(fields) == 0 || !strings.HasPrefix(fields[0], "k=") {
		return nil, fmt.Errorf("%w: %.40q does not begin with k=", ErrUnusable, s)
	}
	k, err := strconv.Atoi(fields[0][len("k="):])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	var tables []Table
	for _, field := range fields[1:] {
		t, err := parseTable(field)
		if err != nil {
			return nil, fmt.Errorf("%w: table %q: %w", ErrUnusable, field, err)
		}
		tables = append(tables, t)
	}
	return New(k, tables...)
}

func parseTable(s string) (t Table, err error) {
	permutation, prefix, found := strings.Cut(s, "/")
	if !found {
		return Table{}, errors.New("no /prefix")
	}
	if t.Permutation, err = parsePermutation(permutation); err != nil {
		return Table{}, err
	}
	prefix, radius, hasRadius := strings.Cut(prefix, "~")
	if t.Prefix, err = strconv.Atoi(prefix); err != nil {
		return Table{}, err
	}
	if hasRadius {
		t.Radius, err = strconv.Atoi(radius)
	}
	return t, err
}
