package index

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/index/plan"
)

// TestQueryIsExactAtAMillion compares designs with brute force on a million uniform
// and a million clustered fingerprints: Design4 for k = 0 to 10, and every design for
// k = 3 at full size, then the others at the size that millionEntries allows. It takes
// minutes, so it runs only with NEARDUP_LONG set; with NEARDUP_LONG=all every design is
// checked at full size for every k, which takes half an hour and 10 GB of disk.
func TestQueryIsExactAtAMillion(t *testing.T) {
	if !long() {
		t.Skip("NEARDUP_LONG is not set")
	}
	const n = 1_000_000
	rng := rand.New(rand.NewPCG(11, 11))
	for _, set := range []dataSet{{"uniform", uniform(rng, n)}, {"clustered", clustered(rng, n)}} {
		for _, d := range numbered {
			for k := range 11 {
				p := mustPlan(t, d, k)
				size := n
				if d != "4" && k != 3 && os.Getenv("NEARDUP_LONG") != "all" {
					size = sizeFor(p, n, millionEntries)
				}
				name := fmt.Sprintf("%s/design=%s/k=%d/tables=%d/n=%d", set.name, d, k, len(p.Tables), size)
				t.Run(name, func(t *testing.T) { checkMillion(t, p, set.fps[:size]) })
			}
		}
	}
}

// millionEntries bounds the entries of all tables of those plans that are not checked
// with a million fingerprints.
const millionEntries = 1_000_000

// maxEntriesInMemory bounds the entries of an index on a file system in memory, and
// those of a batch.
const maxEntriesInMemory = 30_000_000

func checkMillion(t *testing.T, p *plan.Plan, fps []uint64) {
	opts := Options{Plan: p, Durability: NoSync, FS: vfs.NewMem()}
	dir := "ix"
	if entries := len(fps) * len(p.Tables); entries > maxEntriesInMemory {
		opts.FS, dir = nil, t.TempDir()
	}
	x, err := Open(dir, &opts)
	if err != nil {
		t.Fatal(err)
	}
	oracle := &scanEverything{}
	start := time.Now()
	fill(t, x, oracle, fps, maxEntriesInMemory/len(p.Tables)) // large batches are much faster than small ones
	filled := time.Now()
	rng := rand.New(rand.NewPCG(12, uint64(p.MaxDistance)))
	queries := 60
	if p.MaxDistance >= 8 && len(fps) > 500_000 {
		queries = 20 // each looks at a tenth of all fingerprints and more
	}
	found := checkQueries(t, x, oracle, queriesFor(rng, fps, queries, p.MaxDistance), p.MaxDistance)
	if found == 0 {
		t.Error("no query found anything")
	}
	t.Logf("filled in %.1f s, %d matches checked in %.1f s", filled.Sub(start).Seconds(), found, time.Since(filled).Seconds())
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
