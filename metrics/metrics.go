// Package metrics exports the statistics of an index to Prometheus.
//
//	prometheus.MustRegister(metrics.NewCollector(x))
//
// The values come from index.Index.Stats and index.Index.StoreStats. docs/operations.md lists the
// metrics.
package metrics

import (
	"github.com/neardup/neardup/index"
	"github.com/prometheus/client_golang/prometheus"
)

// figure is a metric that is computed from the statistics S.
type figure[S any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*S) float64
}

func gauge[S any](name, help string, of func(*S) float64) figure[S] {
	return figure[S]{prometheus.NewDesc("neardup_"+name, help, nil, nil), prometheus.GaugeValue, of}
}

func counter[S any](name, help string, of func(*S) float64) figure[S] {
	return figure[S]{prometheus.NewDesc("neardup_"+name, help, nil, nil),
		prometheus.CounterValue, of}
}

var figures = []figure[index.Stats]{
	gauge("documents", "Documents stored.", func(s *index.Stats) float64 {
		return float64(s.Documents)
	}),
	counter("documents_added_total", "Documents ever added.",
		func(s *index.Stats) float64 { return float64(max(s.NextID, 1) - 1) }),
	counter("documents_expired_total", "Documents removed by age or number since the index was "+
		"opened.", func(s *index.Stats) float64 { return float64(s.Expired) }),
	gauge("crowded_texts", "Largest number of different texts of one site that are duplicates of "+
		"one document; 0 below 16.",
		func(s *index.Stats) float64 { return float64(s.CrowdedTexts) }),
	gauge("packed_fingerprints", "Fingerprints that the last compaction packed.",
		func(s *index.Stats) float64 { return float64(s.Packed) }),
	gauge("live_changes", "Documents added since the last compaction, including removed documents.",
		func(s *index.Stats) float64 { return float64(s.Live) }),
	counter("compactions_total", "Compactions and bulk loads of the index.",
		func(s *index.Stats) float64 { return float64(s.Generation) }),
	gauge("disk_bytes", "Bytes on disk, including the write-ahead log.",
		func(s *index.Stats) float64 { return float64(s.DiskBytes) }),
	gauge("filter_bytes", "Memory of filters and removed IDs.",
		func(s *index.Stats) float64 { return float64(s.FilterBytes) }),
	gauge("directory_bytes", "Memory of the directories of packed blocks.",
		func(s *index.Stats) float64 { return float64(s.DirectoryBytes) }),
	gauge("cached_bytes", "Memory of cached packed blocks.",
		func(s *index.Stats) float64 { return float64(s.CachedBytes) }),
	gauge("store_cached_bytes", "Memory of the store's block cache.",
		func(s *index.Stats) float64 { return float64(s.StoreCachedBytes) }),
}

// storeFigures are the metrics of the Pebble database of the index.
var storeFigures = []figure[index.StoreStats]{
	gauge("store_compaction_debt_bytes", "Estimated bytes that pending compactions of the store "+
		"rewrite.", func(s *index.StoreStats) float64 { return float64(s.CompactionDebtBytes) }),
	counter("store_compactions_failed_total", "Compactions of the store that failed.",
		func(s *index.StoreStats) float64 { return float64(s.CompactionsFailed) }),
	gauge("store_l0_tables", "Tables of the store's level 0.",
		func(s *index.StoreStats) float64 { return float64(s.L0Tables) }),
	gauge("store_l0_sublevels", "Sublevels of the store's level 0; writes stall at 64.",
		func(s *index.StoreStats) float64 { return float64(s.L0Sublevels) }),
	gauge("store_memtable_bytes", "Memory of the store's memtables.",
		func(s *index.StoreStats) float64 { return float64(s.MemTableBytes) }),
	gauge("store_wal_bytes", "Bytes of the write-ahead log that Open would read after a crash.",
		func(s *index.StoreStats) float64 { return float64(s.WALBytes) }),
	counter("store_wal_written_bytes_total", "Bytes written to the write-ahead log.",
		func(s *index.StoreStats) float64 { return float64(s.WALBytesWritten) }),
	counter("store_cache_hits_total", "Reads of blocks of the store from its cache.",
		func(s *index.StoreStats) float64 { return float64(s.CacheHits) }),
	counter("store_cache_misses_total", "Reads of blocks of the store from the disk.",
		func(s *index.StoreStats) float64 { return float64(s.CacheMisses) }),
	counter("store_write_stalls_total", "Stalls of writes until a flush or compaction of the "+
		"store.", func(s *index.StoreStats) float64 { return float64(s.WriteStalls) }),
	counter("store_write_stall_seconds_total", "Seconds for which writes stalled.",
		func(s *index.StoreStats) float64 { return s.WriteStallTime.Seconds() }),
}

type collector struct{ index *index.Index }

// NewCollector returns a collector of the statistics of an index. After the index is closed, the
// collector returns no metrics.
func NewCollector(x *index.Index) prometheus.Collector { return collector{x} }

func (c collector) Describe(out chan<- *prometheus.Desc) {
	describe(out, figures)
	describe(out, storeFigures)
}

func describe[S any](out chan<- *prometheus.Desc, figures []figure[S]) {
	for _, f := range figures {
		out <- f.desc
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	stats, store := c.index.Stats(), c.index.StoreStats()
	if stats.Tables == 0 {
		return
	}
	collect(out, figures, &stats)
	collect(out, storeFigures, &store)
}

func collect[S any](out chan<- prometheus.Metric, figures []figure[S], stats *S) {
	for _, f := range figures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(stats))
	}
}
