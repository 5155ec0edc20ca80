package index

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"
)

// BatchMethod is a way to answer many queries at once.
type BatchMethod string

const (
	// QueryEach answers query by query.
	QueryEach BatchMethod = "each"
	// QuerySorted goes table by table, with the probes of all queries in its order.
	QuerySorted BatchMethod = "sorted"
)

var batchMethods = []BatchMethod{QueryEach, QuerySorted}

// By makes QueryBatch answer in a given way. Default: the one that is expected to take
// the least time.
func By(method BatchMethod) QueryOption { return func(q *query) { q.method = method } }

// BatchPlan is how QueryBatch answers, with what it expects of each way.
type BatchPlan struct {
	Method  BatchMethod   `json:"method"`
	Queries int           `json:"queries"`
	Each    time.Duration `json:"each"`
	Sorted  time.Duration `json:"sorted"`
}

func (p BatchPlan) String() string {
	return fmt.Sprintf("%d queries, %s: expected are %s by each, %s by sorted", p.Queries, p.Method,
		nanoseconds(float64(p.Each)), nanoseconds(float64(p.Sorted)))
}

// PlanBatch returns how QueryBatch would answer so many queries now. It depends on
// what is in memory. Errors: ErrClosed, ErrDistance, ctx's.
func (x *Index) PlanBatch(ctx context.Context, queries int, opts ...QueryOption) (BatchPlan, error) {
	if err := x.begin(ctx); err != nil {
		return BatchPlan{}, err
	}
	defer x.end()
	q, err := x.query(opts)
	if err != nil {
		return BatchPlan{}, err
	}
	p := x.planBatch(queries, q.k)
	if q.method != "" {
		p.Method = q.method
	}
	return p, nil
}

const (
	// leastBatch is the number of queries below which nothing is gained by sorting.
	leastBatch = 1 << 10
	// warmBatch is the number from which on it is gained in memory as well: at 10 M, 7,500
	// queries take 1.4 times as long sorted as one by one, a million 0.8 times.
	warmBatch = 1 << 16
)

func (x *Index) planBatch(queries, k int) BatchPlan {
	e := batchEstimate{
		plan: x.plan, costs: DefaultCosts(), queries: queries,
		packed: int64(x.store.PackedEntries()), cached: x.store.PackedCached(), cores: runtime.GOMAXPROCS(0),
	}
	return e.choose()
}

func (e *batchEstimate) choose() BatchPlan {
	p := BatchPlan{Method: QueryEach, Queries: e.queries, Each: e.each(), Sorted: e.sorted()}
	if e.queries < leastBatch {
		return p
	}
	if p.Sorted < p.Each && (e.queries >= warmBatch || p.Sorted < p.Each/2) {
		p.Method = QuerySorted
	}
	return p
}

// batchEstimate is what the times of a batch are reckoned from.
type batchEstimate struct {
	plan    *Plan
	costs   Costs
	queries int
	packed  int64
	cached  float64 // part of the packed blocks that is in memory
	cores   int
}

// Nanoseconds.
const (
	sortedProbeCost = 150  // to keep a probe until its turn, and to sort it
	orderedRead     = 4000 // to read a block that is not in memory, in the order of its table
)

func (e *batchEstimate) onCores(ns float64) time.Duration {
	return time.Duration(min(ns/float64(e.cores), math.MaxInt64/2))
}

func (e *batchEstimate) each() time.Duration {
	estimate := e.plan.Estimate(e.packed, e.costs, 0)
	each := estimate.Warm + (estimate.Disk-estimate.Warm)*(1-e.cached)
	return e.onCores(each * float64(e.queries))
}

// blocks returns how many blocks a table has.
func (e *batchEstimate) blocks(table int) float64 {
	bits := 64 - math.Log2(float64(max(e.packed, 2))) + 1.44
	if table == 0 {
		bits += math.Log2(float64(max(e.packed, 2)))
	}
	return float64(e.packed) * bits / 8 / blockBytes
}

func (e *batchEstimate) sorted() time.Duration {
	work, blocks := e.sortedWork()
	return e.onCores(work + e.reads(blocks))
}

// sortedWork returns the nanoseconds that the sorted way takes without reads, and the
// blocks that it looks at.
func (e *batchEstimate) sortedWork() (ns, blocks float64) {
	for i, t := range e.plan.Tables {
		at := t.estimate(e.packed, unlimited)
		probes := float64(e.queries) * at.passing
		ns += float64(e.queries)*float64(at.lookups)*e.costs.FilterLookup +
			probes*(sortedProbeCost+e.costs.PackedProbe/2) + float64(e.queries)*at.candidates*e.costs.PackedCandidate
		all := max(e.blocks(i), 1)
		each := 1 + at.candidates/max(at.passing, 1e-9)/float64(e.packed)*all // of a probe that passes
		blocks += all * -math.Expm1(-probes*each/all)
	}
	return ns, blocks
}

// reads returns what reading so many blocks in order takes.
func (e *batchEstimate) reads(blocks float64) float64 { return blocks * (1 - e.cached) * orderedRead }

func (e *batchEstimate) windows() float64 { return math.Ceil(float64(e.queries) / batchWindow) }
