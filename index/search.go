package index

import (
	"cmp"
	"context"
	"math/bits"
	"slices"

	"github.com/neardup/neardup/internal/store"
)

// hit is a stored fingerprint within the distance of a query.
type hit struct {
	stored   uint64
	distance int

	// Where it was found in packed table 0, to read its posting from; block is -1 if it
	// was found elsewhere.
	block, at int

	posting *store.IDs // if it was read along with it
}

// checkEvery is the number of probes and candidates between two looks at the context.
const checkEvery = 1 << 16

// search is one query on its way through the tables.
type search struct {
	*reader
	ctx    context.Context
	stored uint64
	k      int
	hits   []hit
	steps  int
}

// search probes the tables and returns every stored fingerprint within k bits of
// the given one, once each, nearest first. k must not exceed the plan's. The hits are
// good until the next search.
func (r *reader) search(ctx context.Context, stored uint64, k int) ([]hit, error) {
	r.current = search{reader: r, ctx: ctx, stored: stored, k: k, hits: r.current.hits[:0]}
	s := &r.current
	if err := s.packed(); err != nil {
		return nil, err
	}
	if err := s.liveHits(); err != nil {
		return nil, err
	}
	if len(s.hits) > 1 {
		// A packed fingerprint with new documents has an entry in both parts of table 0.
		slices.SortFunc(s.hits, func(a, b hit) int {
			return cmp.Or(a.distance-b.distance, cmp.Compare(a.stored, b.stored))
		})
		s.hits = slices.CompactFunc(s.hits, func(a, b hit) bool { return a.stored == b.stored })
	}
	return s.hits, nil
}

// goOn looks at the context now and then.
func (s *search) goOn(steps int) error {
	before := s.steps
	if s.steps += steps; s.steps/checkEvery != before/checkEvery {
		return s.ctx.Err()
	}
	return nil
}

// packed probes what the last compaction left.
func (s *search) packed() error {
	for i := range s.x.plan.Tables {
		p := s.x.store.Packed(i)
		if p == nil {
			return nil
		}
		t := &s.x.plan.Tables[i]
		query := t.Permute(s.stored)
		s.flips = s.x.packed.AppendCandidates(s.flips[:0], i, query)
		for _, flips := range s.flips {
			first, last := t.PrefixRange(query ^ flips)
			if err := s.probePacked(i, p, query, first, last); err != nil {
				return err
			}
		}
	}
	return nil
}

// probePacked looks at the packed fingerprints from first to last, which have the
// prefix of the query with some bits flipped.
func (s *search) probePacked(table int, p *store.PackedTable, query, first, last uint64) error {
	for b := p.Find(first); b < p.Blocks(); b++ {
		block, err := p.Block(b)
		if err != nil {
			return err
		}
		n := 0
		if lows, from, to, ok := block.LowBits(first, last); ok {
			q, k := query&lows.Mask(), s.k
			for at := from; at < to; at++ {
				// Low bits first: hardly any candidate is a match.
				if bits.OnesCount64(lows.At(at)^q) > k {
					continue
				}
				// The positions may go a little beyond the range; a match out there
				// is another probe's.
				if fp := block.At(at); fp >= first && fp <= last {
					s.candidate(table, query, fp, b, at)
				}
			}
			n = to - from
		} else {
			var at int
			s.fps, at = block.AppendRange(s.fps[:0], first, last)
			for i, fp := range s.fps {
				s.candidate(table, query, fp, b, at+i)
			}
			n = len(s.fps)
		}
		if err := s.goOn(1 + n); err != nil {
			return err
		}
		if p.Last(b) >= last {
			break
		}
	}
	return nil
}

// candidate takes a candidate that is a match, from the first table that has it. A
// permutation keeps distances, so only a match is turned back.
func (s *search) candidate(table int, query, candidate uint64, block, at int) {
	distance := bits.OnesCount64(candidate ^ query)
	if distance > s.k {
		return
	}
	stored := s.x.plan.Tables[table].Invert(candidate)
	if s.x.plan.FoundBefore(table, stored^s.stored) {
		return
	}
	if table != 0 {
		block = -1
	}
	s.hits = append(s.hits, hit{stored, distance, block, at, nil})
}

// liveHits probes what was written since the last compaction.
func (s *search) liveHits() error {
	if s.v == nil {
		// Without a view, the answer is of the moment of applied if nothing live can
		// bear on it. Else what was applied between this look at the filters and the
		// view must be asked for as well.
		applied := s.x.applied.Load()
		if !s.bearsLive() {
			return nil
		}
		if err := s.take(); err != nil {
			return err
		}
		if s.x.applied.Load() == applied {
			return s.probeLive()
		}
	}
	s.bearsLive()
	return s.probeLive()
}

// bearsLive notes the live fingerprints within the distance, or else the prefixes that
// live entries may have, and reports whether the answer needs a view: for them, for the
// live postings of packed fingerprints, or for records.
func (s *search) bearsLive() bool {
	s.probes, s.near = s.probes[:0], s.near[:0]
	records := len(s.hits) > 0 && s.x.firstRecord.Load() != noRecord
	if s.x.live.Empty() {
		return records
	}
	known := false
	if s.near, known = s.x.live.AppendNear(s.near, s.stored, s.k); !known {
		s.noteProbes()
	}
	if records || len(s.near)+len(s.probes) > 0 {
		return true
	}
	for i := range s.hits {
		if s.x.live.MayContain(s.hits[i].stored) {
			return true
		}
	}
	return false
}

func (s *search) noteProbes() {
	for i := range s.x.plan.Tables {
		t := &s.x.plan.Tables[i]
		s.flips = s.x.live.AppendCandidates(s.flips[:0], i, t.Permute(s.stored))
		for _, flips := range s.flips {
			s.probes = append(s.probes, liveProbe{i, flips})
		}
	}
}

// probeLive takes what bearsLive noted. What the view does not have yet, or no more,
// has no documents in it.
func (s *search) probeLive() error {
	for _, near := range s.near {
		s.hits = append(s.hits, hit{near, bits.OnesCount64(near ^ s.stored), -1, 0, nil})
	}
	for _, probe := range s.probes {
		t := &s.x.plan.Tables[probe.table]
		query := t.Permute(s.stored)
		first, last := t.PrefixRange(query ^ probe.flips)
		if err := s.probeLiveRange(probe.table, query, first, last); err != nil {
			return err
		}
	}
	return nil
}

// probeLiveRange looks at the live entries from first to last.
func (s *search) probeLiveRange(table int, query, first, last uint64) error {
	var failed error
	err := s.v.Scan(table, first, last, func(candidate uint64) bool {
		n := len(s.hits)
		s.candidate(table, query, candidate, -1, 0)
		if table == 0 && len(s.hits) > n {
			failed = s.readPosting(&s.hits[n])
		}
		failed = cmp.Or(failed, s.goOn(1))
		return failed == nil
	})
	return cmp.Or(err, failed, s.goOn(1))
}

// readPosting takes the posting of a hit from where the scan of table 0 is.
func (s *search) readPosting(h *hit) error {
	ids, err := s.v.ScannedPosting(h.stored)
	h.posting = &ids
	return err
}

// posting returns the documents of a hit.
func (r *reader) posting(h *hit) (store.IDs, error) {
	if h.posting != nil {
		return *h.posting, nil
	}
	if r.v != nil && r.x.live.MayContain(h.stored) {
		return r.v.Posting(h.stored)
	}
	if h.block >= 0 {
		return r.x.store.Packed(0).PostingAt(h.block, h.at)
	}
	return r.x.store.PackedPosting(h.stored)
}
