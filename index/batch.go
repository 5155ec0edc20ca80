package index

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/testhook"
	"github.com/neardup/neardup/store"
)

// Answer is what QueryBatch found for one of the queries.
type Answer struct {
	Query   int // its place among them, from 0
	Matches []Match
}

// QueryBatch answers many queries at once, on all cores, and yields their answers in
// order. All are answered of one moment. It stops at the first error, which it yields. The
// index must not be closed from within the loop.
//
// Where it is expected to take less time, they are not answered one by one, but table by
// table with the probes of all of them in its order, so that each block is read once. At
// most a million queries are under way at once; they take some 100 bytes each, and 40 for
// each matching fingerprint, of which there are 4 million at most before fewer queries are
// taken at once.
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

const (
	// batchWindow is how many queries are searched together.
	batchWindow = 1 << 20
	// leastWindow is how many are answered one by one if together they have too many hits
	// to be kept.
	leastWindow = 1 << 10
)

// queryBatch answers window after window.
func (x *Index) queryBatch(ctx context.Context, queries []Query, yield func(Answer, error) bool) (err error) {
	readers, err := x.sameReaders(min(runtime.GOMAXPROCS(0), (len(queries)+answerLen-1)/answerLen))
	if err != nil {
		return err
	}
	defer closeAll(readers, &err)
	s := readers[0].s
	for i := range queries {
		if _, err := queries[i].Within(s.plan.MaxDistance); err != nil {
			return err
		}
	}
	size, sorted := len(queries), s.sorts(ctx, len(queries))
	if sorted {
		size = batchWindow
	}
	for start, more := 0, true; start < len(queries) && more && err == nil; {
		w := window{start: start, queries: queries[start:min(start+size, len(queries))]}
		if sorted && size > leastWindow {
			w.hits, err = searchBatch(ctx, readers, w.queries)
			if errors.Is(err, errManyHits) {
				size, err = size/4, nil
				continue
			}
		}
		if err == nil {
			more, err = w.answer(ctx, readers, yield)
		}
		start += len(w.queries)
	}
	return err
}

const (
	// leastBatch is the number of queries below which nothing is gained by sorting.
	leastBatch = 1 << 10
	// warmBatch is the number from which on it is gained in memory as well: at 10 M, 7,500
	// queries take 1.4 times as long sorted as one by one, a million 0.8 times.
	warmBatch = 1 << 16
	// orderedRead is the nanoseconds to read a block that is not in memory, in the order of
	// its table.
	orderedRead = 4000
)

// sorts reports whether so many queries are answered table by table.
func (s *state) sorts(ctx context.Context, queries int) bool {
	if sorted, set := testhook.SortedBatches(ctx); set {
		return sorted
	}
	return sortsBatch(s.plan, queries, int64(s.tables.PackedEntries()), 1-s.tables.PackedCached())
}

// sortsBatch estimates with so many packed fingerprints, a part of which must be read.
func sortsBatch(p *plan.Plan, queries int, packed int64, toRead float64) bool {
	one := p.Estimate(packed, 0)
	each := float64(queries) * (one.Warm + (one.Disk-one.Warm)*toRead)
	work, blocks := one.Batch(float64(queries))
	sorted := work + blocks*toRead*orderedRead
	return queries >= leastBatch && sorted < each && (queries >= warmBatch || sorted < each/2)
}

// window is queries of a batch on their way to answers.
type window struct {
	start   int // among all
	queries []Query
	hits    *batchHits // nil: they are searched one by one
}

const (
	// answerLen is how many queries a worker answers at a time.
	answerLen = 64
	// answersAhead is how many times that each worker may be ahead of what was yielded.
	answersAhead = 4
)

// answers are those to a run of queries, up to an error.
type answers struct {
	start   int
	matches [][]Match
	err     error
}

// answer lets workers answer ahead of what is yielded. more is false if the caller wants
// no more.
func (w *window) answer(ctx context.Context, readers []*reader, yield func(Answer, error) bool) (more bool, err error) {
	for a, err := range ordered.All(ctx, len(readers), len(readers)*answersAhead, func(p *ordered.Pipe[answers]) error {
		for start := 0; start < len(w.queries); start += answerLen {
			if err := p.Go(func(worker int) (answers, error) { return w.answers(p.Context(), readers[worker], start), nil }); err != nil {
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

func (w *window) answers(ctx context.Context, r *reader, start int) answers {
	a := answers{start: start}
	for i := start; i < min(start+answerLen, len(w.queries)); i++ {
		q := &w.queries[i]
		var matches []Match
		if a.err = ctx.Err(); a.err != nil {
			break
		}
		if w.hits != nil {
			matches, a.err = r.matches(ctx, q, w.hits.of(i), nil)
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

// batch finds the hits of a window of queries, with each table read in order.
type batch struct {
	s       *state // of all readers
	ctx     context.Context
	targets []target
	kept    atomic.Int64 // hits
	workers []*batchWorker
}

// target is what one query looks for.
type target struct {
	stored uint64
	k      int
}

// batchProbe is a prefix of a table to look for.
type batchProbe struct {
	first uint64 // the smallest permuted fingerprint that has it
	query uint32
	live  bool
}

// batchWorker is for one goroutine. What is to be sorted it keeps in parts, for the workers
// to sort one after the other.
type batchWorker struct {
	*batch
	reader *reader
	table  *store.PackedTable // that is read; nil: none is packed

	probes    parts[batchProbe] // by prefix
	elsewhere parts[hit]        // what packed tables but the first have found, by fingerprint: its posting is in table 0
	hits      parts[hit]        // by query
}

const batchParts = 256

type parts[T any] [batchParts][]T

// gather returns what all workers have in a part, and lets go of it.
func gather[T any](b *batch, part int, of func(*batchWorker) *parts[T]) []T {
	var all []T
	for _, w := range b.workers {
		p := of(w)
		if all == nil {
			all = p[part]
		} else {
			all = append(all, p[part]...)
		}
		p[part] = nil
	}
	return all
}

// batchHits are the hits of a window, nearest first for each query.
type batchHits struct {
	queries int
	parts   parts[hit]
}

func partOf(query uint32, queries int) int { return int(uint64(query) * batchParts / uint64(queries)) }

func (h *batchHits) of(query int) []hit {
	hits := h.parts[partOf(uint32(query), h.queries)]
	first, _ := slices.BinarySearchFunc(hits, uint32(query), func(h hit, q uint32) int { return cmp.Compare(h.query, q) })
	end := first
	for end < len(hits) && hits[end].query == uint32(query) {
		end++
	}
	return hits[first:end]
}

const maxBatchProbes = 16 << 20 // of a table that are in memory

var (
	maxBatchHits int64 = 4 << 20 // of a window that are in memory
	errManyHits        = errors.New("too many probes or hits for one window")
)

// searchBatch returns the hits of the queries. Error: errManyHits, if they are too many
// to be kept.
func searchBatch(ctx context.Context, readers []*reader, queries []Query) (*batchHits, error) {
	b := &batch{s: readers[0].s, ctx: ctx, targets: make([]target, len(queries))}
	for i := range queries {
		k, _ := queries[i].Within(b.s.plan.MaxDistance)
		b.targets[i] = target{storedOfQuery(&queries[i]), k}
	}
	for _, r := range readers {
		b.workers = append(b.workers, &batchWorker{batch: b, reader: r})
	}
	if err := b.s.packed.Wait(ctx); err != nil {
		return nil, err
	}
	// Table 0 comes last: on the way through it, postings are read for what the others found.
	for i := len(b.s.plan.Tables) - 1; i >= 0; i-- {
		if err := b.searchTable(i); err != nil {
			return nil, err
		}
	}
	hits := &batchHits{queries: len(queries)}
	err := b.eachOf(batchParts, func(_ *batchWorker, part int) error {
		hits.parts[part] = nearestFirst(gather(b, part, func(w *batchWorker) *parts[hit] { return &w.hits }))
		return nil
	})
	return hits, err
}

// eachOf lets the workers do n things, each the next one that none has begun.
func (b *batch) eachOf(n int, do func(w *batchWorker, i int) error) error {
	var next atomic.Int64
	errs := make([]error, len(b.workers))
	var wg sync.WaitGroup
	for i, w := range b.workers {
		wg.Go(func() {
			for errs[i] == nil {
				at := int(next.Add(1) - 1)
				if at >= n {
					return
				}
				if errs[i] = b.ctx.Err(); errs[i] == nil {
					errs[i] = do(w, at)
				}
			}
			next.Store(int64(n)) // the others need not go on
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// searchTable probes a table, in its order, for all queries.
func (b *batch) searchTable(table int) (err error) {
	if err := b.collect(table); err != nil {
		return err
	}
	defer func() {
		for _, w := range b.workers {
			if w.table != nil {
				err = errors.Join(err, w.table.Close())
				w.table = nil
			}
		}
	}()
	for _, w := range b.workers {
		if b.s.tables.Packed(table) == nil {
			break
		}
		if w.table, err = w.reader.v.PackedInOrder(table); err != nil {
			return err
		}
	}
	return b.eachOf(batchParts, func(w *batchWorker, part int) error { return w.searchPart(table, part) })
}

// queriesTogether is how many queries a worker takes at once.
const queriesTogether = 4096

// collect finds the prefixes of a table that may be there for each query.
func (b *batch) collect(table int) error {
	t := &b.s.plan.Tables[table]
	var collected atomic.Int64
	return b.eachOf((len(b.targets)+queriesTogether-1)/queriesTogether, func(w *batchWorker, i int) error {
		n := 0
		r := w.reader
		for q := i * queriesTogether; q < min((i+1)*queriesTogether, len(b.targets)) && n <= maxBatchProbes; q++ {
			permuted := t.Permute(b.targets[q].stored)
			r.flips = b.s.packed.AppendCandidates(r.flips[:0], table, permuted)
			packed := len(r.flips)
			for _, live := range b.s.live {
				r.flips = live.AppendCandidates(r.flips, table, permuted)
			}
			for j, flips := range r.flips {
				first, _ := t.PrefixRange(permuted ^ flips)
				w.probes[first>>56] = append(w.probes[first>>56], batchProbe{first, uint32(q), j >= packed})
			}
			n += len(r.flips)
		}
		if collected.Add(int64(n)) > maxBatchProbes {
			return errManyHits
		}
		return nil
	})
}

// searchPart makes the probes of a part. In table 0 it looks for what other tables found, too.
func (w *batchWorker) searchPart(table, part int) error {
	t, r := &w.s.plan.Tables[table], w.reader
	probes := gather(w.batch, part, func(w *batchWorker) *parts[batchProbe] { return &w.probes })
	slices.SortFunc(probes, func(a, b batchProbe) int { return cmp.Compare(a.first, b.first) })
	var others []hit
	if table == 0 {
		others = gather(w.batch, part, func(w *batchWorker) *parts[hit] { return &w.elsewhere })
		slices.SortFunc(others, func(a, b hit) int { return cmp.Compare(a.stored, b.stored) })
	}
	for _, probe := range probes {
		for len(others) > 0 && others[0].stored < probe.first {
			if err := w.locate(others[0]); err != nil {
				return err
			}
			others = others[1:]
		}
		first, last := t.PrefixRange(probe.first)
		target := w.targets[probe.query]
		r.begin(w.ctx, target.stored, target.k)
		permuted := t.Permute(target.stored)
		var err error
		if probe.live {
			err = r.probeLiveRange(table, permuted, first, last)
		} else {
			r.ranges = append(r.ranges[:0], store.Range{First: first, Last: last})
			err = r.probePacked(table, w.table, permuted, r.ranges)
		}
		if err == nil {
			err = w.keepHits(table, &probe)
		}
		if err != nil {
			return err
		}
	}
	for _, other := range others {
		if err := w.locate(other); err != nil {
			return err
		}
	}
	return nil
}

// keepHits keeps what a probe has found.
func (w *batchWorker) keepHits(table int, probe *batchProbe) error {
	for _, h := range w.reader.hits {
		h.query = probe.query
		switch {
		case h.posting != nil:
			h.id, h.posting = onlyID(*h.posting), nil
		case probe.live:
		case table != 0:
			w.elsewhere[h.stored>>56] = append(w.elsewhere[h.stored>>56], h)
			if err := w.count(); err != nil {
				return err
			}
			continue
		default:
			if err := w.readPacked(&h); err != nil {
				return err
			}
		}
		if err := w.keep(h); err != nil {
			return err
		}
	}
	return nil
}

// count counts a hit before it is kept.
func (w *batchWorker) count() error {
	if w.kept.Add(1) > maxBatchHits {
		return errManyHits
	}
	return nil
}

func (w *batchWorker) keep(h hit) error {
	part := partOf(h.query, len(w.targets))
	w.hits[part] = append(w.hits[part], h)
	return w.count()
}

// locate finds in table 0 what another table has found.
func (w *batchWorker) locate(h hit) error {
	block, at, found, err := w.table.Locate(h.stored)
	if err != nil {
		return err
	}
	if found {
		h.block, h.at = int32(block), uint16(at)
		if err := w.readPacked(&h); err != nil {
			return err
		}
	}
	w.kept.Add(-1) // it was counted before
	return w.keep(h)
}

// readPacked reads the posting of a hit in packed table 0, if that says it all and is
// of one document. Others are read when they are asked for: they may be large.
func (w *batchWorker) readPacked(h *hit) error {
	if w.s.mayBeLive(h.stored) {
		return nil
	}
	ids, err := w.table.PostingAt(int(h.block), int(h.at))
	h.id = onlyID(ids)
	return err
}

// onlyID returns the ID of the only document of a posting; 0 if there is not exactly one.
func onlyID(ids store.IDs) uint64 {
	if ids.Len() != 1 {
		return 0
	}
	id, _ := ids.Iterator()()
	return id
}
