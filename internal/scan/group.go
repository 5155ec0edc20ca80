package scan

import (
	"math/bits"
	"sync"
)

// group is different queries, prepared to be compared with fingerprints.
type group struct {
	k       int
	queries []uint64
	numbers []uint32 // of each query
	varying varying
	design  design
	blocks  []prepared
}

// prepared is a block of the design with what is in it.
type prepared struct {
	near
	mask   uint64  // of the block, in a fingerprint
	filter *filter // nil: all may be near
	tables []*table
}

// newGroup prepares queries.
func newGroup(queries []uint64, numbers []uint32, k int, o Options) *group {
	g := &group{k: k, queries: queries, numbers: numbers, varying: allVary}
	if len(queries) >= crowdedFrom {
		g.varying = varyingOf(queries)
	}
	g.design = choose(len(queries), k, g.varying.width, o)
	g.prepare()
	g.divideCrowds(o.Collection, o.FilterBytes)
	return g
}

// prepare makes the filters and tables, each of them on a core of its own.
func (g *group) prepare() {
	gathered := g.queries
	if !g.varying.all() {
		gathered = g.varying.gather(make([]uint64, 0, len(g.queries)), g.queries)
	}
	var wg sync.WaitGroup
	g.blocks = make([]prepared, len(g.design.blocks))
	for i, b := range g.design.blocks {
		p := &g.blocks[i]
		p.near, p.mask, p.tables = b.near, g.varying.spread(b.near.mask()), make([]*table, len(b.tables))
		if b.filter.bits > 0 {
			wg.Go(func() { p.filter = newFilter(b.near, b.filter, gathered) })
		}
		for j, t := range b.tables {
			wg.Go(func() { p.tables[j] = newTable(t, &g.varying, g.queries, gathered, g.numbers) })
		}
	}
	wg.Wait()
}

// bytes returns the memory of the filters and tables.
func (g *group) bytes() int64 {
	n := int64(0)
	for _, b := range g.blocks {
		if b.filter != nil {
			n += int64(8 * len(b.filter.words))
		}
		for _, t := range b.tables {
			n += t.bytes()
			for _, c := range t.crowded {
				n += c.bytes()
			}
		}
	}
	return n
}

// first reports whether a pair that differs in these bits is near in the block and the
// table, and not in one before. So each pair is found once.
func (g *group) first(block, table int, flips uint64) bool {
	for i := range g.blocks[:block] {
		if b := &g.blocks[i]; bits.OnesCount64(flips&b.mask) <= b.radius {
			return false
		}
	}
	b := &g.blocks[block]
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

// find calls found with every query within k bits of a fingerprint, each once, and the
// bits in which they differ.
func (g *group) find(fp uint64, found func(number uint32, flips uint64)) {
	if len(g.blocks) == 0 {
		g.compare(fp, g.queries, g.numbers, found)
		return
	}
	gathered := g.varying.of(fp)
	for i := range g.blocks {
		b := &g.blocks[i]
		if b.filter != nil && !b.filter.mayContain(gathered) {
			continue
		}
		for j, t := range b.tables {
			once := func(number uint32, flips uint64) {
				if g.first(i, j, flips) {
					found(number, flips)
				}
			}
			bucket := t.bucket.of(gathered)
			for _, flip := range t.flips {
				from, to := t.starts[bucket^flip], t.starts[bucket^flip+1]
				if c := t.crowd(from, to); c != nil {
					c.find(fp, once)
				} else {
					g.compare(fp, t.keys[from:to], t.numbers[from:to], once)
				}
			}
		}
	}
}

// crowd returns the group of what is in a bucket; nil if there is none.
func (t *table) crowd(from, to uint32) *group {
	if to-from < crowdedFrom {
		return nil
	}
	return t.crowded[from]
}

func (g *group) compare(fp uint64, queries []uint64, numbers []uint32, found func(number uint32, flips uint64)) {
	for i, q := range queries {
		if flips := q ^ fp; bits.OnesCount64(flips) <= g.k {
			found(numbers[i], flips)
		}
	}
}
