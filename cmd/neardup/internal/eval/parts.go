package eval

import "sync/atomic"

// ShortTokens is how long the longer text of a pair of short texts may be.
const ShortTokens = 60

// Part is what a rule makes of some of the pairs. Found and Wrong are means over the seeds.
type Part struct {
	Positive int     `json:"positive"` // pairs of near-duplicates
	Found    float64 `json:"found"`    // of these
	Negative int64   `json:"negative"` // pairs of different documents
	Wrong    float64 `json:"wrong"`    // of these
}

// Parts are the pairs that are hardest to tell.
type Parts struct {
	// Short are those of short texts.
	Short Part `json:"short"`
	// Alike are listed and negative: different, and most of their words are the same, as in pages of one template.
	Alike Part `json:"alike"`
}

func (l *Labelled) parts(r Rule) (p Parts) {
	if len(l.docs) == 0 {
		return p
	}
	l.countParts(&p)
	var found, shortWrong, alikeWrong atomic.Int64
	seeds := len(l.docs[0].Signatures)
	for seed := range seeds {
		l.eachNear(seed, func(_, a, b int, apart apart) {
			if !r.matches(&apart) {
				return
			}
			class := l.labels[ordered(a, b)].class // none where it is not listed
			switch short := l.short(a) && l.short(b); {
			case short && class == positive:
				found.Add(1)
			case short && class != between:
				shortWrong.Add(1)
			}
			if class == negative {
				alikeWrong.Add(1)
			}
		})
	}
	p.Short.Found = float64(found.Load()) / float64(seeds)
	p.Short.Wrong = float64(shortWrong.Load()) / float64(seeds)
	p.Alike.Wrong = float64(alikeWrong.Load()) / float64(seeds)
	return p
}

// countParts counts the pairs of each part.
func (l *Labelled) countParts(p *Parts) {
	all, copies := int64(0), make(map[digest]int64)
	for i, d := range l.docs {
		if l.short(i) && !d.empty() {
			p.Short.Negative += all - copies[d.tokens]
			all++
			copies[d.tokens]++
		}
	}
	for pair, label := range l.labels {
		if !l.compared(int(pair.a), int(pair.b)) {
			continue
		}
		if label.class == negative {
			p.Alike.Negative++
		}
		if !l.short(int(pair.a)) || !l.short(int(pair.b)) {
			continue
		}
		switch label.class {
		case positive:
			p.Short.Positive++
			p.Short.Negative--
		case between:
			p.Short.Negative--
		}
	}
}

// short reports whether a text is; how long a ready fingerprint's was nobody knows.
func (l *Labelled) short(i int) bool {
	s := &l.docs[i].Signatures[0]
	return s.Shingle != 0 && s.Tokens <= ShortTokens
}
