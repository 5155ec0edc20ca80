package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/internal/match"
)

var reportTemplate = parsed("report.html")

// Report has the results of a run of dedup.
type Report struct {
	Inputs   []string
	Index    string // directory; "": temporary
	Analyzer string // "": fingerprints of any kind
	Rule     match.Rule
	Begun    time.Time
	Took     time.Duration

	Records, Compared, Duplicates int64
	Verdicts                      []Count // of documents
	Skips                         []Count
	Groups                        []Count // duplicates per document
	GroupsLow                     bool    // each may have more
	Distances                     []int64 // duplicates per distance

	Sample          *compare.Pairs
	Inside, Outside []*compare.Result // pairs of the sample
	Notes           []string          // why the report is incomplete
}

// reportPage is the data of the template.
type reportPage struct {
	*Report
	Title, Policy, Nav, Current string
	Summary                     string
	Documents                   int64 // with a verdict
	Stack                       []Bar
	Charts                      []*Chart
}

var verdictColours = map[string]string{"new": "a", "duplicate": "b", "changed": "c",
	"unchanged": "d", "skipped": "e"}

func (r *Report) page() *reportPage {
	p := &reportPage{Report: r, Title: "Near-duplicates", Policy: policy("'none'")}
	p.Summary = fmt.Sprintf("%s, %s, in %v", shownKey(strings.Join(r.Inputs, " ")),
		r.Begun.Format("2 January 2006 15:04"), r.Took.Round(time.Millisecond))
	setShares(r.Skips)
	setShares(r.Groups)
	for _, v := range r.Verdicts {
		p.Documents += v.N
	}
	at := 0.0
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		v.Colour = verdictColours[v.Name]
		width := 100 * float64(v.N) / float64(max(p.Documents, 1))
		p.Stack = append(p.Stack, Bar{X: at, W: width, Colour: v.Colour})
		at += width
	}
	setShares(r.Verdicts)
	k := r.Rule.MaxDistance
	distances := &Chart{Title: "Duplicates by distance", X: "bits that differ", Y: "duplicates",
		Note: "From each duplicate of this run to the nearest document that was kept. If many " +
			"are near k, a larger k would find more."}
	p.Charts = append(p.Charts, distances.draw(-1, "", Series{"duplicates", "b", r.Distances}))
	if s := r.Sample; s != nil {
		pairs := &Chart{Title: "Pairs on both sides of the limit", X: "bits that differ",
			Y: "pairs", Note: sampleNote(s)}
		p.Charts = append(p.Charts, pairs.draw(k, fmt.Sprintf("k = %d", k),
			Series{"match", "b", s.Match}, Series{"do not match", "d", s.Miss}))
	}
	return p
}

func sampleNote(s *compare.Pairs) string {
	of := "All pairs of different documents of this run"
	if s.Seen > compare.MaxSample {
		of = fmt.Sprintf("Pairs of %s different documents, a random sample of %s",
			count(s.Documents), count(s.Seen))
	}
	if s.Cut {
		of = fmt.Sprintf("Some %s of the pairs", count(compare.MaxPairs)) +
			strings.TrimPrefix(strings.TrimPrefix(of, "All pairs"), "Pairs")
	}
	return fmt.Sprintf("%s, up to %d bits beyond k. Pairs within k that do not match differ in "+
		"word order or length.", of, compare.Reach)
}
