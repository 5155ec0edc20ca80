package scan

import "math/bits"

// Scan calls found with every pair of a fingerprint of the block and a query that are
// within k bits, each once, in no particular order.
func (q *Queries) Scan(fps []uint64, found func(Match)) {
	if q.len == 0 {
		return
	}
	s := scanner{Queries: q, found: found}
	for from := 0; from < len(fps); from += step {
		s.from, s.fps = from, fps[from:min(from+step, len(fps))]
		for i := range q.blocks {
			s.scan(i)
		}
	}
}

// scanner is a scan of one block of a collection. What takes a look into memory is done
// for many fingerprints in turn, so that waiting for one overlaps with waiting for others.
type scanner struct {
	*Queries
	found  func(Match)
	from   int // of fps, in the block of the collection
	fps    []uint64
	at     [step]uint16
	ranges [maxRanges]queryRange
	sum    uint64 // of what was read only to have it in the cache
}

// queryRange is the queries in a bucket of a table, for a fingerprint.
type queryRange struct {
	at       uint32
	from, to uint32
}

const maxRanges = 256

// scan looks at the fingerprints that may be near to a query in a block of the design.
func (s *scanner) scan(block int) {
	b := &s.blocks[block]
	passing := s.at[:0]
	if b.filter != nil {
		passing = s.at[:b.filter.passing(s.fps, &s.at)]
	} else {
		for i := range s.fps {
			passing = append(passing, uint16(i))
		}
	}
	for i, t := range b.tables {
		n := 0
		for _, at := range passing {
			bucket := t.bucket(s.fps[at])
			for _, flip := range t.flips {
				from, to := t.starts[bucket^flip], t.starts[bucket^flip+1]
				s.ranges[n] = queryRange{uint32(at), from, to}
				if from < to {
					n++
				}
				if n == len(s.ranges) {
					s.compare(block, i, s.ranges[:n])
					n = 0
				}
			}
		}
		s.compare(block, i, s.ranges[:n])
	}
}

// compare compares fingerprints with the queries of a bucket each.
func (s *scanner) compare(block, table int, ranges []queryRange) {
	t := s.blocks[block].tables[table]
	sum := uint64(0)
	for _, r := range ranges {
		sum += t.keys[r.from] + t.keys[(r.from+r.to)/2]
	}
	s.sum += sum
	for _, r := range ranges {
		fp := s.fps[r.at]
		for j, key := range t.keys[r.from:r.to] {
			distance := bits.OnesCount64(key ^ fp)
			if distance > s.k || !s.first(block, table, key^fp) {
				continue
			}
			distinct := t.query[int(r.from)+j]
			for _, query := range s.members[s.starts[distinct]:s.starts[distinct+1]] {
				s.found(Match{s.from + int(r.at), int(query), distance})
			}
		}
	}
}

// first reports whether a pair that differs in these bits is near in the block and the
// table, and not in one before. So each pair is found once.
func (q *Queries) first(block, table int, flips uint64) bool {
	for i := range q.blocks[:block] {
		if b := &q.blocks[i]; bits.OnesCount64(flips&b.mask) <= b.radius {
			return false
		}
	}
	b := &q.blocks[block]
	if bits.OnesCount64(flips&b.mask) > b.radius {
		return false
	}
	for _, t := range b.tables[:table] {
		if bits.OnesCount64(flips&t.mask) <= t.radius {
			return false
		}
	}
	return bits.OnesCount64(flips&b.tables[table].mask) <= b.tables[table].radius
}
