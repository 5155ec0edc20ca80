package view

import (
	"fmt"
	"slices"
	"strconv"
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
	GroupsLow                     bool    // the counts of Groups are lower bounds
	Distances                     []int64 // duplicates per distance

	Sample          *compare.Pairs
	Inside, Outside []*compare.Result // pairs of the sample
	Notes           []string          // why the report is incomplete
}

// reportPage is the data of the template.
type reportPage struct {
	*Report
	Title, Policy, Nav, Current            string
	Summary, SampleNote                    string
	ByVerdict, BySkip, ByGroup, ByDistance *countTable
	ByPairs                                *countTable // pairs of the sample; nil: no sample
}

func (r *Report) page() *reportPage {
	p := &reportPage{Report: r, Title: "Near-duplicates", Policy: policy("'none'")}
	p.Summary = fmt.Sprintf("%s, %s, in %v", shownKey(strings.Join(r.Inputs, " ")),
		r.Begun.Format("2 January 2006 15:04"), r.Took.Round(time.Millisecond))
	p.ByVerdict = verdictTable("Verdicts on documents", "documents", r.Verdicts)
	p.BySkip = tableOf("Skipped, by reason", "reason", "records", r.Skips)
	most := "Documents with the most duplicates"
	if r.GroupsLow {
		most += "; the counts are lower bounds"
	}
	p.ByGroup = tableOf(most, "document", "duplicates", r.Groups)
	p.ByGroup.Keys = true
	var distances, pairs []Count
	for bits, n := range r.Distances {
		distances = append(distances, Count{Name: strconv.Itoa(bits), N: n})
	}
	p.ByDistance = tableOf("Duplicates by distance", "bits that differ", "duplicates", distances)
	if s := r.Sample; s != nil {
		for bits := range s.Match {
			pairs = append(pairs,
				Count{Name: fmt.Sprint(bits, ", match"), N: s.Match[bits], Colour: "b"},
				Count{Name: fmt.Sprint(bits, ", do not match"), N: s.Miss[bits], Colour: "d"})
		}
		pairs = slices.DeleteFunc(pairs, func(c Count) bool { return c.N == 0 })
		p.ByPairs = tableOf("Pairs on both sides of the limits", "bits that differ", "pairs", pairs)
		p.SampleNote = sampleNote(s)
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
