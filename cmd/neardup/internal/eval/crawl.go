package eval

// Crawl is what becomes of the documents when a crawler takes them in their order and drops
// those that match an earlier one. Documents with the tokens of an earlier one, and those that
// are between with one, count as neither.
type Crawl struct {
	// Distinct documents are no near-duplicates of an earlier one; of these, Dropped match one.
	Distinct int     `json:"distinct"`
	Dropped  float64 `json:"dropped"` // mean over the seeds
	// Duplicates are near-duplicates of an earlier document; of these, Stored match none.
	Duplicates int     `json:"duplicates"`
	Stored     float64 `json:"stored"` // mean over the seeds
}

// crawl measures a rule.
func (l *Labelled) crawl(r Rule) (c Crawl) {
	if len(l.docs) == 0 {
		return c
	}
	classes := l.asCrawled()
	for _, class := range classes {
		switch class {
		case positive:
			c.Duplicates++
		case negative:
			c.Distinct++
		}
	}
	seeds := len(l.docs[0].Signatures)
	for seed := range seeds {
		dropped := make([]bool, len(l.docs))
		l.eachNear(seed, func(_, later, _ int, apart apart) {
			if r.matches(&apart) {
				dropped[later] = true // one worker has all pairs of a later document
			}
		})
		for i, class := range classes {
			switch {
			case class == negative && dropped[i]:
				c.Dropped += 1 / float64(seeds)
			case class == positive && !dropped[i]:
				c.Stored += 1 / float64(seeds)
			}
		}
	}
	return c
}

// asCrawled says of each document whether it is positive with an earlier one, negative with
// all, or between: it counts as neither.
func (l *Labelled) asCrawled() []class {
	classes := make([]class, len(l.docs))
	seen := make(map[digest]bool)
	again := make([]bool, len(l.docs))
	for i, d := range l.docs {
		classes[i] = negative
		if again[i] = d.empty() || seen[d.tokens]; again[i] {
			classes[i] = between
		}
		seen[d.tokens] = true
	}
	for p, label := range l.labels {
		earlier, later := l.docs[p.a], &classes[p.b]
		if !again[p.b] && !earlier.empty() && label.class != negative && *later != positive {
			*later = label.class
		}
	}
	return classes
}
