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
// their total.
type byDistance [MaxDistance + 1][MaxDistance + 65]struct{ positive, negative int64 }

// counts are the pairs of one seed: those whose lengths let them match by some rule, and
// the others. Rules of that rule's MaxLengthRatio, or of none, need no more to be scored.
type counts struct{ near, far byDistance }

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
		apart, in := l.apart(seed, a, b), &workers[worker].far
		if r.near(&apart) {
			in = &workers[worker].near
		}
		switch n := &in[apart.distance][apart.total()]; l.labels[ordered(a, b)].class {
		case positive:
			n.positive++
		case between:
		default:
			n.negative++
		}
	})
	all := &workers[0]
	for w := range workers[1:] {
		all.near.add(&workers[w+1].near)
		all.far.add(&workers[w+1].far)
	}
	return all
}

func (n *byDistance) add(more *byDistance) {
	for d := range n {
		for t := range n[d] {
			n[d][t].positive += more[d][t].positive
			n[d][t].negative += more[d][t].negative
		}
	}
}

func (l *Labelled) apart(seed, a, b int) apart {
	x, y := &l.Documents.All[a].Signatures[seed], &l.Documents.All[b].Signatures[seed]
	d := apart{distance: x.Fingerprint.Distance(y.Fingerprint), shingle: -1}
	if x.Shingle != 0 && y.Shingle != 0 { // else one is a ready fingerprint
		d.shingle = x.Shingle.Distance(y.Shingle)
		d.ratio = float64(max(x.Tokens, y.Tokens)) / float64(max(1, min(x.Tokens, y.Tokens)))
	}
	return d
}

func (c *counts) matching(r Rule) (positive, negative int64) {
	sum := func(n *byDistance) {
		for d := range n[:min(r.K, MaxDistance)+1] {
			for t := range n[d] {
				if r.MaxShingleDistance < 0 || t <= r.MaxShingleDistance {
					positive += n[d][t].positive
					negative += n[d][t].negative
				}
			}
		}
	}
	sum(&c.near)
	if r.MaxLengthRatio < 0 {
		sum(&c.far)
	}
	return positive, negative
}
