package scan

import "math/bits"

// Scan calls found with every pair of a fingerprint of the block and a query that are
// within k bits, each once, in no particular order.
func (q *Queries) Scan(fps []uint64, found func(Match)) {
	s := scanner{Queries: q, found: found}
	for s.from = 0; s.from < len(fps); s.from += step {
		s.fps = fps[s.from:min(s.from+step, len(fps))]
		s.step()
	}
}

// scanner is a scan of one block of a collection. What takes a look into memory is done
// for many fingerprints in turn, so that waiting for one overlaps with waiting for others.
type scanner struct {
	*Queries
	found  func(Match)
	from   int      // of fps, in the block of the collection
	fps    []uint64 // of this step
	words  [step]uint64
	at     [step]uint16
	ranges [maxRanges]queryRange
	sum    uint64 // of what was read only to have it in the cache
}

// queryRange is the queries in a bucket of a table, for a fingerprint.
type queryRange struct {
	at       uint32
	from, to uint32
}

// maxRanges are looked at together.
const maxRanges = 256

// step compares some fingerprints with all queries.
func (s *scanner) step() {
	if len(s.blocks) == 0 {
		for at, fp := range s.fps {
			for i, query := range s.Queries.fps {
				if distance := bits.OnesCount64(query ^ fp); distance <= s.k {
					s.report(at, s.numbers[i], distance)
				}
			}
		}
	}
	for i := range s.blocks {
		s.scan(i)
	}
}

// scan looks at the fingerprints that may be near to a query in a block of the plan.
func (s *scanner) scan(block int) {
	b := &s.blocks[block]
	passing := s.at[:0]
	if b.filter != nil {
		passing = s.at[:b.filter.passing(s.fps, &s.words, &s.at)]
	} else {
		for i := range s.fps {
			passing = append(passing, uint16(i))
		}
	}
	for i, t := range b.tables {
		n := 0
		for _, at := range passing {
			bucket := t.bucket.of(s.fps[at])
			for _, flip := range t.flips {
				from, to := t.starts[bucket^flip], t.starts[bucket^flip+1]
				s.ranges[n] = queryRange{uint32(at), from, to}
				if from < to {
					n++
				}
				if n == len(s.ranges) {
					s.look(block, i, s.ranges[:n])
					n = 0
				}
			}
		}
		s.look(block, i, s.ranges[:n])
	}
}

// look compares fingerprints with the queries of a bucket each.
func (s *scanner) look(block, table int, ranges []queryRange) {
	t := s.blocks[block].tables[table]
	sum := uint64(0)
	for _, r := range ranges {
		sum += t.keys[r.from] + t.keys[r.to-1]
	}
	s.sum += sum
	for _, r := range ranges {
		fp := s.fps[r.at]
		for i, key := range t.keys[r.from:r.to] {
			if distance := bits.OnesCount64(key ^ fp); distance <= s.k && s.first(block, table, key^fp) {
				s.report(int(r.at), t.numbers[r.from+uint32(i)], distance)
			}
		}
	}
}

// report reports a query and those that are equal to it.
func (s *scanner) report(at int, query uint32, distance int) {
	for {
		s.found(Match{s.from + at, int(query), distance})
		if s.next == nil || s.next[query] == noQuery {
			return
		}
		query = s.next[query]
	}
}
