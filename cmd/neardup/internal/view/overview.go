package view

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// overviewPage is what the first page shows.
type overviewPage struct {
	Stats    index.Stats
	Since    time.Time
	Verdicts []Count
	Given    int64
	Calls    []callRow
	Charts   []*Chart
	LivePart string
	Texts    int

	Compaction, Failure string
}

type callRow struct {
	Name      string
	N         int64
	P50, P99  string
	RecentP99 string // of the last five minutes
}

var verdictOrder = []string{"new", "duplicate", "unchanged", "changed", "skipped"}

func (p *Pages) overview(*http.Request) (any, error) {
	moments := p.all()
	last := &moments[len(moments)-1]
	if last.stats.Tables == 0 {
		return nil, &problem{http.StatusServiceUnavailable, "The index is closed."}
	}
	o := &overviewPage{Stats: last.stats, Since: moments[0].at, LivePart: percent(int64(last.stats.Live), int64(last.stats.Live+last.stats.Packed))}
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
	c := p.source.Compaction()
	o.Compaction, o.Failure = compactionText(&c), c.Failure
	o.calls(moments)
	o.charts(moments)
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

func (o *overviewPage) calls(moments []moment) {
	last := &moments[len(moments)-1]
	recent := slices.IndexFunc(moments, func(m moment) bool { return last.at.Sub(m.at) <= 5*time.Minute })
	for _, name := range slices.Sorted(maps.Keys(last.counts.Calls)) {
		l := last.counts.Calls[name]
		lately := l.since(moments[recent].counts.Calls[name])
		if l.N > 0 {
			o.Calls = append(o.Calls, callRow{Name: name, N: int64(l.N), P50: seconds(l.quantile(.5)), P99: seconds(l.quantile(.99)),
				RecentP99: seconds(lately.quantile(.99))})
		}
	}
}

// charts shows what there is over time.
func (o *overviewPage) charts(moments []moment) {
	if len(moments) < 3 {
		return
	}
	times := make([]time.Time, len(moments))
	for i := range moments {
		times[i] = moments[i].at
	}
	series := func(name, colour string, value func(now, before *moment) float64) Series {
		s := Series{Name: name, Colour: colour, Values: []float64{math.NaN()}}
		for i := 1; i < len(moments); i++ {
			s.Values = append(s.Values, value(&moments[i], &moments[i-1]))
		}
		return s
	}
	var verdicts, latencies []Series
	for _, v := range o.Verdicts {
		verdicts = append(verdicts, series(v.Name, v.Colour, func(now, before *moment) float64 {
			return float64(now.counts.Verdicts[v.Name]-before.counts.Verdicts[v.Name]) / max(now.at.Sub(before.at).Seconds(), .001)
		}))
	}
	if len(verdicts) > 0 {
		o.Charts = append(o.Charts, newChart("Verdicts", "Given in each second.", "", "a second").lines(times, shortCount, verdicts...))
	}
	colours := map[string][2]string{"check": {"a", "b"}, "query": {"c", "d"}}
	for _, call := range []string{"check", "query"} {
		if !slices.ContainsFunc(o.Calls, func(c callRow) bool { return c.Name == call }) {
			continue
		}
		for i, q := range []float64{.5, .99} {
			latencies = append(latencies, series(fmt.Sprintf("%s, p%g", call, 100*q), colours[call][i], func(now, before *moment) float64 {
				return now.counts.Calls[call].since(before.counts.Calls[call]).quantile(q)
			}))
		}
	}
	if len(latencies) > 0 {
		o.Charts = append(o.Charts, newChart("Latency", "Half of the calls, and 99 of 100, took at most so long.", "", "time").lines(times, seconds, latencies...))
	}
	o.Charts = append(o.Charts,
		newChart("Documents", "That are stored.", "", "documents").lines(times, shortCount,
			series("documents", "a", func(now, _ *moment) float64 { return float64(now.stats.Documents) })),
		newChart("Packed and live", "Fingerprints that the last compaction packed, and changes since.", "", "fingerprints").lines(times, shortCount,
			series("packed", "c", func(now, _ *moment) float64 { return float64(now.stats.Packed) }),
			series("live", "b", func(now, _ *moment) float64 { return float64(now.stats.Live) })))
}

func seconds(s float64) string {
	switch {
	case math.IsNaN(s):
		return "-"
	case s == 0:
		return "0"
	case s < .001:
		return strconv.FormatFloat(s*1e6, 'f', 0, 64) + " us"
	case s < 1:
		return strconv.FormatFloat(s*1e3, 'g', 3, 64) + " ms"
	}
	return strconv.FormatFloat(s, 'g', 3, 64) + " s"
}
