package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/neardup/neardup/index"
)

const (
	opens = 5
	// written is the number of documents that were not compacted when the process died.
	written = 1_000_000
)

// open times the opening of the compacted index, and of the same after a process that
// wrote to it was killed. It is the last to use that index.
func (r *run) open(ctx context.Context) error {
	if err := r.compacted(ctx); err != nil {
		return err
	}
	dir := r.path("compacted")
	var took []float64
	for range opens {
		begun := time.Now()
		err := withIndex(dir, r.options(r.MaxDistance), func(*index.Index) error {
			took = append(took, time.Since(begun).Seconds())
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	r.figure("open", "compacted, median", quantile(took, 0.5), "s")

	more := min(written, r.Documents)
	r.logf("writing %d documents more, to kill the process then", more)
	if err := r.writeAndKill(ctx, more); err != nil {
		return err
	}
	begun := time.Now()
	err := withIndex(dir, r.options(r.MaxDistance), func(x *index.Index) error {
		r.figure("open", fmt.Sprintf("after kill -9, %d written", more), time.Since(begun).Seconds(), "s")
		if err := indexAnswer(ctx, x)(0); err != nil {
			return err
		}
		r.figure("open", "the same, and the first answer", time.Since(begun).Seconds(), "s")
		if got := x.Stats().Documents; got != uint64(r.Documents+more) {
			return fmt.Errorf("%w: %d documents after kill -9, %d were acknowledged", ErrWrongAnswer, got, r.Documents+more)
		}
		return r.verified(ctx, "open", x, collection{seed: r.Seed, n: r.Documents + more}, r.MaxDistance)
	})
	return errors.Join(err, r.compactedGone())
}

// writeAndKill has a process of its own add documents, and kills it.
func (r *run) writeAndKill(ctx context.Context, more int) error {
	p, err := r.start(ctx, task{Name: "write", Dir: "compacted", MaxDistance: r.MaxDistance, More: more})
	if err != nil {
		return err
	}
	if _, err = p.outcome(); err != nil {
		return err
	}
	if err := p.command.Process.Kill(); err != nil {
		return err
	}
	if err := p.command.Wait(); err == nil {
		return errors.New("the writing process ended before it was killed")
	}
	return ctx.Err()
}

// writeTask adds documents, durably, and leaves the index open.
func writeTask(ctx context.Context, t *task) (outcome, error) {
	open, err := t.options()
	if err != nil {
		return outcome{}, err
	}
	x, err := index.Open(t.Dir, open)
	if err != nil {
		return outcome{}, err
	}
	if err := add(ctx, x, t.stored(), t.Documents, t.Documents+t.More, t.Keys, nil); err != nil {
		return outcome{}, errors.Join(err, x.Close())
	}
	return outcome{}, x.Sync(ctx)
}
