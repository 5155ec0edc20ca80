package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Limits bound what a plan may take.
type Limits struct {
	Tables    int   // 0: 32
	DiskBytes int64 // of the compacted tables, their postings and filters. 0: no limit

	// RAMBytes is the memory for filters, directories and blocks. It excludes no plan:
	// what does not fit is read from disk, which is slower. 0: no limit
	RAMBytes int64
}

// defaultMaxTables bounds the space that a plan takes without being asked to:
// each table is a copy of all fingerprints.
const defaultMaxTables = 32

// Choice is a plan that was chosen.
type Choice struct {
	Design   string // its name, see Named
	Plan     *Plan
	Estimate Estimate
	Reason   string // sentences with the numbers
}

// Choose returns the plan for distance k among n documents with the least product of
// query time, once compacted, and tables: disk, memory, and the work of writing and
// compacting all grow with the tables, so twice as many must answer more than twice as
// fast. Only designs within the limits count. Error: ErrUnusable when there is none, with
// the one that is nearest.
func Choose(k int, n int64, limits Limits) (Choice, error) {
	if err := checkDistance(k); err != nil {
		return Choice{}, err
	}
	if limits.Tables < 0 || limits.DiskBytes < 0 || limits.RAMBytes < 0 {
		return Choice{}, fmt.Errorf("%w: a limit is negative: %+v", ErrUnusable, limits)
	}
	within, beyond, err := options(k, n, limits)
	if err != nil {
		return Choice{}, err
	}
	if len(within) == 0 {
		nearest := slices.MinFunc(beyond, func(a, b option) int {
			return cmp.Compare(a.estimate.DiskBytes(), b.estimate.DiskBytes())
		})
		return Choice{}, fmt.Errorf("%w: none for k = %d and %d documents within the limits; the nearest, design %s, has %s",
			ErrUnusable, k, n, nearest.design, nearest.exceeds)
	}
	best := within[0]
	plan, err := New(k, best.tables...)
	if err != nil {
		return Choice{}, fmt.Errorf("design %s: %w", best.design, err)
	}
	return Choice{best.design, plan, best.estimate, reason(within, beyond)}, nil
}

// options returns the designs within the limits and beyond them, the best first.
func options(k int, n int64, limits Limits) (within, beyond []option, err error) {
	for _, name := range Designs(k) {
		o := option{design: name}
		if o.tables, err = tablesOf(name, k); err != nil {
			return nil, nil, err
		}
		// New takes its time for many tables: only what is chosen needs it.
		o.estimate = (&Plan{MaxDistance: k, Tables: o.tables}).Estimate(n, limits.RAMBytes)
		if o.exceeds = limits.exceeded(&o.estimate); o.exceeds == "" {
			within = append(within, o)
		} else {
			beyond = append(beyond, o)
		}
	}
	slices.SortStableFunc(within, byScore)
	slices.SortStableFunc(beyond, byScore)
	return within, beyond, nil
}

// option is a design to choose from. Its tables have not been checked.
type option struct {
	design   string
	tables   []Table
	estimate Estimate
	exceeds  string // which limit
}

func byScore(a, b option) int { return cmp.Compare(a.score(), b.score()) }

func (o option) score() float64 { return o.estimate.Query * float64(len(o.tables)) }

func (o option) String() string {
	return fmt.Sprintf("%s (%s a query, %s)", o.design, nanoseconds(o.estimate.Query), count(len(o.tables), "table"))
}

// exceeded says which limit an estimate exceeds, "" for none.
func (l Limits) exceeded(e *Estimate) string {
	tables := l.Tables
	if tables == 0 {
		tables = defaultMaxTables
	}
	if len(e.Tables) > tables {
		return fmt.Sprintf("%d tables, over the limit of %d", len(e.Tables), tables)
	}
	if l.DiskBytes > 0 && e.DiskBytes() > float64(l.DiskBytes) {
		return fmt.Sprintf("%.4g GB on disk, over the limit of %.4g GB", e.DiskBytes()/1e9, float64(l.DiskBytes)/1e9)
	}
	return ""
}

// reason says why the first of the designs within the limits was chosen.
func reason(within, beyond []option) string {
	best := within[0]
	var b strings.Builder
	fmt.Fprintf(&b, "%v has the least product of query time and tables.", best)
	if len(within) > 1 {
		fmt.Fprintf(&b, " Next best is %v.", within[1])
		fastest := slices.MinFunc(within, func(a, b option) int { return cmp.Compare(a.estimate.Query, b.estimate.Query) })
		if fastest.estimate.Query < min(best.estimate.Query, within[1].estimate.Query) {
			fmt.Fprintf(&b, " Fastest is %v: %.3g times as fast for %.3g times the tables.", fastest,
				best.estimate.Query/fastest.estimate.Query, float64(len(fastest.tables))/float64(len(best.tables)))
		}
	}
	if len(beyond) > 0 && beyond[0].score() < best.score() {
		fmt.Fprintf(&b, " Better, but beyond a limit, is %v: it has %s.", beyond[0], beyond[0].exceeds)
	}
	return b.String()
}

// nanoseconds writes a time with three digits.
func nanoseconds(ns float64) string {
	scale := math.Pow(10, max(0, math.Ceil(math.Log10(max(ns, 1)))-3))
	return time.Duration(math.Round(ns/scale) * scale).String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// replanFactor is by how much another plan must be faster to be worth rewriting an index
// for.
const replanFactor = 2

// mostDocuments is how far ahead Outgrown looks.
const mostDocuments = 1 << 40

// Outgrown says so where an index of n documents with this plan would answer more than
// twice as fast with the plan that Choose gives, and which that is. It is "" while the plan is
// as fast as it ever was, or where it is good for some number of documents still to come.
//
// It takes microseconds, but where there is something to say, or nearly so, as long as choosing
// twenty plans (BenchmarkChoose).
func (p *Plan) Outgrown(n int64) (advice string) {
	now := p.Estimate(n, 0)
	if now.Query <= replanFactor*p.Estimate(1, 0).Query {
		return ""
	}
	for later := n; later < mostDocuments; later *= 4 {
		better, err := Choose(p.MaxDistance, later, Limits{})
		if err != nil {
			break // there is none of this distance
		}
		factor := p.Estimate(later, 0).Query / better.Estimate.Query
		if factor <= replanFactor {
			return ""
		}
		if later == n {
			advice = fmt.Sprintf("the plan is outgrown: among %d documents, design %s with %s would answer %.1f times faster, in %s instead of %s",
				n, better.Design, count(len(better.Plan.Tables), "table"), factor, nanoseconds(better.Estimate.Query), nanoseconds(now.Query))
		}
	}
	return advice
}
