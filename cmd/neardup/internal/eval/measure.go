package eval

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
)

// MaxDistance is the largest measured k.
const MaxDistance = 16

// counts has the results of a rule with one seed.
type counts struct {
	// near counts the near pairs, by whether the rule confirms them and by the distance of their
	// fingerprints.
	near [2][MaxDistance + 1]struct{ positive, negative atomic.Int64 }
}

const unconfirmed, confirmed = 0, 1 // first index of counts.near

func (l *Labelled) counts(seed int, rule match.Rule) *counts {
	c := new(counts)
	fps := make([]fingerprint.Fingerprint, len(l.docs))
	for i, d := range l.docs {
		fps[i] = d.Signatures[seed].Fingerprint
	}
	near := func(a, b fingerprint.Fingerprint) bool { return a.Distance(b) <= MaxDistance }
	eachPair(l, fps, near, func(later, earlier int) {
		a, b := l.docs[later].Signatures[seed], l.docs[earlier].Signatures[seed]
		distance, by := a.Fingerprint.Distance(b.Fingerprint), unconfirmed
		// documents that were read as fingerprints have no shingle signature to compare
		if a.Shingles.IsZero() || b.Shingles.IsZero() || rule.Allows(distance, a, b) {
			by = confirmed
		}
		switch n := &c.near[by][distance]; l.labels[ordered(later, earlier)].class {
		case positive:
			n.positive.Add(1)
		case negative, unlisted:
			n.negative.Add(1)
		}
	})
	return c
}

// matching counts the pairs within k bits that the rule confirms, or all of them if alone is true.
func (c *counts) matching(k int, alone bool) (positive, negative int64) {
	for by := range c.near {
		if by == unconfirmed && !alone {
			continue
		}
		for d := range min(k, MaxDistance) + 1 {
			positive += c.near[by][d].positive.Load()
			negative += c.near[by][d].negative.Load()
		}
	}
	return positive, negative
}

// Score is the quality of a rule with one seed, or its mean.
type Score struct {
	// Precision is the share of positive pairs among the matching pairs, or 1 if no pair matches.
	Precision float64
	// Recall is the share of matching pairs among the positive pairs, or 1 if there are no
	// positive pairs.
	Recall float64
	// F1 is the harmonic mean of Precision and Recall.
	F1 float64
	// FalsePairs is the number of negative pairs that match.
	FalsePairs float64
	// FalsePairsPerBillion is FalsePairs per billion negative pairs.
	FalsePairsPerBillion float64
}

// score returns the score of a method that finds the given numbers of positive and negative
// pairs.
func (l *Labelled) score(found, wrong int64) Score {
	s := Score{Precision: 1, Recall: 1, FalsePairs: float64(wrong)}
	if found+wrong > 0 {
		s.Precision = float64(found) / float64(found+wrong)
	}
	if l.Positive > 0 {
		s.Recall = float64(found) / float64(l.Positive)
	}
	if s.Precision+s.Recall > 0 {
		s.F1 = 2 * s.Precision * s.Recall / (s.Precision + s.Recall)
	}
	if l.Negative > 0 {
		s.FalsePairsPerBillion = float64(wrong) / float64(l.Negative) * 1e9
	}
	return s
}

// fields returns the fields of a score, for mean and deviation.
func (s *Score) fields() []*float64 {
	return []*float64{&s.Precision, &s.Recall, &s.F1, &s.FalsePairs, &s.FalsePairsPerBillion}
}

// meanOf returns the mean of the scores and their sample standard deviation, which is 0 for a
// single score.
func meanOf(scores []Score) (mean, deviation Score) {
	n := float64(len(scores))
	for f, m := range mean.fields() {
		for i := range scores {
			*m += *scores[i].fields()[f] / n
		}
		squares := 0.0
		for i := range scores {
			squares += math.Pow(*scores[i].fields()[f]-*m, 2)
		}
		if n > 1 {
			*deviation.fields()[f] = math.Sqrt(squares / (n - 1))
		}
	}
	return mean, deviation
}

// Report is the result of a measurement.
type Report struct {
	Numbers
	Seeds    int
	Analyzer string
	Curves   []Curve
	Default  Point
	Crawl    Crawl    // by the rule Default
	Methods  []Method // set by Compare
}

// Curve has a score per k.
type Curve struct {
	Name   string
	Points []Point
	BestK  int // the k with the best F1
}

// Point is the mean score of a rule over all seeds.
type Point struct {
	Rule match.Rule
	Score
	Deviation Score
}

// Measure scores the rule, and every k from 0 to MaxDistance with and without the other
// conditions of the rule. It also crawls the documents with an index. A document whose ID is a
// URL belongs to the site of its host: see index.Options.SiteTexts.
func (l *Labelled) Measure(
	ctx context.Context, rule match.Rule, siteTexts int,
) (*Report, error) {
	r := &Report{Numbers: l.Numbers}
	if len(l.docs) > 0 {
		r.Seeds = len(l.docs[0].Signatures)
	}
	m := &measure{Labelled: l}
	for seed := range r.Seeds {
		m.seeds = append(m.seeds, l.counts(seed, rule))
	}
	alone := match.Rule{MaxShingleDistance: -1, MaxLengthRatio: -1}
	r.Curves = append(r.Curves, m.curve("fingerprints alone", alone))
	if confirming(rule) {
		r.Curves = append(r.Curves, m.curve("the rule", rule))
	}
	r.Default = m.point(rule)
	stored := make([][]bool, r.Seeds)
	for seed := range stored {
		var err error
		if stored[seed], err = l.crawlIndex(ctx, seed, rule, siteTexts); err != nil {
			return nil, err
		}
	}
	r.Crawl = l.crawl(stored)
	return r, nil
}

// confirming reports whether the rule has other conditions than k.
func confirming(r match.Rule) bool { return r.MaxShingleDistance >= 0 || r.MaxLengthRatio >= 0 }

type measure struct {
	*Labelled
	seeds []*counts
}

func (m *measure) point(r match.Rule) Point {
	scores := make([]Score, len(m.seeds))
	for i, c := range m.seeds {
		scores[i] = m.score(c.matching(r.MaxDistance, !confirming(r)))
	}
	p := Point{Rule: r}
	p.Score, p.Deviation = meanOf(scores)
	return p
}

// curve scores a rule for each k.
func (m *measure) curve(name string, r match.Rule) Curve {
	c := Curve{Name: name}
	for r.MaxDistance = range MaxDistance + 1 {
		c.Points = append(c.Points, m.point(r))
		if c.Points[r.MaxDistance].F1 > c.Points[c.BestK].F1 {
			c.BestK = r.MaxDistance
		}
	}
	return c
}
