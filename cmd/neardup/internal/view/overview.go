package view

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// overviewPage is what the first page shows.
type overviewPage struct {
	Stats      index.Stats
	Since      time.Time
	Verdicts   []Count
	Given      int64
	Calls      []callRow
	Charts     []*Chart
	Duplicates string // their share of the verdicts
	Texts      int

	Compaction, Failure string
}

type callRow struct {
	Name     string
	N        int64
	P50, P99 string
}

var verdictOrder = []string{"new", "duplicate", "unchanged", "changed", "skipped"}

func (p *Pages) overview(*http.Request) (any, error) {
	moments := p.all()
	last := &moments[len(moments)-1]
	if last.stats.Tables == 0 {
		return nil, &problem{http.StatusServiceUnavailable, "The index is closed."}
	}
	o := &overviewPage{Stats: last.stats, Since: moments[0].at}
	if p.opts.Texts != nil {
		o.Texts = p.opts.Texts.Documents()
	}
	for _, name := range verdictOrder {
		if n := int64(last.counts.Verdicts[name]); n > 0 {
			o.Verdicts = append(o.Verdicts, Count{Name: name, N: n, Colour: verdictColours[name]})
			o.Given += n
		}
	}
	setShares(o.Verdicts)
	o.Duplicates = percent(int64(last.counts.Verdicts["duplicate"]), o.Given)
	c := p.source.Compaction()
	o.Compaction, o.Failure = compactionText(&c), c.Failure
	o.calls(last.counts.Calls)
	o.Charts = charts(moments, o.Verdicts)
	return o, nil
}

// compactionText says what is packed in the background, and was.
func compactionText(c *compaction.BackgroundStats) string {
	text := "none in the background since the start"
	if c.Runs > 0 {
		took := time.Duration(c.Last.Seconds * float64(time.Second))
		text = fmt.Sprintf("%s in the background since the start; the last one took %s, until %s", count(c.Runs), durationText(took), c.LastEnd.Format("2 January 15:04"))
	}
	switch {
	case c.Running && c.Progress.Total > 0:
		text = fmt.Sprintf("one goes on (%s: %s); ", c.Progress.Stage, percent(int64(c.Progress.Done), int64(c.Progress.Total))) + text
	case c.Running:
		text = "one goes on; " + text
	}
	return text
}

// calls fills the table of calls.
func (o *overviewPage) calls(counts map[string]Latency) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if l := counts[name]; l.N > 0 {
			o.Calls = append(o.Calls, callRow{Name: name, N: int64(l.N), P50: seconds(l.quantile(0.5)), P99: seconds(l.quantile(0.99))})
		}
	}
}

// Latency is a histogram of the durations of calls.
type Latency struct {
	N      uint64
	Within []Bucket // ascending
}

// Bucket is the number N of calls that took at most Seconds.
type Bucket struct {
	Seconds float64
	N       uint64
}

// quantile returns a quantile of the durations, interpolated within its bucket. N must not be 0.
func (l Latency) quantile(q float64) float64 {
	rank, below, from := q*float64(l.N), 0.0, 0.0
	for _, b := range l.Within {
		if n := float64(b.N); n >= rank && n > below {
			return from + (b.Seconds-from)*(rank-below)/(n-below)
		}
		below, from = float64(b.N), b.Seconds
	}
	return from
}

func seconds(s float64) string {
	switch {
	case s == 0:
		return "0"
	case s < .001:
		return strconv.FormatFloat(s*1e6, 'f', 0, 64) + " us"
	case s < 1:
		return strconv.FormatFloat(s*1e3, 'g', 3, 64) + " ms"
	}
	return strconv.FormatFloat(s, 'g', 3, 64) + " s"
}
