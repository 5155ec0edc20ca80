package scan

// numbered is a query and its place among the queries as given.
type numbered struct {
	fp    uint64
	place uint32
}

// noQuery ends a chain of equal queries.
const noQuery = ^uint32(0)

// distinct returns the different ones of the queries, in order, with the place of the
// first of each, and for each place that of the next equal one; next is nil if all are
// different.
func distinct[F ~uint64](queries []F) (fps []uint64, places, next []uint32) {
	all := make([]numbered, len(queries))
	for i, fp := range queries {
		all[i] = numbered{uint64(fp), uint32(i)}
	}
	all = sortNumbered(all)
	fps, places = make([]uint64, 0, len(all)), make([]uint32, 0, len(all))
	for i, n := range all {
		if i == 0 || n.fp != all[i-1].fp {
			fps, places = append(fps, n.fp), append(places, n.place)
			continue
		}
		if next == nil {
			next = make([]uint32, len(queries))
			for j := range next {
				next[j] = noQuery
			}
		}
		next[all[i-1].place] = n.place
	}
	return fps, places, next
}

// sortNumbered sorts by fingerprint, and leaves equal ones in their order. It goes by
// one digit after the other, from the lowest on, without those that are all equal.
func sortNumbered(all []numbered) []numbered {
	const digit = 11
	room := make([]numbered, len(all))
	differ := uint64(0)
	for _, n := range all {
		differ |= n.fp ^ all[0].fp
	}
	for shift := 0; shift < 64; shift += digit {
		if differ>>shift&(1<<digit-1) == 0 {
			continue
		}
		var starts [1<<digit + 1]uint32
		for _, n := range all {
			starts[n.fp>>shift&(1<<digit-1)+1]++
		}
		for i := range starts[1:] {
			starts[i+1] += starts[i]
		}
		for _, n := range all {
			at := &starts[n.fp>>shift&(1<<digit-1)]
			room[*at] = n
			*at++
		}
		all, room = room, all
	}
	return all
}
