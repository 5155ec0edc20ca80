package server

import (
	"github.com/neardup/neardup/cmd/neardup/internal/view"
	dto "github.com/prometheus/client_model/go"
)

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
