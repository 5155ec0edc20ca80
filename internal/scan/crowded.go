package scan

import (
	"cmp"
	"slices"
)

// crowdedFrom is the number of queries in a bucket from which on they may be a group of
// their own, told apart by bits that are not those of the bucket. Fewer are compared
// with one by one in about the time that finding them takes.
const crowdedFrom = 1024

// bucketRange is a bucket of a table with what is in it.
type bucketRange struct {
	table    *table
	from, to uint32
}

// divideCrowds makes groups of crowded buckets, the largest first, as long as there is
// room for them, and returns what room is left. What finds no room is compared with one
// by one.
func (g *group) divideCrowds(collection, room int64) int64 {
	var crowds []bucketRange
	for _, b := range g.blocks {
		for _, t := range b.tables {
			for i, to := range t.starts[1:] {
				if from := t.starts[i]; to-from >= crowdedFrom {
					crowds = append(crowds, bucketRange{t, from, to})
				}
			}
		}
	}
	slices.SortStableFunc(crowds, func(a, b bucketRange) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	for _, c := range crowds {
		queries, numbers := c.table.keys[c.from:c.to], c.table.numbers[c.from:c.to]
		v := varyingOf(queries)
		d := choose(len(queries), g.k, v.width, Options{Collection: collection, FilterBytes: min(room/2, crowdBytes*int64(len(queries)))})
		if d.each > float64(len(queries))*compareCost/2 || d.bytes(len(queries)) > room {
			continue
		}
		crowd := &group{k: g.k, queries: queries, numbers: numbers, varying: v, design: d}
		crowd.prepare()
		room = crowd.divideCrowds(collection, room-crowd.bytes())
		if c.table.crowded == nil {
			c.table.crowded = make(map[uint32]*group)
		}
		c.table.crowded[c.from] = crowd
	}
	return room
}

// crowdBytes bounds the filters of a crowd, for each query in it.
const crowdBytes = 64

// bytes returns the memory that filters and tables of so many queries take, or some more.
func (d design) bytes(queries int) int64 {
	n := int64(0)
	for _, b := range d.blocks {
		if b.filter.bits > 0 {
			n += b.filter.bytes()
		}
		n += int64(len(b.tables)) * (12 + 8) * int64(queries)
	}
	return n
}
