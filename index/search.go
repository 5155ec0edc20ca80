package index

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/store"
)

// reader reads one snapshot of the index. The packed tables of a state never change, so a reader
// opens a view of the store only if its answer can depend on live entries, removed IDs or records.
// It is not safe for concurrent use.
type reader struct {
	x *Index
	s *state      // close releases its tables
	v *store.View // of s; nil until it is needed

	position uint64 // the view shows all recent writes before this position; 0 without a view

	// The current search appends the entries within k bits of stored to hits.
	ctx    context.Context
	stored uint64
	k      int
	hits   []hit
	steps  int

	// The fields below are reused by the next search.
	flips, fps []uint64
	blocks     []store.Visit
	visits     []visit
	places     []int
	comparison store.Comparison
	probes     []liveProbe
	near       []uint64 // fingerprints within k bits, if they are known without probes
}

// liveProbe is a search for the live entries of a table whose prefix is the query's XOR flips.
type liveProbe struct {
	table int
	flips uint64
}

// hit is a stored fingerprint within the distance of a query.
type hit struct {
	stored   uint64
	id       uint64 // of the only document with this fingerprint; 0: not known
	query    uint32 // position in a batch
	block    int32  // block of packed table 0 that has the fingerprint; -1: not known
	at       uint16 // position in the block
	distance uint8
}

// reader returns a reader of a snapshot that is not older than the call. The caller must close it.
func (x *Index) reader() *reader { return x.readerOf(x.hold()) }

// readerOf returns a reader of a state that the caller holds. The reader releases the state.
func (x *Index) readerOf(s *state) *reader {
	r, ok := x.readers.Get().(*reader)
	if !ok {
		r = &reader{x: x}
	}
	r.s = s
	return r
}

// openView opens the view of the reader.
func (r *reader) openView() (err error) {
	if r.x.aroundView != nil {
		r.x.aroundView()
	}
	r.position = r.x.recent.mark()
	r.v, err = r.s.tables.View()
	if replaced := r.s.replacedAt.Load(); replaced > 0 {
		r.position = min(r.position, replaced)
	}
	if r.x.aroundView != nil {
		r.x.aroundView()
	}
	return err
}

func (r *reader) close() (err error) {
	if r.v != nil {
		err = r.v.Close()
		r.v, r.position = nil, 0
	}
	clear(r.visits) // their blocks are freed with the tables
	r.s.tables.Release()
	r.ctx, r.s = nil, nil
	r.x.readers.Put(r)
	return err
}

// sameReaders returns n readers of one snapshot.
func (x *Index) sameReaders(n int) ([]*reader, error) {
	first := x.reader()
	readers := []*reader{first}
	err := first.openView()
	for err == nil && len(readers) < n {
		first.s.tables.Hold()
		r := x.readerOf(first.s)
		readers = append(readers, r)
		r.position = first.position
		r.v, err = first.v.Clone()
	}
	if err != nil {
		closeAll(readers, &err)
		return nil, err
	}
	return readers, nil
}

// closeAll closes readers. It must be deferred, so that a panic leaves no view open.
func closeAll(readers []*reader, err *error) {
	for _, r := range readers {
		*err = errors.Join(*err, r.close())
	}
}

// search returns every stored fingerprint within k bits of the given one, once each, nearest first.
// k must not exceed the k of the plan. The hits are valid until the next search.
func (r *reader) search(ctx context.Context, stored uint64, k int) ([]hit, error) {
	r.ctx, r.stored, r.k, r.hits = ctx, stored, k, r.hits[:0]
	if err := r.searchPacked(); err != nil {
		return nil, err
	}
	if err := r.searchLive(); err != nil {
		return nil, err
	}
	r.hits = nearestFirst(r.hits)
	return r.hits, nil
}

// nearestFirst sorts hits by distance, then fingerprint, and drops repetitions: a packed
// fingerprint with new documents is also live.
func nearestFirst(hits []hit) []hit {
	if len(hits) < 2 {
		return hits
	}
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.stored, b.stored),
			cmp.Compare(b.block, a.block))
	})
	return slices.CompactFunc(hits, func(a, b hit) bool { return a.stored == b.stored })
}

// checkEvery is the number of probes and candidates between two checks of the context.
const checkEvery = 1 << 16

// goOn counts steps, and returns the error of the context once per checkEvery steps.
func (r *reader) goOn(steps int) error {
	before := r.steps
	if r.steps += steps; r.steps/checkEvery != before/checkEvery {
		return r.ctx.Err()
	}
	return nil
}

// searchPacked searches the packed entries: in memory if all of them are in memory, else by probes.
func (r *reader) searchPacked() error {
	var known bool
	if r.near, known = r.s.packed.AppendNear(r.near[:0], r.stored, r.k); known {
		r.takeNear()
		return nil
	}
	for i := range r.x.plan.Tables {
		p := r.s.tables.Packed(i)
		if p == nil {
			return nil
		}
		t := &r.x.plan.Tables[i]
		permuted := t.Permute(r.stored)
		r.flips = r.s.packed.AppendCandidates(r.flips[:0], i, permuted)
		for flips := r.flips; len(flips) > 0; {
			n := min(len(flips), probesTogether)
			r.blocks = r.blocks[:0]
			for _, flips := range flips[:n] {
				first, last := t.PrefixRange(permuted ^ flips)
				r.blocks = append(r.blocks, store.Visit{First: first, Last: last})
			}
			if err := r.probePacked(i, p, permuted); err != nil {
				return err
			}
			flips = flips[n:]
		}
	}
	return nil
}

const (
	// probesTogether is the number of probes of a table that are read together. Their blocks are
	// requested visitsAhead visits before they are opened, and the low bits of their fingerprints
	// as many visits before these are compared, so that the cache misses overlap.
	probesTogether = 64
	visitsAhead    = 16
)

// visit is the search of a packed block for the fingerprints of a range.
type visit struct {
	store.Visit
	block    store.Block
	from, to int  // positions of the range in the block
	compare  bool // the low bits distinguish fingerprints
}

// probePacked searches the packed fingerprints of a table in the ranges of r.blocks, each of one
// prefix. permuted is the fingerprint of the query with its bits permuted as in the table.
func (r *reader) probePacked(table int, p *store.PackedTable, permuted uint64) error {
	r.blocks = p.Locate(r.blocks)
	r.comparison.Begin(permuted, r.k)
	if r.visits == nil {
		r.visits = make([]visit, 2*visitsAhead)
	}
	n := len(r.blocks)
	for i := range n + 2*visitsAhead {
		if i < n {
			p.Prefetch(r.blocks[i].Block)
		}
		if i := i - visitsAhead; i >= 0 && i < n {
			v := &r.visits[i%len(r.visits)]
			v.Visit = r.blocks[i]
			if err := v.open(p); err != nil {
				return err
			}
			v.block.Prefetch(v.from, v.to)
		}
		if i := i - 2*visitsAhead; i >= 0 {
			v := &r.visits[i%len(r.visits)]
			if err := r.goOn(1 + r.compare(table, permuted, v)); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens the block of a visit, and finds the positions of the range.
func (v *visit) open(p *store.PackedTable) error {
	if err := p.Open(v.Block, &v.block); err != nil {
		return err
	}
	v.from, v.to, v.compare = v.block.Positions(v.First, v.Last)
	return nil
}

// compare adds the candidates of a visit within k bits to the hits. It returns the number of
// candidates.
func (r *reader) compare(table int, permuted uint64, v *visit) (candidates int) {
	if !v.compare {
		var at int
		r.fps, at = v.block.AppendRange(r.fps[:0], v.First, v.Last)
		for i, fp := range r.fps {
			r.addIfNear(table, permuted, fp, v.Block, at+i)
		}
		return len(r.fps)
	}
	// Compare the low bits first, since hardly any candidate is within k bits.
	r.places = v.block.AppendNear(r.places[:0], v.from, v.to, &r.comparison)
	for _, at := range r.places {
		// The positions may include fingerprints outside the range, which other probes find.
		if fp := v.block.At(at); fp >= v.First && fp <= v.Last {
			r.addIfNear(table, permuted, fp, v.Block, at)
		}
	}
	return v.to - v.from
}

// addIfNear adds a candidate to the hits if it is within k bits, and if no earlier table has found
// it. A permutation keeps distances, so only a hit is permuted back.
func (r *reader) addIfNear(table int, permuted, candidate uint64, block, at int) {
	distance := bits.OnesCount64(candidate ^ permuted)
	if distance > r.k {
		return
	}
	stored := r.x.plan.Tables[table].Invert(candidate)
	if r.x.plan.FoundBefore(table, stored^r.stored) {
		return
	}
	if table != 0 {
		block, at = -1, 0
	}
	r.hits = append(r.hits, hit{stored: stored, block: int32(block), at: uint16(at),
		distance: uint8(distance)})
}

// searchLive searches the live entries.
func (r *reader) searchLive() error {
	if r.v == nil {
		// If the answer depends on no live entry, it needs no view: it describes the moment at
		// which applied was read. Otherwise, if a commit was applied before the view was opened,
		// the filters are read again.
		applied := r.x.applied.Load()
		if !r.findLive() {
			return nil
		}
		if err := r.openView(); err != nil {
			return err
		}
		if r.x.applied.Load() == applied {
			return r.probeLive()
		}
	}
	r.findLive()
	return r.probeLive()
}

// findLive sets near to the live fingerprints within k bits, and adds probes for the epochs that
// are not searched in memory. It reports whether the search needs a view: for these, or for the
// live entries, removed IDs or records of the packed hits.
func (r *reader) findLive() (needed bool) {
	r.probes, r.near = r.probes[:0], r.near[:0]
	needed = len(r.hits) > 0 && r.x.firstRecord.Load() != noRecord
	for _, live := range r.s.live {
		needed = needed || len(r.hits) > 0 && !live.removed.empty.Load()
		if live.Empty() {
			continue
		}
		known := false
		if r.near, known = live.AppendNear(r.near, r.stored, r.k); !known {
			for i := range r.x.plan.Tables {
				t := &r.x.plan.Tables[i]
				r.flips = filter.AppendAll(r.flips[:0], t.Prefix, t.Radius)
				for _, flips := range r.flips {
					r.probes = append(r.probes, liveProbe{i, flips})
				}
			}
		}
		needed = needed || len(r.near)+len(r.probes) > 0 ||
			slices.ContainsFunc(r.hits, func(h hit) bool { return live.MayContain(h.stored) })
	}
	return needed
}

// probeLive adds the hits that findLive found, and runs its probes. A fingerprint that was added
// after the view was opened has no documents in the view.
func (r *reader) probeLive() error {
	r.takeNear()
	for _, probe := range r.probes {
		t := &r.x.plan.Tables[probe.table]
		permuted := t.Permute(r.stored)
		first, last := t.PrefixRange(permuted ^ probe.flips)
		if err := r.probeLiveRange(probe.table, permuted, first, last); err != nil {
			return err
		}
	}
	return nil
}

// takeNear adds the fingerprints in near to the hits.
func (r *reader) takeNear() {
	for _, near := range r.near {
		r.hits = append(r.hits, hit{stored: near, block: -1,
			distance: uint8(bits.OnesCount64(near ^ r.stored))})
	}
}

// probeLiveRange adds the live entries of a table from first to last within k bits to the hits.
func (r *reader) probeLiveRange(table int, permuted, first, last uint64) error {
	var failed error
	err := r.v.Scan(table, first, last, func(candidate uint64) bool {
		r.addIfNear(table, permuted, candidate, -1, 0)
		failed = r.goOn(1)
		return failed == nil
	})
	return cmp.Or(err, failed, r.goOn(1))
}

// documentIDs iterates over the IDs of a hit in ascending order, including removed IDs: first the
// packed IDs, then the IDs of the live entries, which are always larger.
type documentIDs struct {
	r   *reader
	hit *hit
	id  uint64 // current ID; 0 at the end

	packed func() (uint64, bool)
	live   []uint64 // read ahead
	from   uint64   // the first ID of the next read; 0: no more live IDs
}

// liveAhead is the number of live IDs that are read at a time.
const liveAhead = 64

// documentIDs returns an iterator over the IDs of a hit, at the first ID.
func (r *reader) documentIDs(h *hit) (*documentIDs, error) {
	ids := &documentIDs{r: r, hit: h}
	packed, err := r.packedIDs(h)
	if err != nil {
		return nil, err
	}
	ids.packed = packed.Iterator()
	if h.id == 0 && r.v != nil && r.s.mayBeLive(h.stored) {
		ids.from = 1
	}
	return ids, ids.next()
}

func (r *reader) packedIDs(h *hit) (store.IDs, error) {
	switch {
	case h.id != 0:
		return store.NewIDs(h.id), nil
	case h.block >= 0:
		return r.s.tables.Packed(0).PostingAt(int(h.block), int(h.at))
	case !r.s.packed.MayContain(h.stored):
		return store.IDs{}, nil
	}
	return r.s.tables.PackedIDs(h.stored)
}

// next moves to the next ID.
func (d *documentIDs) next() (err error) {
	var more bool
	if d.id, more = d.packed(); more {
		return nil
	}
	if len(d.live) == 0 && d.from > 0 {
		if d.live, err = d.r.v.AppendLive(d.live[:0], d.hit.stored, d.from, liveAhead); err != nil {
			return err
		}
		d.from = 0
		if n := len(d.live); n == liveAhead {
			d.from = d.live[n-1] + 1
		}
	}
	if len(d.live) > 0 {
		d.id, d.live = d.live[0], d.live[1:]
	}
	return nil
}
