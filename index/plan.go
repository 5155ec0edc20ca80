package index

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/neardup/neardup/internal/store"
)

// ErrPlan: a plan is malformed, or it would miss matches.
var ErrPlan = errors.New("unusable plan")

// MaxDistanceLimit is the largest k that an index can be made with. Beyond it
// tables no longer save work: the paper's designs need a prefix longer than a
// handful of bits to be selective.
const MaxDistanceLimit = 16

// Plan is a set of tables that together find every fingerprint within
// MaxDistance bits of any other (paper, section 3.1). A Plan is checked when it
// is made and not changed afterwards.
type Plan struct {
	MaxDistance int
	Tables      []Table
}

// Table is one sorted copy of all fingerprints under a permutation of their
// bits. A probe of it takes the fingerprints whose first Prefix permuted bits
// equal those of the query; with a Radius, also those that differ there in up to
// Radius bits.
type Table struct {
	Permutation Permutation
	Prefix      int // 1..64
	Radius      int // 0..Prefix, and not above the plan's MaxDistance
}

// maxTableProbes bounds the range scans of one table in a query, to some seconds.
const maxTableProbes = 1 << 20

// NewPlan checks that the tables find every pair within maxDistance and returns
// the plan. The first table's permutation must be the identity: its entries carry
// the documents.
func NewPlan(maxDistance int, tables ...Table) (*Plan, error) {
	p := &Plan{MaxDistance: maxDistance, Tables: slices.Clone(tables)}
	if maxDistance < 0 || maxDistance > MaxDistanceLimit {
		return nil, fmt.Errorf("%w: k = %d is not in 0..%d", ErrPlan, maxDistance, MaxDistanceLimit)
	}
	if len(tables) == 0 || len(tables) > store.MaxTables {
		return nil, fmt.Errorf("%w: %d tables", ErrPlan, len(tables))
	}
	for i, t := range tables {
		if t.Prefix < 1 || t.Prefix > 64 || t.Radius < 0 || t.Radius > min(t.Prefix, maxDistance) {
			return nil, fmt.Errorf("%w: table %d has prefix %d and radius %d", ErrPlan, i, t.Prefix, t.Radius)
		}
		if t.Probes() > maxTableProbes {
			return nil, fmt.Errorf("%w: table %d takes %d probes, at most %d are made", ErrPlan, i, t.Probes(), maxTableProbes)
		}
		if err := t.Permutation.check(); err != nil {
			return nil, fmt.Errorf("%w: table %d: %w", ErrPlan, i, err)
		}
		p.Tables[i].Permutation = bringForward(t.Permutation...)
	}
	if !p.Tables[0].Permutation.identity() {
		return nil, fmt.Errorf("%w: the permutation of table 0 is not the identity", ErrPlan)
	}
	flips, found, decided := p.uncovered()
	if found {
		return nil, fmt.Errorf("%w: two fingerprints that differ in the bits %016x meet in no table", ErrPlan, flips)
	}
	if !decided {
		return nil, fmt.Errorf("%w: %d tables overlap in too many ways to check that they miss nothing", ErrPlan, len(tables))
	}
	return p, nil
}

// Probes returns the number of range scans that a query makes.
func (p *Plan) Probes() int {
	n := 0
	for _, t := range p.Tables {
		n += t.Probes()
	}
	return n
}

// Candidates returns how many of n uniformly distributed fingerprints a query
// can expect its probes to return.
func (p *Plan) Candidates(n float64) float64 {
	sum := 0.0
	for _, t := range p.Tables {
		sum += float64(t.Probes()) * n / float64(uint64(1)<<(t.Prefix-1)) / 2
	}
	return sum
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

// Permute returns the entry of a stored fingerprint in this table.
func (t *Table) Permute(stored uint64) uint64 { return t.Permutation.apply(stored) }

// prefixRange returns the first and the last entry that has the prefix of another.
func (t *Table) prefixRange(permuted uint64) (first, last uint64) {
	rest := uint64(1)<<((64-t.Prefix)&63) - 1
	return permuted &^ rest, permuted | rest
}

// mask returns the bits of a fingerprint that the prefix takes.
func (t Table) mask() uint64 {
	return t.Permutation.invert(^uint64(0) << (64 - t.Prefix))
}

// covers reports whether this table finds a fingerprint that differs in the given bits.
func (t Table) covers(flips, mask uint64) bool {
	return bits.OnesCount64(flips&mask) <= t.Radius
}

// String returns the plan as docs/format.md writes it; ParsePlan reads it.
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

// ParsePlan reads a plan as String writes it, and checks it as NewPlan does.
func ParsePlan(s string) (*Plan, error) {
	fields := strings.Fields(s)
	if len(fields) == 0 || !strings.HasPrefix(fields[0], "k=") {
		return nil, fmt.Errorf("%w: %.40q does not begin with k=", ErrPlan, s)
	}
	k, err := strconv.Atoi(fields[0][len("k="):])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	var tables []Table
	for _, field := range fields[1:] {
		t, err := parseTable(field)
		if err != nil {
			return nil, fmt.Errorf("%w: table %q: %w", ErrPlan, field, err)
		}
		tables = append(tables, t)
	}
	return NewPlan(k, tables...)
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
