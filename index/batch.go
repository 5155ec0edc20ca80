package index

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/scan"
	"github.com/neardup/neardup/internal/testing/testhook"
	"github.com/neardup/neardup/store"
	"golang.org/x/sync/errgroup"
)

// Answer is the answer to a query of QueryBatch.
type Answer struct {
	Query   int // position of the query, from 0
	Matches []Match
}

// QueryBatch answers queries on all cores and yields the answers in the order of the queries. All
// answers describe one snapshot. QueryBatch yields the first error and stops. The errors are the
// same as for Query. The index must not be closed within the loop.
//
// If the blocks of the index are not in memory, reading them one by one may take longer than a
// sequential pass over the index. QueryBatch then compares up to a million queries at a time with
// all fingerprints in one pass. That takes about 150 bytes per query, and 32 bytes per matching
// fingerprint for at most 4 million of them.
func (x *Index) QueryBatch(ctx context.Context, queries []Query) iter.Seq2[Answer, error] {
	return loop(ctx, x, func(yield func(Answer) bool) error {
		return x.queryBatch(ctx, queries, yield)
	})
}

// passQueries is the number of queries that one pass over the index answers.
var passQueries = 1 << 20

func (x *Index) queryBatch(
	ctx context.Context, queries []Query, yield func(Answer) bool,
) (err error) {
	readers, err := x.sameReaders(min(runtime.GOMAXPROCS(0), (len(queries)+answerLen-1)/answerLen))
	if err != nil {
		return err
	}
	defer closeAll(readers, &err)
	within, k := make([]int, len(queries)), 0
	for i := range queries {
		if within[i], err = queries[i].Within(x.plan.MaxDistance); err != nil {
			return err
		}
		k = max(k, within[i])
	}
	matches := func(ctx context.Context, r *reader, i int) ([]Match, error) {
		return r.query(ctx, &queries[i], within[i])
	}
	if !readers[0].scans(ctx, min(len(queries), passQueries), k) {
		_, err := answer(ctx, readers, 0, len(queries), matches, yield)
		return err
	}
	for start := 0; start < len(queries); start += passQueries {
		end := min(start+passQueries, len(queries))
		hits, known, err := scanFor(ctx, readers, queries[start:end], within[start:end], k)
		if err != nil {
			return err
		}
		find := matches
		if known {
			find = func(ctx context.Context, r *reader, i int) ([]Match, error) {
				return r.matches(ctx, &queries[i], hits.of(i-start))
			}
		}
		if more, err := answer(ctx, readers, start, end, find, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// leastBatch is the smallest number of queries for which a pass over the index is considered.
const leastBatch = 1 << 10

// scans reports whether queries within k bits are answered by a pass over the index.
func (r *reader) scans(ctx context.Context, queries, k int) bool {
	if scans, set := testhook.ScannedBatches(ctx); set {
		return scans
	}
	tables := r.s.tables
	return scanIsFaster(r.x.plan, queries, k, int64(tables.PackedEntries()),
		1-tables.PackedCached())
}

// scanIsFaster compares the estimated times of single queries and of a pass over the index.
// toRead is the part of the packed blocks that must be read from disk.
func scanIsFaster(p *plan.Plan, queries, k int, packed int64, toRead float64) bool {
	const (
		readEntry    = 100  // nanoseconds to read an entry of table 0 with its documents in order
		prepareQuery = 1000 // nanoseconds to prepare a query for a pass
	)
	e := p.Estimate(packed)
	oneByOne := float64(queries) * (e.Warm + (e.Disk-e.Warm)*toRead)
	pass := float64(queries)*prepareQuery + float64(packed)*(readEntry+
		scan.Estimate(queries, k, packed))
	return queries >= leastBatch && pass < oneByOne
}

const (
	// answerLen is the number of queries that a worker answers at a time.
	answerLen = 64
	// answersAhead is the number of parts of answerLen queries by which each worker may be ahead of
	// the loop.
	answersAhead = 4
)

// answer yields the answers to queries[start:end]. Its workers run ahead of the loop. more is false
// if the loop has ended.
func answer(
	ctx context.Context, readers []*reader, start, end int,
	matches func(context.Context, *reader, int) ([]Match, error), yield func(Answer) bool,
) (more bool, err error) {
	for some, err := range ordered.Parts(ctx, len(readers), len(readers)*answersAhead,
		end-start, answerLen,
		func(ctx context.Context, worker, from, to int) (answers []Answer, err error) {
			for i := start + from; i < start+to; i++ {
				a := Answer{Query: i}
				if a.Matches, err = matches(ctx, readers[worker], i); err != nil {
					return nil, err
				}
				answers = append(answers, a)
			}
			return answers, nil
		}) {
		if err != nil {
			return false, err
		}
		for _, a := range some {
			if !yield(a) {
				return false, nil
			}
		}
	}
	return true, nil
}

// batchHits has the hits of a pass by query, nearest first.
type batchHits struct {
	hits   []hit
	starts []uint32 // of each query, and the end of the last one
}

func (h *batchHits) of(query int) []hit { return h.hits[h.starts[query]:h.starts[query+1]] }

// scanned is the number of fingerprints that are compared at a time.
const scanned = 4096

// maxBatchHits is the largest number of hits of a pass that are kept in memory.
var maxBatchHits int64 = 4 << 20

// scanFor returns the hits of queries, each within its own distance of at most k bits, by a pass
// over all entries of table 0. known is false if there are more than maxBatchHits.
func scanFor(
	ctx context.Context, readers []*reader, queries []Query, within []int, k int,
) (h batchHits, known bool, err error) {
	stored := make([]uint64, len(queries))
	for i := range queries {
		stored[i] = storedOfQuery(&queries[i])
	}
	prepared, err := scan.New(stored, k, int64(readers[0].s.tables.PackedEntries()))
	if err != nil {
		return h, false, err
	}
	var kept atomic.Int64
	var found [rangeCount][]hit
	if err := eachRange(readers, func(r *reader, n int, first, last uint64) error {
		if kept.Load() > maxBatchHits {
			return nil
		}
		return r.scan(ctx, first, last, prepared, func(h hit) {
			if int(h.distance) <= within[h.query] && kept.Add(1) <= maxBatchHits {
				found[n] = append(found[n], h)
			}
		})
	}); err != nil || kept.Load() > maxBatchHits {
		return h, false, err
	}
	h = batchHits{hits: slices.Concat(found[:]...), starts: make([]uint32, len(queries)+1)}
	for i := range h.hits {
		h.starts[h.hits[i].query+1]++
	}
	for i := range queries {
		h.starts[i+1] += h.starts[i]
	}
	slices.SortFunc(h.hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.query, b.query), cmp.Compare(a.distance, b.distance),
			cmp.Compare(a.stored, b.stored))
	})
	return h, true, nil
}

// rangeCount is the number of ranges into which eachRange divides the fingerprints.
const rangeCount = 64

// eachRange calls do for ranges of all fingerprints, numbered in ascending order. Each reader
// works on one range at a time, in its own goroutine.
func eachRange(
	readers []*reader, do func(r *reader, n int, first, last uint64) error,
) error {
	const width = 1 << 64 / rangeCount
	var next atomic.Int64
	var group errgroup.Group
	for _, r := range readers {
		group.Go(func() error {
			for n := next.Add(1) - 1; n < rangeCount; n = next.Add(1) - 1 {
				first := uint64(n) * width
				if err := do(r, int(n), first, first+(width-1)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// scan calls found with the hits of prepared queries among the stored fingerprints from first
// to last.
func (r *reader) scan(
	ctx context.Context, first, last uint64, queries *scan.Queries, found func(hit),
) error {
	fps := make([]uint64, 0, scanned)
	ids := make([]uint64, 0, scanned) // of the only document of each; 0 if it has several
	compare := func() error {
		queries.Scan(fps, func(m scan.Match) {
			found(hit{stored: fps[m.At], id: ids[m.At], query: uint32(m.Query), block: -1,
				distance: uint8(m.Distance)})
		})
		fps, ids = fps[:0], ids[:0]
		return ctx.Err()
	}
	for p, err := range r.v.Entries(first) { // reader.document skips removed IDs
		if err != nil {
			return err
		}
		if p.Stored > last {
			break
		}
		fps, ids = append(fps, p.Stored), append(ids, onlyID(p.IDs))
		if len(fps) == scanned {
			if err := compare(); err != nil {
				return err
			}
		}
	}
	return compare()
}

// onlyID returns the ID of the only document of an entry; 0 if there is not exactly one.
func onlyID(ids store.IDs) uint64 {
	if ids.Len() != 1 {
		return 0
	}
	var id [1]uint64
	return ids.AppendTo(id[:0])[0]
}
