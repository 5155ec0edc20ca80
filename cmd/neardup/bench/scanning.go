package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/fingerprint"
	plan "github.com/neardup/neardup/internal/scan"
)

const (
	// scanBlock is how many fingerprints of a collection are in memory for the section.
	scanBlock = 1 << 22
	// scanTogether is how many of them are scanned between two looks at the context.
	scanTogether = 1 << 14
)

// scanning measures the plan for batches without an index: queries in memory, half of
// them near to a fingerprint of the collection, and one pass over a part of it in random
// order, and over one in order.
func (r *run) scanning(ctx context.Context) error {
	fps := make([]uint64, min(r.Documents, scanBlock))
	for i := range fps {
		fps[i] = r.stored.at(i)
	}
	sorted := r.sortedPart()
	asked := r.stored.questions(r.MaxDistance, streamScan).next(min(mostBatch, 10*r.Documents))
	random := rand.New(rand.NewPCG(r.Seed, streamScan))
	for i := range min(len(asked), verifiedScans) {
		if i%2 == 1 { // what is verified is near to what is scanned
			block := [][]uint64{fps, sorted}[i/2%2]
			asked[i] = fingerprint.Fingerprint(block[random.IntN(len(block))] ^ 1<<random.IntN(64)&-min(1, uint64(r.MaxDistance)))
		}
	}
	r.figure("scan", "queries in memory", float64(len(asked)), "")
	begun := time.Now()
	queries, err := plan.New(asked, r.MaxDistance, plan.Options{Collection: int64(r.Documents)})
	if err != nil {
		return err
	}
	r.figure("scan", "preparing them", time.Since(begun).Seconds(), "s")
	r.figure("scan", "memory that they take", mib(queries.Bytes()), "MiB")
	r.logf("scan: %v", queries)
	for _, block := range [][]uint64{fps, sorted} {
		if err := verifyScan(ctx, queries, block, r.MaxDistance, func(i int) uint64 { return uint64(asked[i]) }); err != nil {
			return err
		}
	}
	r.figure("scan", "queries whose matches are those of a full scan", min(verifiedScans, float64(len(asked))), "")
	if err := r.scanRates(ctx, queries, fps, "in random order"); err != nil {
		return err
	}
	return r.scanRates(ctx, queries, sorted, "sorted")
}

// sortedPart returns the first of all fingerprints in their order: about as many as are
// scanned in random order.
func (r *run) sortedPart() []uint64 {
	last := ^uint64(0)
	if r.Documents > scanBlock {
		last = uint64(math.Ldexp(float64(scanBlock)/float64(r.Documents), 64))
	}
	var part []uint64
	for i := range r.Documents {
		if fp := r.stored.at(i); fp <= last {
			part = append(part, fp)
		}
	}
	slices.Sort(part)
	return part
}

// scanRates times one core and all of them in turns.
func (r *run) scanRates(ctx context.Context, queries *plan.Queries, fps []uint64, name string) error {
	threads := runtime.GOMAXPROCS(0)
	var one, all, work []float64
	for begun := time.Now(); time.Since(begun) < r.Time || len(one) < minRounds; {
		for _, c := range []struct {
			threads int
			rates   *[]float64
		}{{1, &one}, {threads, &all}} {
			before, _ := processorTime()
			rate, err := scanRate(ctx, queries, fps, c.threads)
			if err != nil {
				return err
			}
			*c.rates = append(*c.rates, rate)
			if after, ok := processorTime(); ok {
				work = append(work, float64(len(fps))/(after-before).Seconds()/1e6)
			}
		}
	}
	r.figure("scan", name+", one core", quantile(one, 0.5), "M/s")
	r.figure("scan", fmt.Sprintf("%s, %d cores", name, threads), quantile(all, 0.5), "M/s")
	if len(work) > 0 {
		// It is the one that other work on the machine leaves nearly as it is.
		r.figure("scan", name+", a second of processor time", quantile(work, 0.5), "M")
	}
	return nil
}

// scanRate scans on some threads and returns how many millions of fingerprints that was a second.
func scanRate(ctx context.Context, queries *plan.Queries, fps []uint64, threads int) (float64, error) {
	var next, found atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range threads {
		wg.Go(func() {
			for ctx.Err() == nil {
				to := int(next.Add(scanTogether))
				from := to - scanTogether
				if from >= len(fps) {
					return
				}
				n := int64(0)
				queries.Scan(fps[from:min(to, len(fps))], func(plan.Match) { n++ })
				found.Add(n)
			}
		})
	}
	wg.Wait()
	return float64(len(fps)) / time.Since(begun).Seconds() / 1e6, ctx.Err()
}

const verifiedScans = 64

// verifyScan compares the matches of some queries, which alternate between uniform ones
// and ones that are near to a stored fingerprint, with a comparison with everything.
func verifyScan(ctx context.Context, queries *plan.Queries, fps []uint64, k int, query func(int) uint64) error {
	found := make([][]plan.Match, min(verifiedScans, queries.Len()))
	queries.Scan(fps, func(m plan.Match) {
		if m.Query < len(found) {
			found[m.Query] = append(found[m.Query], m)
		}
	})
	for i, matches := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		slices.SortFunc(matches, func(a, b plan.Match) int { return cmp.Compare(a.At, b.At) })
		var want []plan.Match
		for at, fp := range fps {
			if d := bits.OnesCount64(fp ^ query(i)); d <= k {
				want = append(want, plan.Match{At: at, Query: i, Distance: d})
			}
		}
		if !slices.Equal(matches, want) {
			return fmt.Errorf("%w: a scan finds %v for query %016x, and %v is right", ErrWrongAnswer, matches, query(i), want)
		}
	}
	return nil
}
