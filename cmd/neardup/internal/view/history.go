package view

import (
	"slices"
	"sync"
	"time"

	"github.com/neardup/neardup/index"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Counts are the counters of a server since its start.
type Counts struct {
	Verdicts map[string]uint64
	Calls    map[string]Latency
}

// moment is a sample of the counters.
type moment struct {
	at     time.Time
	stats  index.Stats
	counts Counts
}

// history is samples from the start on, in bounded memory: if there are too many, every second one is
// dropped.
type history struct {
	mu      sync.Mutex
	moments []moment
	every   time.Duration // the least time between two samples
}

const (
	// SampleTime is the interval of the calls of Sample.
	SampleTime = 5 * time.Second
	maxMoments = 480
)

// Sample takes a sample for the charts.
func (p *Pages) Sample(now time.Time) {
	m := p.now(now)
	h := &p.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.moments); n > 0 && now.Sub(h.moments[n-1].at) < h.every {
		return
	}
	if h.moments = append(h.moments, m); len(h.moments) > maxMoments {
		n := 0
		h.moments = slices.DeleteFunc(h.moments, func(moment) bool { n++; return n%2 == 0 })
		h.every = h.moments[len(h.moments)-1].at.Sub(h.moments[0].at) / time.Duration(len(h.moments))
	}
}

func (p *Pages) now(at time.Time) moment {
	m := moment{at: at, stats: p.source.Stats()}
	if p.opts.Counts != nil {
		m.counts = p.opts.Counts()
	}
	return m
}

// all returns the samples, the last one of now.
func (p *Pages) all() []moment {
	p.history.mu.Lock()
	defer p.history.mu.Unlock()
	return append(slices.Clone(p.history.moments), p.now(time.Now()))
}

// charts returns the charts of the samples.
func charts(moments []moment, verdicts []Count) []*Chart {
	if len(moments) < 3 {
		return nil
	}
	var times []time.Time
	documents := Series{Name: "documents", Colour: "a"}
	rates := make([]Series, len(verdicts))
	for i, m := range moments[1:] {
		before := &moments[i]
		times = append(times, m.at)
		documents.Values = append(documents.Values, float64(m.stats.Documents))
		for n, v := range verdicts {
			rates[n].Name, rates[n].Colour = v.Name, v.Colour
			rate := float64(m.counts.Verdicts[v.Name]-before.counts.Verdicts[v.Name]) / max(m.at.Sub(before.at).Seconds(), 0.001)
			rates[n].Values = append(rates[n].Values, rate)
		}
	}
	list := []*Chart{newChart("Documents", "Stored documents.", "", "documents").lines(times, documents)}
	if len(rates) > 0 {
		list = append(list, newChart("Verdicts", "Verdicts per second.", "", "per second").lines(times, rates...))
	}
	return list
}

// CountsOf returns the Counts of the metrics of a server.
func CountsOf(g prometheus.Gatherer) Counts {
	c := Counts{Verdicts: make(map[string]uint64), Calls: make(map[string]Latency)}
	families, err := g.Gather()
	if err != nil && len(families) == 0 {
		return c
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "neardup_verdicts_total":
				c.Verdicts[labelOf(m)] = uint64(m.GetCounter().GetValue())
			case "neardup_call_seconds":
				l := Latency{N: m.GetHistogram().GetSampleCount()}
				for _, b := range m.GetHistogram().GetBucket() {
					l.Within = append(l.Within, Bucket{Seconds: b.GetUpperBound(), N: b.GetCumulativeCount()})
				}
				c.Calls[labelOf(m)] = l
			}
		}
	}
	return c
}

// labelOf is the value of the only label.
func labelOf(m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		return l.GetValue()
	}
	return ""
}
