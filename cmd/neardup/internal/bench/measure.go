package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"golang.org/x/sync/errgroup"
)

// figure writes a line of the table. A ratio is that to the reference in the same rounds; 0 is none.
func (r *run) figure(name string, value float64, unit string, ratio float64) error {
	line := fmt.Sprintf("%-52s %10.4g %-4s", name, value, unit)
	if ratio != 0 {
		line += fmt.Sprintf(" %.3g of the reference", ratio)
	}
	_, err := fmt.Fprintln(r.Out, strings.TrimRight(line, " "))
	return err
}

// steady lets goroutines call work for windows of a duration. Work returns the number of units it did.
// The time to warm up ends with the last window that is more than 5 % faster than all before it; two
// slower ones follow it. The rate per second is measured over the three windows after these.
func steady(ctx context.Context, window time.Duration, goroutines int, work func() (int, error)) (rate float64, warm time.Duration, err error) {
	run := func(long time.Duration) (float64, error) {
		var group errgroup.Group
		var done atomic.Int64
		begun := time.Now()
		for range goroutines {
			group.Go(func() error {
				for time.Since(begun) < long && ctx.Err() == nil {
					n, err := work()
					if done.Add(int64(n)); err != nil {
						return err
					}
				}
				return context.Cause(ctx)
			})
		}
		err := group.Wait()
		return float64(done.Load()) / time.Since(begun).Seconds(), err
	}
	begun, best := time.Now(), 0.0
	for slower := 0; slower < 2; slower++ {
		if rate, err = run(window); err != nil {
			return 0, 0, err
		}
		if rate > 1.05*best {
			slower, warm = -1, time.Since(begun)
		}
		best = max(best, rate)
	}
	rate, err = run(3 * window)
	return rate, warm, err
}

// candidate answers one query in timed rounds.
type candidate struct {
	answer func(fingerprint.Fingerprint) error
	rounds []float64 // microseconds per query, by round
}

// interleave lets the candidates answer in turns, in short rounds, so that other load on the machine
// affects them equally. Each round has queries of its own.
func (r *run) interleave(ctx context.Context, random *rand.Rand, long time.Duration, candidates ...*candidate) error {
	const perRound, minRounds = 512, 5
	for begun, n := time.Now(), 0; n < minRounds || time.Since(begun) < long; n++ {
		for _, c := range candidates {
			asked := r.stored.queries(random, perRound, r.MaxDistance)
			start := time.Now()
			for _, fp := range asked {
				if err := c.answer(fp); err != nil {
					return err
				}
			}
			c.rounds = append(c.rounds, float64(time.Since(start).Nanoseconds())/1e3/perRound)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// over returns the median of the ratios to another candidate by round.
func (c *candidate) over(other *candidate) float64 {
	ratios := make([]float64, len(c.rounds))
	for i := range ratios {
		ratios[i] = c.rounds[i] / other.rounds[i]
	}
	return median(ratios)
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// resident returns the resident memory of the process; 0 if /proc does not have it.
func resident() (bytes int64) {
	status, _ := os.ReadFile("/proc/self/status")
	_, value, _ := strings.Cut(string(status), "VmRSS:")
	fmt.Sscan(value, &bytes)
	return bytes << 10
}
