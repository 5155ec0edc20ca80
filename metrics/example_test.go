package metrics_test

import (
	"fmt"
	"log"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

func ExampleNewCollector() {
	x, err := index.Open("pages", &index.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(x))
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "neardup_documents" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: neardup_documents 0
}
