package eval

import "runtime"

// Rule says which pairs match: those within K bits whose Shingles differ in at most
// MaxShingleDistance bits less those, and of which one is at most MaxLengthRatio times as
// long as the other one. What is negative is not looked at.
type Rule struct {
	K                  int     `json:"k"`
	MaxShingleDistance int     `json:"maxShingleDistance"`
	MaxLengthRatio     float64 `json:"maxLengthRatio"`
}

// Alone is the rule that looks at the fingerprints only.
func Alone(k int) Rule { return Rule{k, -1, -1} }

// apart is how far the documents of a pair are from each other.
type apart struct {
	distance int
	shingle  int     // -1: one of them has none
	ratio    float64 // of their lengths; 0: the same
}

// total is what MaxShingleDistance bounds.
func (a *apart) total() int {
	if a.shingle < 0 {
		return 0
	}
	return a.distance + a.shingle
}

func (r Rule) matches(a *apart) bool {
	return a.distance <= r.K && (r.MaxShingleDistance < 0 || a.total() <= r.MaxShingleDistance) && r.near(a)
}

// near reports whether the lengths let a pair match.
func (r Rule) near(a *apart) bool { return r.MaxLengthRatio < 0 || a.ratio <= r.MaxLengthRatio }

// byDistance counts pairs within MaxDistance, by the distance of their fingerprints and by
// their total. No rule with the same MaxLengthRatio needs more to be scored.
type byDistance [MaxDistance + 1][MaxDistance + 65]int64

// counts are the pairs of one seed.
type counts struct {
	positive, negative byDistance
}

// counts counts the pairs whose lengths let them match.
func (l *Labelled) counts(seed int, r Rule) *counts {
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
		apart := l.apart(seed, a, b)
		if !r.near(&apart) {
			return
		}
		distance, total := apart.distance, apart.total()
		switch c := &workers[worker]; l.labels[ordered(a, b)].class {
		case positive:
			c.positive[distance][total]++
		case between:
		default:
			c.negative[distance][total]++
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

func (l *Labelled) apart(seed, a, b int) apart {
	x, y := &l.Documents.All[a].Signatures[seed], &l.Documents.All[b].Signatures[seed]
	d := apart{distance: x.Fingerprint.Distance(y.Fingerprint), shingle: -1}
	if x.Shingle != 0 && y.Shingle != 0 { // else one is a ready fingerprint
		d.shingle = x.Shingle.Distance(y.Shingle)
		d.ratio = float64(max(x.Features, y.Features)) / float64(max(1, min(x.Features, y.Features)))
	}
	return d
}

func (c *counts) matching(r Rule) (positive, negative int64) {
	for d := range c.positive {
		for s := range c.positive[d] {
			if d <= r.K && (r.MaxShingleDistance < 0 || s <= r.MaxShingleDistance) {
				positive += c.positive[d][s]
				negative += c.negative[d][s]
			}
		}
	}
	return positive, negative
}
