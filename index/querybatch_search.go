package index

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
)

// batchSearch finds the hits of a window of queries, with each table read in order.
type batchSearch struct {
	x      *Index
	ctx    context.Context
	stored []uint64 // what is searched for
	k      int
	found  atomic.Int64

	workers []*batchWorker
	probes  []*parted[batchProbe]
	// What tables but the first have found, by fingerprint: its posting is to be read from table 0.
	elsewhere []*parted[batchHit]
	hits      []*parted[batchHit]
}

// batchProbe is a prefix of a table to look for.
type batchProbe struct {
	first uint64 // the smallest permuted fingerprint that has it
	query uint32
}

// batchWorker is for one goroutine.
type batchWorker struct {
	*batchSearch
	search
	number int
	table  *store.PackedTable // the packed table that is read, in order; nil: none
}

// searchBatch returns the hits of the queries. Error: errManyHits, if they are too many
// to be kept.
func searchBatch(ctx context.Context, readers []*reader, fps []fingerprint.Fingerprint, q query) (*batchHits, error) {
	b := &batchSearch{x: readers[0].x, ctx: ctx, stored: make([]uint64, len(fps)), k: q.k}
	for i, fp := range fps {
		b.stored[i] = store.Stored(uint64(fp), q.scope)
	}
	for i, r := range readers {
		w := &batchWorker{batchSearch: b, number: i}
		w.search = search{reader: r, ctx: ctx, k: q.k}
		b.workers = append(b.workers, w)
		b.probes = append(b.probes, new(parted[batchProbe]))
		b.elsewhere = append(b.elsewhere, new(parted[batchHit]))
		b.hits = append(b.hits, new(parted[batchHit]))
	}
	if err := b.packed(); err != nil {
		return nil, err
	}
	if err := b.live(); err != nil {
		return nil, err
	}
	hits := &batchHits{queries: len(fps)}
	err := b.eachOf(batchParts, func(_ *batchWorker, part int) error {
		hits.parts[part] = sortHits(gather(b.hits, part))
		return nil
	})
	return hits, err
}

// eachOf lets the workers do n things, each the next one that none has begun.
func (b *batchSearch) eachOf(n int, do func(w *batchWorker, i int) error) error {
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

// packed searches what the last compaction left.
func (b *batchSearch) packed() error {
	if b.x.store.Packed(0) == nil {
		return nil
	}
	if err := b.x.packed.Wait(b.ctx); err != nil {
		return err
	}
	// Table 0 comes last: on the way through it, postings are read for what the others found.
	for i := len(b.x.plan.Tables) - 1; i >= 0; i-- {
		if err := b.packedTable(i); err != nil {
			return err
		}
	}
	return nil
}

// maxBatchProbes bounds the probes of a table that are in memory.
const maxBatchProbes = 16 << 20

// queriesTogether is how many queries a worker takes at once.
const queriesTogether = 4096

// collect lets flips find the prefixes of a table that may be there for each query, and
// puts them into parts.
func (b *batchSearch) collect(table int, flips func(w *batchWorker, permuted uint64) []uint64) error {
	t := &b.x.plan.Tables[table]
	var collected atomic.Int64
	return b.eachOf((len(b.stored)+queriesTogether-1)/queriesTogether, func(w *batchWorker, i int) error {
		out, n := b.probes[w.number], int64(0)
		for q := i * queriesTogether; q < min((i+1)*queriesTogether, len(b.stored)); q++ {
			permuted := t.Permute(b.stored[q])
			for _, flip := range flips(w, permuted) {
				first, _ := t.PrefixRange(permuted ^ flip)
				out[first>>56] = append(out[first>>56], batchProbe{first, uint32(q)})
				n++
			}
			if n > maxBatchProbes {
				break
			}
		}
		if collected.Add(n) > maxBatchProbes {
			return errManyHits
		}
		return nil
	})
}

// sortedProbes returns the probes of a part in the order of the table.
func (b *batchSearch) sortedProbes(part int) []batchProbe {
	probes := gather(b.probes, part)
	slices.SortFunc(probes, func(a, b batchProbe) int { return cmp.Compare(a.first, b.first) })
	return probes
}

// packedTable probes a packed table.
func (b *batchSearch) packedTable(table int) error {
	t := &b.x.plan.Tables[table]
	err := b.collect(table, func(w *batchWorker, permuted uint64) []uint64 {
		w.flips = b.x.packed.AppendCandidates(w.flips[:0], table, permuted)
		return w.flips
	})
	if err != nil {
		return err
	}
	if err := b.openTables(table); err != nil {
		return err
	}
	err = b.eachOf(batchParts, func(w *batchWorker, part int) error {
		probes := b.sortedProbes(part)
		var others []batchHit
		if table == 0 {
			others = gather(b.elsewhere, part)
			slices.SortFunc(others, func(a, b batchHit) int { return cmp.Compare(a.stored, b.stored) })
		}
		for _, probe := range probes {
			for len(others) > 0 && others[0].stored < probe.first {
				if err := w.locate(others[0]); err != nil {
					return err
				}
				others = others[1:]
			}
			first, last := t.PrefixRange(probe.first)
			query := w.begin(t, probe.query)
			if err := w.probePacked(table, w.table, query, first, last); err != nil {
				return err
			}
			if err := w.keepHits(table, probe.query); err != nil {
				return err
			}
		}
		for _, other := range others {
			if err := w.locate(other); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, b.closeTables())
}

func (b *batchSearch) openTables(table int) (err error) {
	for _, w := range b.workers {
		if w.table, err = w.v.PackedInOrder(table); err != nil {
			return errors.Join(err, b.closeTables())
		}
	}
	return nil
}

func (b *batchSearch) closeTables() error {
	var errs []error
	for _, w := range b.workers {
		if w.table != nil {
			errs = append(errs, w.table.Close())
			w.table = nil
		}
	}
	return errors.Join(errs...)
}

// begin makes the search one for a query, and returns that as a table has it.
func (w *batchWorker) begin(t *plan.Table, query uint32) (permuted uint64) {
	w.search.stored = w.batchSearch.stored[query]
	w.search.hits = w.search.hits[:0]
	return t.Permute(w.search.stored)
}

// keepHits keeps what a probe has found.
func (w *batchWorker) keepHits(table int, query uint32) error {
	for i := range w.search.hits {
		h := &w.search.hits[i]
		b := batchHit{stored: h.stored, query: query, block: int32(h.block), at: uint16(h.at), distance: uint8(h.distance)}
		switch {
		case h.posting != nil:
			b.id = onlyID(*h.posting)
		case table != 0 && w.table != nil:
			out := w.elsewhere[w.number]
			out[h.stored>>56] = append(out[h.stored>>56], b)
			if err := w.count(); err != nil {
				return err
			}
			continue
		default:
			if err := w.readPacked(&b); err != nil {
				return err
			}
		}
		if err := w.keep(b); err != nil {
			return err
		}
	}
	return nil
}

// count counts a hit before it is kept.
func (w *batchWorker) count() error {
	if w.found.Add(1) > maxBatchHits {
		return errManyHits
	}
	return nil
}

func (w *batchWorker) keep(b batchHit) error {
	part := partOf(b.query, len(w.batchSearch.stored))
	out := w.batchSearch.hits[w.number]
	out[part] = append(out[part], b)
	return w.count()
}

// readPacked reads the posting of a hit in packed table 0, if that says it all and is
// of one document. Others are read when they are asked for: they may be large.
func (w *batchWorker) readPacked(b *batchHit) error {
	if b.block < 0 || w.x.live.MayContain(b.stored) {
		return nil
	}
	ids, err := w.table.PostingAt(int(b.block), int(b.at))
	b.id = onlyID(ids)
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

// locate finds what another table has found in table 0.
func (w *batchWorker) locate(b batchHit) error {
	block, at, found, err := w.table.Locate(b.stored)
	if err != nil {
		return err
	}
	if b.block = -1; found {
		b.block, b.at = int32(block), uint16(at)
		if err := w.readPacked(&b); err != nil {
			return err
		}
	}
	w.found.Add(-1) // it was counted before
	return w.keep(b)
}

// live probes what was written since the last compaction.
func (b *batchSearch) live() error {
	if b.x.live.Empty() {
		return nil
	}
	for table := range b.x.plan.Tables {
		t := &b.x.plan.Tables[table]
		err := b.collect(table, func(w *batchWorker, permuted uint64) []uint64 {
			w.flips = b.x.live.AppendCandidates(w.flips[:0], table, permuted)
			return w.flips
		})
		if err != nil {
			return err
		}
		err = b.eachOf(batchParts, func(w *batchWorker, part int) error {
			for _, probe := range b.sortedProbes(part) {
				first, last := t.PrefixRange(probe.first)
				query := w.begin(t, probe.query)
				if err := w.probeLiveRange(table, query, first, last); err != nil {
					return err
				}
				if err := w.keepHits(table, probe.query); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
