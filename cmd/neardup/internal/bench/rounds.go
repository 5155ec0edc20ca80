package bench

import (
	"context"
	"slices"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"golang.org/x/sync/errgroup"
)

// candidate answers queries in a timed round.
type candidate struct {
	run    func([]fingerprint.Fingerprint) error
	rounds []float64 // microseconds a query, a round each
}

// answer answers one query.
type answer func(fingerprint.Fingerprint) error

// each answers queries one after the other.
func (a answer) each(queries []fingerprint.Fingerprint) error {
	for _, fp := range queries {
		if err := a(fp); err != nil {
			return err
		}
	}
	return nil
}

// onThreads lets some goroutines answer a share each.
func (a answer) onThreads(threads int) func([]fingerprint.Fingerprint) error {
	return func(queries []fingerprint.Fingerprint) error {
		var group errgroup.Group
		for t := range threads {
			group.Go(func() error { return a.each(queries[len(queries)*t/threads : len(queries)*(t+1)/threads]) })
		}
		return group.Wait()
	}
}

// timed times queries one by one, in microseconds.
func (a answer) timed(times *[]float64) answer {
	return func(fp fingerprint.Fingerprint) error {
		begun := time.Now()
		err := a(fp)
		*times = append(*times, microseconds(time.Since(begun)))
		return err
	}
}

const (
	roundTime = 20 * time.Millisecond // at most about what the first candidate takes for its part
	minRounds = 5
)

// interleave lets the candidates answer one after the other, in short rounds, for as
// long as said: what else the machine does falls on all of them. Each has queries of
// its own, so that none finds in the processor's cache what the one before looked at.
func interleave(ctx context.Context, queries *queries, long time.Duration, candidates ...*candidate) error {
	count := 4
	for took, round := time.Duration(0), min(roundTime, long/minRounds); took <= round/2; {
		count *= 2
		var err error
		if took, err = candidates[0].round(ctx, queries, count); err != nil {
			return err
		}
	}
	candidates[0].rounds = nil // they only told how many queries make a round
	for start := time.Now(); time.Since(start) < long || len(candidates[0].rounds) < minRounds; {
		for _, c := range candidates {
			if _, err := c.round(ctx, queries, count); err != nil {
				return err
			}
		}
	}
	return nil
}

// round times a round.
func (c *candidate) round(ctx context.Context, queries *queries, count int) (took time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	asked := queries.next(count)
	begun := time.Now()
	err = c.run(asked)
	took = time.Since(begun)
	c.rounds = append(c.rounds, microseconds(took)/float64(count))
	return took, err
}

// mean returns the mean over all rounds, which have the same number of queries.
func (c *candidate) mean() float64 {
	sum := 0.0
	for _, us := range c.rounds {
		sum += us
	}
	return sum / float64(len(c.rounds))
}

func (c *candidate) median() float64 { return quantile(c.rounds, 0.5) }

// over returns the median of the ratios to another candidate, round by round.
func (c *candidate) over(other *candidate) float64 {
	ratios := make([]float64, len(c.rounds))
	for i := range ratios {
		ratios[i] = c.rounds[i] / other.rounds[i]
	}
	return quantile(ratios, 0.5)
}

// quantile returns the value that the share q of them lies below.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
