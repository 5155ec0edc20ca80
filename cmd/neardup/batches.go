package main

import (
	"context"
	"errors"

	"github.com/neardup/neardup/cmd/neardup/corpus"
)

// maxBatch is the number of records that go to the index together.
const maxBatch = 256

// eachBatch reads the inputs and gives their records to work, in order: as many at
// once as are ready, so that a slow input is answered line by line and a fast one
// in large batches. At the end, however it comes, it accounts for every record.
func (c *call) eachBatch(ctx context.Context, reader *corpus.Reader, a *analyzer, work func([]*input) error) error {
	stop := c.startProgress(ctx, reader)
	defer c.account(reader)
	defer stop()
	all, ready := analyzed(ctx, reader, a)
	var batch []*input
	for i, err := range all {
		if err != nil {
			return errors.Join(work(batch), err)
		}
		if batch = append(batch, i); len(batch) == maxBatch || !ready() {
			if err := work(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return work(batch)
}
