package bench

import (
	"context"
	"slices"
	"time"

	"github.com/neardup/neardup/fingerprint"
)

// contender answers questions in a timed round.
type contender struct {
	run    func([]fingerprint.Fingerprint) error
	rounds []float64 // microseconds a question, a round each
}

const (
	roundTime = 20 * time.Millisecond // at most about what the first contender takes for its part
	minRounds = 5
)

// takeTurns lets the contenders answer one after the other, in short rounds, for as
// long as said: what else the machine does falls on all of them. Each has questions of
// its own, so that none finds in the processor's cache what the one before looked at.
func takeTurns(ctx context.Context, questions *questions, long time.Duration, contenders ...*contender) error {
	count, err := calibrate(ctx, questions, contenders[0], min(roundTime, long/minRounds))
	if err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < long || len(contenders[0].rounds) < minRounds; {
		for _, c := range contenders {
			if err := ctx.Err(); err != nil {
				return err
			}
			asked := questions.next(count)
			begun := time.Now()
			if err := c.run(asked); err != nil {
				return err
			}
			c.rounds = append(c.rounds, microseconds(time.Since(begun))/float64(count))
		}
	}
	return nil
}

// calibrate returns how many questions make a round of about that time.
func calibrate(ctx context.Context, questions *questions, c *contender, round time.Duration) (int, error) {
	for count := 8; ; count *= 2 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		asked := questions.next(count)
		begun := time.Now()
		if err := c.run(asked); err != nil {
			return 0, err
		}
		if time.Since(begun) > round/2 {
			return count, nil
		}
	}
}

// mean returns the mean over all rounds, which have the same number of questions.
func (c *contender) mean() float64 {
	sum := 0.0
	for _, us := range c.rounds {
		sum += us
	}
	return sum / float64(len(c.rounds))
}

func (c *contender) median() float64 { return quantile(c.rounds, 0.5) }

// over returns the median of the ratios to another contender, round by round.
func (c *contender) over(other *contender) float64 {
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

// latencies times questions one by one.
type latencies []float64

func (l *latencies) timed(answer func(fingerprint.Fingerprint) error) func([]fingerprint.Fingerprint) error {
	return func(asked []fingerprint.Fingerprint) error {
		for _, fp := range asked {
			begun := time.Now()
			if err := answer(fp); err != nil {
				return err
			}
			*l = append(*l, microseconds(time.Since(begun)))
		}
		return nil
	}
}

// eachOf answers questions one after the other.
func eachOf(answer func(fingerprint.Fingerprint) error) func([]fingerprint.Fingerprint) error {
	return func(asked []fingerprint.Fingerprint) error {
		for _, fp := range asked {
			if err := answer(fp); err != nil {
				return err
			}
		}
		return nil
	}
}
