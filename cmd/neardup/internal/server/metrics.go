package server

import (
	"net"
	"net/http"
	"sync"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/view"
	indexmetrics "github.com/neardup/neardup/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// metrics are those of the server, and of its index.
type metrics struct {
	registry    *prometheus.Registry
	verdicts    [neardup.Skipped + 1]prometheus.Counter
	answers     *prometheus.CounterVec   // by call and status of HTTP
	seconds     *prometheus.HistogramVec // by call
	refused     *prometheus.CounterVec   // by what there was too much of, or wrong
	connections *prometheus.GaugeVec     // by state

	mu     sync.Mutex
	states map[net.Conn]http.ConnState
}

func newMetrics(x *neardup.Index) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		answers:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "neardup_calls_total", Help: "Calls answered, by call and HTTP status."}, []string{"call", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "neardup_call_seconds", Help: "Time to answer a call, by call; of a stream of lines, until its end.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .25, 1, 5, 30},
		}, []string{"call"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "neardup_refused_total", Help: "What was refused or given up: connections, calls and bytes over their bounds, wrong tokens, answers not taken.",
		}, []string{"reason"}),
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "neardup_connections", Help: "Open connections, by state."}, []string{"state"}),
		states:      make(map[net.Conn]http.ConnState),
	}
	verdicts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "neardup_verdicts_total", Help: "Verdicts given, by verdict."}, []string{"verdict"})
	for status := neardup.New; status <= neardup.Skipped; status++ {
		m.verdicts[status] = verdicts.WithLabelValues(status.String())
	}
	m.registry.MustRegister(verdicts, m.answers, m.seconds, m.refused, m.connections,
		truth("neardup_compaction_running", "1 while the index is packed in the background.", func() bool { return x.Compaction().Running }),
		truth("neardup_compaction_failed", "1 where the last compaction in the background failed.", func() bool { return x.Compaction().Failure != "" }),
		truth("neardup_expiry_failed", "1 where the last removal of documents by age or number failed.", func() bool { return x.Compaction().ExpiryFailure != "" }),
		indexmetrics.NewCollector(x.Index), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// truth is a figure that is 0 or 1.
func truth(name, help string, holds func() bool) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if holds() {
			return 1
		}
		return 0
	})
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// connState counts connections by their state, which net/http tells.
func (m *metrics) connState(c net.Conn, now http.ConnState) {
	m.mu.Lock()
	before, known := m.states[c]
	ended := now == http.StateClosed || now == http.StateHijacked
	if ended {
		delete(m.states, c)
	} else {
		m.states[c] = now
	}
	m.mu.Unlock()
	if known {
		m.connections.WithLabelValues(before.String()).Dec()
	}
	if !ended {
		m.connections.WithLabelValues(now.String()).Inc()
	}
}

// Counts is what the pages show of the metrics.
func (s *Server) Counts() view.Counts {
	c := view.Counts{Verdicts: make(map[string]uint64), Calls: make(map[string]view.Latency)}
	families, err := s.metrics.registry.Gather()
	if err != nil && len(families) == 0 {
		return c
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "neardup_verdicts_total":
				c.Verdicts[labelOf(m)] = uint64(m.GetCounter().GetValue())
			case "neardup_call_seconds":
				l := view.Latency{N: m.GetHistogram().GetSampleCount()}
				for _, b := range m.GetHistogram().GetBucket() {
					l.Within = append(l.Within, view.Bucket{Seconds: b.GetUpperBound(), N: b.GetCumulativeCount()})
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
