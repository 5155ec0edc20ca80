package eval

import "fmt"

// Report is what was measured. Its JSON form is that of "neardup eval -json".
type Report struct {
	Documents int     `json:"documents"`
	Positive  int     `json:"positive"` // pairs
	Negative  int64   `json:"negative"`
	Between   int     `json:"between"`   // pairs that count as neither
	Identical int64   `json:"identical"` // pairs that are left out
	Seeds     int     `json:"seeds"`
	Analyzer  string  `json:"analyzer"`
	Curves    []Curve `json:"curves"`
	Default   Point   `json:"default"`
	Best      *Point  `json:"best,omitempty"` // of all rules, that of the best F1 with WantedPrecision; none reaches it: nil
}

// Curve is a score for each k.
type Curve struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
	BestK  int     `json:"bestK"` // that of the best F1
}

// Point is the mean score of a rule over all seeds.
type Point struct {
	Rule
	Score
	Deviation Score `json:"deviation"`
}

// WantedPrecision is what Report.Best must have.
const WantedPrecision = 0.98

// maxShingleTried bounds the search for Report.Best.
const maxShingleTried = 28

// Measure scores every k from 0 to MaxDistance alone and with what else the rule asks for,
// and the rule itself.
func (l *Labelled) Measure(rule Rule) *Report {
	r := &Report{
		Documents: len(l.Documents.All),
		Positive:  l.Positive,
		Negative:  l.Negative,
		Between:   l.Between,
		Identical: l.Identical,
	}
	if len(l.Documents.All) > 0 {
		r.Seeds = len(l.Documents.All[0].Signatures)
	}
	m := &measure{Labelled: l}
	for seed := range r.Seeds {
		m.seeds = append(m.seeds, l.counts(seed, rule))
	}
	r.Curves = append(r.Curves, m.curve("k", Alone(0)))
	if conditions := rule.Conditions(); conditions != "" {
		r.Curves = append(r.Curves, m.curve("k"+conditions, rule))
	}
	r.Default = m.point(rule)
	r.Best = m.best(rule.MaxLengthRatio)
	return r
}

// Conditions says what the rule asks for beside k.
func (r Rule) Conditions() (text string) {
	if r.MaxShingleDistance >= 0 {
		text = fmt.Sprintf(", with the shingle <=%d", r.MaxShingleDistance)
	}
	if r.MaxLengthRatio >= 0 {
		text += fmt.Sprintf(", length <=%g times", r.MaxLengthRatio)
	}
	return text
}

type measure struct {
	*Labelled
	seeds []*counts
}

func (m *measure) point(r Rule) Point {
	scores := make([]Score, len(m.seeds))
	for i, c := range m.seeds {
		scores[i] = m.score(c, r)
	}
	p := Point{Rule: r}
	p.Score, p.Deviation = meanOf(scores)
	return p
}

// curve scores a rule for each k.
func (m *measure) curve(name string, r Rule) Curve {
	c := Curve{Name: name}
	for r.K = range MaxDistance + 1 {
		c.Points = append(c.Points, m.point(r))
		if c.Points[r.K].F1 > c.Points[c.BestK].F1 {
			c.BestK = r.K
		}
	}
	return c
}

// best goes through all rules of one MaxLengthRatio, the strictest first.
func (m *measure) best(ratio float64) *Point {
	var best *Point
	for k := range MaxDistance + 1 {
		for limit := range maxShingleTried + 1 {
			p := m.point(Rule{k, limit, ratio})
			if p.Precision >= WantedPrecision && (best == nil || p.F1 > best.F1) {
				best = &p
			}
		}
	}
	return best
}
