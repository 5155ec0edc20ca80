package compaction_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// Load fills a new index with many fingerprints, many times faster than Add.
func ExampleLoad() {
	docs := func(yield func(index.Document, error) bool) {
		for i := range 100_000 {
			if !yield(index.Document{Fingerprint: fingerprint.Fingerprint(i) * 0x9e3779b97f4a7c15},
				nil) {
				return
			}
		}
	}
	opts := index.Options{MaxDistance: 3, FS: vfs.NewMem()}
	report, err := compaction.Load(context.Background(), "fingerprints", docs,
		compaction.LoadOptions{Index: opts})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Loaded)
	// Output: 100000
}

// Compact packs the entries of an open index, so that queries are fast and removed entries take no
// space.
func ExampleCompact() {
	x, err := index.Open("pages", &index.Options{FS: vfs.NewMem(), Durability: index.NoSync})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	ctx := context.Background()
	for i := range 1000 {
		if err := x.Add(ctx,
			index.Document{Fingerprint: fingerprint.Fingerprint(i) << 32}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(x.Stats().Packed, x.Stats().Live)
	if _, err := compaction.Compact(ctx, x, compaction.Options{FS: vfs.NewMem()}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.Stats().Packed, x.Stats().Live)
	// Output:
	// 0 1000
	// 1000 0
}
