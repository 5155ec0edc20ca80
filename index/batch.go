package index

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/scan"
	"github.com/neardup/neardup/internal/testing/testhook"
	"github.com/neardup/neardup/store"
)

// Answer is the answer to a query of QueryBatch.
type Answer struct {
	Query   int // position of the query, from 0
	Matches []Match
}

// QueryBatch answers queries on all cores and yields the answers in the order of the queries. All
// answers describe one snapshot. QueryBatch yields the first error and stops. The index must not be
// closed within the loop.
//
// If the blocks of the index are not in memory, reading them one by one may take longer than a
// sequential pass over the index. QueryBatch then compares up to a million queries at a time with
// all fingerprints in one pass. That takes about 150 bytes per query, and 32 bytes per matching
// fingerprint for at most 4 million of them.
func (x *Index) QueryBatch(ctx context.Context, queries []Query) iter.Seq2[Answer, error] {
	return func(yield func(Answer, error) bool) {
		stopped := false
		err := x.begin(ctx)
		if err == nil {
			defer x.end()
			err = x.queryBatch(ctx, queries, func(a Answer, err error) bool {
				stopped = !yield(a, err)
				return !stopped
			})
		}
		if err != nil && !stopped {
			yield(Answer{}, err)
		}
	}
}

// batchWindow is the number of queries of one pass over the index.
var batchWindow = 1 << 20

func (x *Index) queryBatch(
	ctx context.Context, queries []Query, yield func(Answer, error) bool,
) (err error) {
	readers, err := x.sameReaders(min(runtime.GOMAXPROCS(0), (len(queries)+answerLen-1)/answerLen))
	if err != nil {
		return err
	}
	defer closeAll(readers, &err)
	s := readers[0].s
	k := 0
	for i := range queries {
		within, err := queries[i].Within(s.plan.MaxDistance)
		if err != nil {
			return err
		}
		k = max(k, within)
	}
	size, scans := max(len(queries), 1), s.scans(ctx, min(len(queries), batchWindow), k)
	if scans {
		size = batchWindow
	}
	start := 0
	for some := range slices.Chunk(queries, size) {
		w := queryWindow{start: start, queries: some}
		if scans {
			if w.hits, err = scanFor(ctx, readers, some, k); err != nil {
				return err
			}
		}
		if more, err := w.answer(ctx, readers, yield); err != nil || !more {
			return err
		}
		start += len(some)
	}
	return nil
}

// leastBatch is the number of queries below which a pass over the index is not considered.
const leastBatch = 1 << 10

// scans reports whether queries within k bits are answered by a pass over the index.
func (s *state) scans(ctx context.Context, queries, k int) bool {
	if scans, set := testhook.ScannedBatches(ctx); set {
		return scans
	}
	return scanIsFaster(s.plan, queries, k, int64(s.tables.PackedEntries()),
		1-s.tables.PackedCached())
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
	// answersAhead is how many times answerLen queries each worker may be ahead of the loop.
	answersAhead = 4
)

// queryWindow is queries of a batch that are answered together.
type queryWindow struct {
	start   int // position of the first query in the batch
	queries []Query
	hits    *batchHits // nil: the queries are searched one by one
}

// answers are the answers to some consecutive queries of a window, up to an error.
type answers struct {
	start   int
	matches [][]Match
	err     error
}

// answer answers the queries of a window, with workers that run ahead of the loop. It returns
// more = false if the loop has ended.
func (w *queryWindow) answer(
	ctx context.Context, readers []*reader, yield func(Answer, error) bool,
) (more bool, err error) {
	for a, err := range ordered.All(ctx, len(readers), len(readers)*answersAhead,
		func(p *ordered.Pipe[answers]) error {
			for start := 0; start < len(w.queries); start += answerLen {
				if err := p.Go(func(worker int) (answers, error) {
					return w.answers(p.Context(), readers[worker], start), nil
				}); err != nil {
					return err
				}
			}
			return nil
		}) {
		if err != nil {
			return false, err
		}
		for i, matches := range a.matches {
			if !yield(Answer{w.start + a.start + i, matches}, nil) {
				return false, nil
			}
		}
		if a.err != nil {
			return false, a.err
		}
	}
	return true, nil
}

func (w *queryWindow) answers(ctx context.Context, r *reader, start int) answers {
	a := answers{start: start}
	for i := start; i < min(start+answerLen, len(w.queries)); i++ {
		q := &w.queries[i]
		var matches []Match
		if a.err = ctx.Err(); a.err != nil {
			break
		}
		if w.hits != nil {
			matches, a.err = r.matches(ctx, q, w.hits.of(i))
		} else {
			k, _ := q.Within(r.s.plan.MaxDistance)
			matches, a.err = r.query(ctx, q, k)
		}
		if a.err != nil {
			break
		}
		a.matches = append(a.matches, matches)
	}
	return a
}

// batchHits are the hits of a window by query, the nearest first.
type batchHits struct {
	hits   []hit
	starts []uint32 // of each query, and the end of the last one
}

func (h *batchHits) of(query int) []hit { return h.hits[h.starts[query]:h.starts[query+1]] }

const (
	scanParts = 64   // ranges of fingerprints that workers scan one at a time
	scanned   = 4096 // fingerprints that are compared at a time
)

// maxBatchHits is the number of hits of a window that are kept in memory.
var maxBatchHits int64 = 4 << 20

// scanFor returns the hits of queries within k bits or less, by a pass over all entries of
// table 0. It returns nil if they are more than maxBatchHits.
func scanFor(ctx context.Context, readers []*reader, queries []Query, k int) (*batchHits, error) {
	stored := make([]uint64, len(queries))
	within := make([]uint8, len(queries))
	for i := range queries {
		stored[i] = storedOfQuery(&queries[i])
		k, _ := queries[i].Within(readers[0].s.plan.MaxDistance)
		within[i] = uint8(k)
	}
	prepared, err := scan.New(stored, k, int64(readers[0].s.tables.PackedEntries()))
	if err != nil {
		return nil, err
	}
	var next, kept atomic.Int64
	found := make([][]hit, len(readers))
	errs := make([]error, len(readers))
	var workers sync.WaitGroup
	for i, r := range readers {
		workers.Go(func() {
			for errs[i] == nil && kept.Load() <= maxBatchHits {
				part := uint64(next.Add(1) - 1)
				if part >= scanParts {
					return
				}
				const width = (1<<64-1)/scanParts + 1
				errs[i] = r.scan(ctx, part*width, part*width+(width-1), prepared, func(h hit) {
					if h.distance <= within[h.query] && kept.Add(1) <= maxBatchHits {
						found[i] = append(found[i], h)
					}
				})
			}
		})
	}
	workers.Wait()
	if err := cmp.Or(errs...); err != nil || kept.Load() > maxBatchHits {
		return nil, err
	}
	h := &batchHits{hits: slices.Concat(found...), starts: make([]uint32, len(queries)+1)}
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
	return h, nil
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
	for p, err := range r.v.Entries(first) { // the search for documents skips removed IDs
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
