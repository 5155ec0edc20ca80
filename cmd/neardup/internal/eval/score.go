package eval

import "math"

// Score is how well a rule does with one seed, or on average.
type Score struct {
	// Precision is the part of the matching pairs that is positive; 1 where none matches.
	Precision float64 `json:"precision"`
	// Recall is the part of the positive pairs that matches; 1 where there are none.
	Recall float64 `json:"recall"`
	// F1 is the harmonic mean of the two.
	F1 float64 `json:"f1"`
	// FalsePairs is the number of negative pairs that match.
	FalsePairs float64 `json:"falsePairs"`
	// FalsePairsPerBillion is that of a billion negative pairs.
	FalsePairsPerBillion float64 `json:"falsePairsPerBillion"`
}

func (l *Labelled) score(c *counts, r Rule) Score {
	found, wrong := c.matching(r)
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

// fields lets mean and deviation go through a score.
func (s *Score) fields() []*float64 {
	return []*float64{&s.Precision, &s.Recall, &s.F1, &s.FalsePairs, &s.FalsePairsPerBillion}
}

// meanOf returns the mean of the scores and their standard deviation, that of a
// sample; 0 for a single one.
func meanOf(scores []Score) (mean, deviation Score) {
	n := float64(len(scores))
	for i := range scores {
		for f, value := range scores[i].fields() {
			*mean.fields()[f] += *value / n
		}
	}
	if len(scores) < 2 {
		return mean, deviation
	}
	for i := range scores {
		for f, value := range scores[i].fields() {
			off := *value - *mean.fields()[f]
			*deviation.fields()[f] += off * off / (n - 1)
		}
	}
	for _, f := range deviation.fields() {
		*f = math.Sqrt(*f)
	}
	return mean, deviation
}
