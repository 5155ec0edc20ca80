package extsort

import (
	"context"
	"sync"
)

// ordered sorts the buckets of a Sorter ahead of the consumer, and hands them
// over in order.
type ordered[R Record] struct {
	s         *Sorter[R]
	buffers   chan []R // free ones, nil when not yet made
	bufferLen int
	queue     chan chan sortedRun[R] // in order; each gives one run
	err       error                  // why queue was closed early
	reading   sync.WaitGroup         // tasks that still read from their partition
	transfer  []R
}

type sortedRun[R Record] struct {
	records []R
	buffer  []R // holds records
	err     error
}

// groupLen: buckets are joined to runs of about so many records.
const groupLen = 32 << 10

func newOrdered[R Record](s *Sorter[R]) *ordered[R] {
	o := &ordered[R]{
		s:       s,
		buffers: make(chan []R, sortBuffers),
		queue:   make(chan chan sortedRun[R], sortBuffers), // a run has a buffer, so it never fills up
	}
	for range sortBuffers {
		o.buffers <- nil
	}
	return o
}

// run calls yield for each run until it returns false.
func (o *ordered[R]) run(parent context.Context, yield func([]R) bool) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	o.s.cancel = cancel
	o.s.running.Go(func() {
		defer close(o.queue)
		o.err = o.produce(ctx)
	})
	for {
		run, err := o.next(ctx)
		if err != nil || run.records == nil {
			return err
		}
		if !yield(run.records) {
			return nil
		}
		o.buffers <- run.buffer
	}
}

// next returns the next run, an empty one after the last.
func (o *ordered[R]) next(ctx context.Context) (run sortedRun[R], err error) {
	if ctx.Err() != nil {
		return run, context.Cause(ctx)
	}
	select {
	case result, ok := <-o.queue:
		if !ok {
			return run, o.err
		}
		run = <-result
		return run, run.err
	case <-ctx.Done():
		return run, context.Cause(ctx)
	}
}

func (o *ordered[R]) produce(ctx context.Context) error {
	root := o.s.root
	if err := root.settle(); err != nil {
		return err
	}
	// All buffers have one length: what is needed, found out before the first is made.
	for b := 0; b < buckets; {
		end, n := o.group(root, b)
		o.bufferLen = max(o.bufferLen, int(min(n, int64(o.s.budget.bufferLen))))
		b = end
	}
	return o.walk(ctx, root)
}

// group joins buckets from b up to end, of n records together. One that is
// larger than a buffer is alone.
func (o *ordered[R]) group(p *partition[R], b int) (end int, n int64) {
	most := min(int64(groupLen), int64(o.s.budget.bufferLen))
	n = p.records(b)
	for end = b + 1; end < buckets; end++ {
		more := p.records(end)
		if n+more > most {
			break
		}
		n += more
	}
	return end, n
}

// walk takes up the buckets of a settled partition in order, then removes it.
func (o *ordered[R]) walk(ctx context.Context, p *partition[R]) error {
	for b := 0; b < buckets; {
		end, n := o.group(p, b)
		var err error
		if n > int64(o.s.budget.bufferLen) {
			err = o.large(ctx, p, b)
		} else if n > 0 {
			err = o.sort(ctx, p, b, end, int(n))
		}
		if err != nil {
			return err
		}
		b = end
	}
	o.reading.Wait()
	return o.s.remove(p)
}

// large takes up bucket b of p, which does not fit in a buffer.
func (o *ordered[R]) large(ctx context.Context, p *partition[R], b int) error {
	n := p.records(b)
	differing := p.differing(b)
	if differing == 0 {
		return o.pass(ctx, p.source(b), n)
	}
	// The new partition needs chunks, and cannot make its parents spill. This
	// leaves it a quarter of them whatever its parents hold.
	if pool := o.s.pool; pool.available() < pool.total/4 {
		if err := p.spillAll(); err != nil {
			return err
		}
	}
	if o.transfer == nil {
		o.transfer = make([]R, o.s.budget.transfer/recordBytes[R]())
	}
	source := p.source(b)
	part := o.s.newPartition(differing)
	for n > 0 {
		got, err := source.fill(ctx, o.transfer)
		if err != nil {
			return err
		}
		if err := part.add(ctx, o.transfer[:got]); err != nil {
			return err
		}
		n -= int64(got)
	}
	if err := part.settle(); err != nil {
		return err
	}
	return o.walk(ctx, part)
}

// pass hands over n records that are in order already.
func (o *ordered[R]) pass(ctx context.Context, source *source[R], n int64) error {
	for n > 0 {
		buffer, err := o.buffer(ctx)
		if err != nil {
			return err
		}
		got, err := source.fill(ctx, buffer)
		if err != nil {
			return err
		}
		n -= int64(got)
		result := make(chan sortedRun[R], 1)
		result <- sortedRun[R]{records: buffer[:got], buffer: buffer}
		o.queue <- result
	}
	return nil
}

// sort starts a task that loads and sorts the n records of p's buckets b to end.
func (o *ordered[R]) sort(ctx context.Context, p *partition[R], b, end, n int) error {
	records, err := o.buffer(ctx)
	if err != nil {
		return err
	}
	room, err := o.buffer(ctx)
	if err != nil {
		return err
	}
	sources := make([]*source[R], 0, end-b)
	for ; b < end; b++ {
		sources = append(sources, p.source(b))
	}
	result := make(chan sortedRun[R], 1)
	o.queue <- result
	o.reading.Add(1)
	o.s.running.Go(func() { result <- o.task(ctx, sources, records, room, n) })
	return nil
}

func (o *ordered[R]) task(ctx context.Context, sources []*source[R], records, room []R, n int) sortedRun[R] {
	err := load(ctx, sources, records[:n])
	o.reading.Done()
	if err != nil {
		return sortedRun[R]{err: err}
	}
	sorted := sortRecords(records[:n], room[:n])
	if &sorted[0] == &room[0] {
		records, room = room, records
	}
	o.buffers <- room
	return sortedRun[R]{records: sorted, buffer: records}
}

func load[R Record](ctx context.Context, sources []*source[R], dst []R) error {
	for _, source := range sources {
		got, err := source.fill(ctx, dst)
		if err != nil {
			return err
		}
		dst = dst[got:]
	}
	return nil
}

// buffer returns a free buffer when there is one.
func (o *ordered[R]) buffer(ctx context.Context) ([]R, error) {
	select {
	case b := <-o.buffers:
		if b == nil {
			b = make([]R, o.bufferLen)
		}
		return b, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
