package eval

import "slices"

// droppedWeight is the number of stored near-duplicates that cost as much as one dropped distinct
// document: a duplicate takes space, and a dropped document is lost.
const droppedWeight = 10

// Crawl counts the documents that a crawler stores and drops if it reads the documents in order and
// drops each one that matches a stored one. A document with the tokens of an earlier one, or
// whose pair with an earlier one is between positive and negative, is not counted. Counts of dropped
// and stored documents are means over the seeds.
type Crawl struct {
	// Distinct is the number of documents that are near-duplicates of no earlier one.
	Distinct int     `json:"distinct"`
	Dropped  float64 `json:"dropped"`
	// Duplicates is the number of documents that are near-duplicates of an earlier one.
	Duplicates int     `json:"duplicates"`
	Stored     float64 `json:"stored"`

	DroppedPerMillion float64 `json:"droppedPerMillion"` // of a million distinct documents
	StoredPerMillion  float64 `json:"storedPerMillion"`  // of a million near-duplicates
	// LossPerMillion is the number of stored near-duplicates, and ten times the number of dropped
	// distinct documents, per million counted documents.
	LossPerMillion float64 `json:"lossPerMillion"`
}

// found is an earlier document that a method compares with a later one.
type found struct {
	earlier    int32
	similarity int32 // as the method measures it
}

// crawl simulates a crawl for each seed. seeds lists for each seed and document the earlier documents
// with their similarities. Those with at least the threshold match.
func (l *Labelled) crawl(seeds [][][]found, threshold int) (c Crawl) {
	classes := l.asCrawled()
	for _, class := range classes {
		switch class {
		case positive:
			c.Duplicates++
		case negative:
			c.Distinct++
		}
	}
	dropped, kept := 0, 0
	for _, documents := range seeds {
		stored := make([]bool, len(l.docs))
		for i, earlier := range documents {
			stored[i] = !slices.ContainsFunc(earlier, func(f found) bool {
				return stored[f.earlier] && int(f.similarity) >= threshold
			})
			switch {
			case classes[i] == positive && stored[i]:
				kept++
			case classes[i] == negative && !stored[i]:
				dropped++
			}
		}
	}
	c.Dropped, c.Stored = float64(dropped)/float64(len(seeds)), float64(kept)/float64(len(seeds))
	c.DroppedPerMillion = 1e6 * c.Dropped / float64(max(1, c.Distinct))
	c.StoredPerMillion = 1e6 * c.Stored / float64(max(1, c.Duplicates))
	c.LossPerMillion = 1e6 * (droppedWeight*c.Dropped + c.Stored) / float64(max(1, c.Distinct+c.Duplicates))
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
