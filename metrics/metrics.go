// Package metrics gives the figures of an index to Prometheus.
//
//	prometheus.MustRegister(metrics.NewCollector(x))
//
// It is an adapter: package index has the same figures as plain numbers, in Stats.
package metrics

import (
	"github.com/neardup/neardup/index"
	"github.com/prometheus/client_golang/prometheus"
)

// figure is one of an index's.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*index.Stats) float64
}

func newFigure(name, help string, kind prometheus.ValueType, of func(*index.Stats) float64) figure {
	return figure{prometheus.NewDesc("neardup_"+name, help, nil, nil), kind, of}
}

var figures = []figure{
	newFigure("documents", "Documents stored.", prometheus.GaugeValue, func(s *index.Stats) float64 { return float64(s.Documents) }),
	newFigure("documents_added_total", "Documents ever stored.", prometheus.CounterValue, func(s *index.Stats) float64 { return float64(max(s.NextID, 1) - 1) }),
	newFigure("packed_fingerprints", "Fingerprints that the last compaction packed.", prometheus.GaugeValue, func(s *index.Stats) float64 { return float64(s.Packed) }),
	newFigure("live_changes", "Changes of fingerprints since then, about.", prometheus.GaugeValue, func(s *index.Stats) float64 { return float64(s.Live) }),
	newFigure("compactions_total", "How often the tables were packed.", prometheus.CounterValue, func(s *index.Stats) float64 { return float64(s.Generation) }),
	newFigure("disk_bytes", "Bytes on disk, with the log.", prometheus.GaugeValue, func(s *index.Stats) float64 { return float64(s.DiskBytes) }),
	newFigure("filter_bytes", "Memory of filters.", prometheus.GaugeValue, func(s *index.Stats) float64 { return float64(s.FilterBytes) }),
	newFigure("directory_bytes", "Memory for finding packed blocks.", prometheus.GaugeValue, func(s *index.Stats) float64 { return float64(s.DirectoryBytes) }),
	newFigure("cached_bytes", "Memory of packed blocks.", prometheus.GaugeValue, func(s *index.Stats) float64 { return float64(s.CachedBytes) }),
	newFigure("store_cached_bytes", "Memory of what else the store has cached.", prometheus.GaugeValue, func(s *index.Stats) float64 { return float64(s.StoreCachedBytes) }),
	newFigure("outgrown", "1 where there are too many documents for the plan.", prometheus.GaugeValue, func(s *index.Stats) float64 {
		if s.Outgrown != "" {
			return 1
		}
		return 0
	}),
}

type collector struct{ stats func() index.Stats }

// NewCollector collects the figures of an index, whenever they are asked for. Of one that is closed there
// are none.
func NewCollector(x *index.Index) prometheus.Collector { return collector{x.Stats} }

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range figures {
		out <- f.desc
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	stats := c.stats()
	if stats.Tables == 0 {
		return
	}
	for _, f := range figures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(&stats))
	}
}
