package eval

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

func (m *measure) parts() (p Parts) {
	p.Short.Negative = m.different(func(i int) bool { return m.short(i) && !m.docs[i].empty() })
	for pair, label := range m.labels {
		a, b := int(pair.a), int(pair.b)
		if !m.compared(a, b) {
			continue
		}
		short := m.short(a) && m.short(b)
		switch {
		case label.class == negative:
			p.Alike.Negative++
		case short && label.class == positive:
			p.Short.Positive++
			p.Short.Negative--
		case short:
			p.Short.Negative--
		}
	}
	for _, c := range m.seeds {
		p.Short.Found += float64(c.shortFound.Load()) / float64(len(m.seeds))
		p.Short.Wrong += float64(c.shortWrong.Load()) / float64(len(m.seeds))
		p.Alike.Wrong += float64(c.alikeWrong.Load()) / float64(len(m.seeds))
	}
	return p
}

// short reports whether a text is; how long a ready fingerprint's was nobody knows.
func (l *Labelled) short(i int) bool {
	s := &l.docs[i].Signatures[0]
	return s.Shingle != 0 && s.Tokens <= ShortTokens
}

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

func (m *measure) crawl() (c Crawl) {
	for i, class := range m.asCrawled() {
		dropped := 0
		for _, counts := range m.seeds {
			if counts.dropped[i] {
				dropped++
			}
		}
		switch seeds := len(m.seeds); class {
		case positive:
			c.Duplicates++
			c.Stored += float64(seeds-dropped) / float64(seeds)
		case negative:
			c.Distinct++
			c.Dropped += float64(dropped) / float64(seeds)
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
