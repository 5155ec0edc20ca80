package eval

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
)

// droppedWeight is the number of stored near-duplicates that cost as much as one dropped distinct
// document. A stored duplicate only takes space, but a dropped document is lost.
const droppedWeight = 10

// Crawl counts the documents that a crawler stores and drops if it reads the documents in order and
// drops each one that matches a stored one. A document with the tokens of an earlier one, or whose
// pair with an earlier one is between positive and negative, is not counted. Counts of dropped and
// stored documents are means over the seeds.
type Crawl struct {
	// Distinct is the number of documents that are near-duplicates of no earlier one.
	Distinct int
	Dropped  float64
	// Duplicates is the number of documents that are near-duplicates of an earlier one.
	Duplicates int
	Stored     float64

	DroppedPerMillion float64 // per million distinct documents
	StoredPerMillion  float64 // per million near-duplicates
	// LossPerMillion is the number of stored near-duplicates, and ten times the number of dropped
	// distinct documents, per million counted documents.
	LossPerMillion float64
}

// found is an earlier document that a method compares with a later one.
type found struct {
	earlier    int32
	similarity int32 // in the unit of the method
}

// crawlIndex crawls the documents of a seed with an index, and returns which of them it stored.
func (l *Labelled) crawlIndex(
	ctx context.Context, seed int, rule match.Rule, siteTexts int,
) (stored []bool, err error) {
	x, err := index.Open("crawl", &index.Options{
		FS: vfs.NewMem(), Durability: index.NoSync,
		MaxDistance:       cmp.Or(rule.MaxDistance, index.Exact),
		ExpectedDocuments: int64(len(l.docs)), MaxShingleDistance: rule.MaxShingleDistance,
		ShortAllowance: orNone(rule.ShortAllowance), MaxLengthRatio: rule.MaxLengthRatio,
		SiteTexts: siteTexts,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	var docs []index.Document
	var places []int // indexes into l.docs
	for i, d := range l.docs {
		if d.empty() {
			continue
		}
		s := d.Signatures[seed]
		docs = append(docs, index.Document{Key: d.ID, Fingerprint: s.Fingerprint,
			Shingles: s.Shingles, Digest: s.Digest, Tokens: s.Tokens})
		places = append(places, i)
	}
	verdicts, err := x.CheckAndAddBatch(ctx, docs)
	if err != nil {
		return nil, err
	}
	stored = make([]bool, len(l.docs))
	for i, v := range verdicts {
		stored[places[i]] = v.Status == index.New
	}
	return stored, nil
}

// orNone converts a limit to an index option, in which 0 would select the default.
func orNone(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}

// crawlFound returns which documents a crawler stores if it drops each one that matches a stored
// one. Two documents match if their similarity is at least the threshold. documents lists the
// earlier documents for each document.
func crawlFound(documents [][]found, threshold int) (stored []bool) {
	stored = make([]bool, len(documents))
	for i, earlier := range documents {
		stored[i] = !slices.ContainsFunc(earlier, func(f found) bool {
			return stored[f.earlier] && int(f.similarity) >= threshold
		})
	}
	return stored
}

// crawl counts the stored and dropped documents of all seeds.
func (l *Labelled) crawl(seeds [][]bool) (c Crawl) {
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
	for _, stored := range seeds {
		for i := range stored {
			switch {
			case classes[i] == positive && stored[i]:
				kept++
			case classes[i] == negative && !stored[i]:
				dropped++
			}
		}
	}
	n := float64(max(1, len(seeds)))
	c.Dropped, c.Stored = float64(dropped)/n, float64(kept)/n
	c.DroppedPerMillion = 1e6 * c.Dropped / float64(max(1, c.Distinct))
	c.StoredPerMillion = 1e6 * c.Stored / float64(max(1, c.Duplicates))
	c.LossPerMillion = 1e6 * (droppedWeight*c.Dropped +
		c.Stored) / float64(max(1, c.Distinct+c.Duplicates))
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
