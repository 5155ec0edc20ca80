package server

import (
	"net"
	"net/http"
	"sync/atomic"

	"github.com/neardup/neardup"
	indexmetrics "github.com/neardup/neardup/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics has the metrics of the server and of its index.
type metrics struct {
	registry    *prometheus.Registry
	verdicts    [neardup.Skipped + 1]atomic.Int64
	answers     *prometheus.CounterVec   // by call and HTTP status
	seconds     *prometheus.HistogramVec // by call
	refused     *prometheus.CounterVec   // by reason
	connections prometheus.Gauge         // open
}

func newMetrics(x *neardup.Index) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "neardup_calls_total",
			Help: "Calls answered, by call and HTTP status."}, []string{"call", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "neardup_call_seconds", Help: "Time to answer a call, by call.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .25, 1, 5, 30},
		}, []string{"call"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "neardup_refused_total",
			Help: "Requests refused, by reason: memory for requests exhausted, wrong token.",
		}, []string{"reason"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "neardup_connections",
			Help: "Open connections."}),
	}
	for status := neardup.New; status <= neardup.Skipped; status++ {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "neardup_verdicts_total", Help: "Verdicts given, by verdict.",
			ConstLabels: prometheus.Labels{"verdict": status.String()},
		}, func() float64 { return float64(m.verdicts[status].Load()) }))
	}
	m.registry.MustRegister(m.answers, m.seconds, m.refused, m.connections,
		boolGauge("neardup_compaction_running", "1 while a compaction runs in the background.",
			func() bool { return x.Compaction().Running }),
		boolGauge("neardup_compaction_failed", "1 if the last compaction in the background failed.",
			func() bool { return x.Compaction().Failure != "" }),
		boolGauge("neardup_expiry_failed", "1 if the last removal of documents by age or number "+
			"failed.", func() bool { return x.Compaction().ExpiryFailure != "" }),
		indexmetrics.NewCollector(x.Index), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// boolGauge returns a gauge that is 1 while set returns true, and 0 otherwise.
func boolGauge(name, help string, set func() bool) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if set() {
			return 1
		}
		return 0
	})
}

// connState counts open connections. It is the ConnState of http.Server.
func (m *metrics) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		m.connections.Inc()
	case http.StateClosed, http.StateHijacked:
		m.connections.Dec()
	}
}

// Verdicts returns the number of verdicts with a status since the start.
func (s *Server) Verdicts(status neardup.Status) int64 { return s.metrics.verdicts[status].Load() }
