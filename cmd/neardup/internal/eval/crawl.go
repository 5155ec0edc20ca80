package eval

// Crawl counts the documents that a crawler stores and drops if it reads the documents in order and
// drops each one that matches an earlier one. A document with the tokens of an earlier one, or
// whose pair with an earlier one is between positive and negative, is not counted.
type Crawl struct {
	// Distinct is the number of documents that are near-duplicates of no earlier one. Dropped is the
	// number of these that match an earlier one, a mean over the seeds.
	Distinct int     `json:"distinct"`
	Dropped  float64 `json:"dropped"`
	// Duplicates is the number of documents that are near-duplicates of an earlier one. Stored is the
	// number of these that match no earlier one, a mean over the seeds.
	Duplicates int     `json:"duplicates"`
	Stored     float64 `json:"stored"`
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

// asCrawled returns the class of each document: positive if it is a near-duplicate of an earlier
// one, negative if it differs from all of them, and between if it is not counted.
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
