package eval

import "runtime"

// Rule says which pairs match: those within K bits whose Shingles are within
// MaxShingleDistance bits; a negative one leaves the Shingles out.
type Rule struct {
	K                  int
	MaxShingleDistance int
}

// NoShingle as a Rule's MaxShingleDistance leaves the Shingles out.
const NoShingle = -1

func (r Rule) matches(distance, shingle int) bool {
	return distance <= r.K && (r.MaxShingleDistance < 0 || shingle <= r.MaxShingleDistance)
}

// counts are the pairs of one seed within MaxDistance, by the distance of their
// fingerprints and of their Shingles. No rule needs more to be scored.
type counts struct {
	positive, negative [MaxDistance + 1][65]int64
}

func (l *Labelled) counts(seed int) *counts {
	docs := l.Documents.All
	fps := make([]uint64, len(docs))
	for i := range docs {
		fps[i] = uint64(docs[i].Signatures[seed].Fingerprint)
	}
	workers := make([]counts, runtime.GOMAXPROCS(0))
	nearPairs(fps, func(worker, a, b int) {
		if docs[a].empty() || docs[b].empty() || l.identical(a, b) {
			return
		}
		distance, shingle := l.distances(seed, a, b)
		switch c := &workers[worker]; l.labels[ordered(a, b)].class {
		case positive:
			c.positive[distance][shingle]++
		case between:
		default:
			c.negative[distance][shingle]++
		}
	})
	all := &workers[0]
	for w := range workers[1:] {
		for d := range all.positive {
			for s := range all.positive[d] {
				all.positive[d][s] += workers[w+1].positive[d][s]
				all.negative[d][s] += workers[w+1].negative[d][s]
			}
		}
	}
	return all
}

// distances of a pair. Where a Shingle is missing, nothing is asked of it.
func (l *Labelled) distances(seed, a, b int) (distance, shingle int) {
	x, y := &l.Documents.All[a].Signatures[seed], &l.Documents.All[b].Signatures[seed]
	if x.Shingle != 0 && y.Shingle != 0 {
		shingle = x.Shingle.Distance(y.Shingle)
	}
	return x.Fingerprint.Distance(y.Fingerprint), shingle
}

func (c *counts) matching(r Rule) (positive, negative int64) {
	for d := range c.positive {
		for s := range c.positive[d] {
			if r.matches(d, s) {
				positive += c.positive[d][s]
				negative += c.negative[d][s]
			}
		}
	}
	return positive, negative
}
