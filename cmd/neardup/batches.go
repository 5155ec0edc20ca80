package main

import (
	"context"
	"errors"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

// maxBatch is the number of records that go to the index together.
const maxBatch = 256

// eachBatch reads the inputs and gives their records to work, in order: as many at
// once as are ready, so that a slow input is answered line by line and a fast one
// in large batches. At the end, however it comes, it accounts for every record.
func (c *call) eachBatch(ctx context.Context, reader *corpus.Reader, a *analyzer, work func([]*input) error) error {
	return c.eachWindow(ctx, reader, a, maxBatch, 0, work)
}

// eachWindow is eachBatch for batches of at most a given number of records. Less than
// that go to work together if nothing is ready once patience is over.
func (c *call) eachWindow(ctx context.Context, reader *corpus.Reader, a *analyzer, most int, patience time.Duration, work func([]*input) error) error {
	stop := c.startProgress(ctx, reader)
	done := int64(0) // records whose work is done
	defer func() {
		if ahead := c.account(reader) - done; ahead > 0 {
			c.logf("up to %d of these, the last ones, were read ahead and have no answer", ahead)
		}
	}()
	defer stop()
	all, ready := analyzed(ctx, reader, a)
	var batch []*input
	begun := time.Now()
	for i, err := range all {
		if err != nil {
			return errors.Join(work(batch), err)
		}
		if batch = append(batch, i); len(batch) == most || !ready() && time.Since(begun) >= patience {
			if err := work(batch); err != nil {
				return err
			}
			done += int64(len(batch))
			batch, begun = batch[:0], time.Now()
		}
	}
	if err := work(batch); err != nil {
		return err
	}
	done += int64(len(batch))
	return nil
}
