package extsort

import (
	"context"
	"sync"

	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/radix"
)

// runs sorts the buckets of a Sorter ahead of the consumer, who gets them in order.
type runs[R radix.Record] struct {
	s         *Sorter[R]
	pipe      *ordered.Pipe[run[R]]
	buffers   chan []R // free ones, nil when not yet made
	bufferLen int
	reading   sync.WaitGroup // tasks that still read from their partition
}

// run is some records in order.
type run[R radix.Record] struct {
	records []R
	buffer  []R // holds records
}

// sortBuffers: two goroutines sort with two each, the consumer has the fifth.
const sortBuffers = 5

// groupLen: buckets are joined to runs of about so many records.
const groupLen = 32 << 10

// startRuns begins to sort. Each run in the pipe has a buffer, and each task two.
func startRuns[R radix.Record](ctx context.Context, s *Sorter[R]) *runs[R] {
	r := &runs[R]{s: s, buffers: make(chan []R, sortBuffers)}
	for range sortBuffers {
		r.buffers <- nil
	}
	r.pipe = ordered.New(ctx, sortBuffers/2, sortBuffers, func(p *ordered.Pipe[run[R]]) error {
		return r.produce(p)
	})
	return r
}

func (r *runs[R]) produce(pipe *ordered.Pipe[run[R]]) error {
	root := r.s.root
	// All buffers have one length: what is needed, found out before the first is made.
	for b := 0; b < buckets; {
		end, n := r.group(root, b)
		r.bufferLen = max(r.bufferLen, int(min(n, int64(r.s.bufferLen))))
		b = end
	}
	return r.walk(pipe, root)
}

// group joins buckets from b up to end, of n records together. One that is
// larger than a buffer is alone.
func (r *runs[R]) group(p *partition[R], b int) (end int, n int64) {
	most := min(int64(groupLen), int64(r.s.bufferLen))
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

// walk takes up the buckets of a partition in order, then removes it. It is the youngest.
func (r *runs[R]) walk(pipe *ordered.Pipe[run[R]], p *partition[R]) error {
	for b := 0; b < buckets; {
		end, n := r.group(p, b)
		var err error
		if n > int64(r.s.bufferLen) {
			err = r.large(pipe, p, b)
		} else if n > 0 {
			err = r.sort(pipe, p, b, end, int(n))
		}
		if err != nil {
			return err
		}
		b = end
	}
	r.reading.Wait()
	return r.s.removeLast()
}

// large takes up bucket b of p, which does not fit in a buffer.
func (r *runs[R]) large(pipe *ordered.Pipe[run[R]], p *partition[R], b int) error {
	n := p.records(b)
	differing := p.differing(b)
	if differing == 0 {
		return r.pass(pipe, p.source(b), n)
	}
	// The new partition needs chunks, and cannot make its parents spill. This
	// leaves it a quarter of them whatever its parents hold.
	r.reading.Wait()
	if r.s.pool.scarce() {
		if err := p.spill(pipe.Context()); err != nil {
			return err
		}
	}
	source, part := p.source(b), r.s.newPartition(differing)
	buffer, err := r.buffer(pipe.Context())
	for n > 0 && err == nil {
		var got int
		if got, err = source.fill(pipe.Context(), buffer); err == nil {
			err = part.add(pipe.Context(), buffer[:got])
		}
		n -= int64(got)
	}
	if err != nil {
		return err
	}
	r.buffers <- buffer
	return r.walk(pipe, part)
}

// pass hands over n records that are in order already.
func (r *runs[R]) pass(pipe *ordered.Pipe[run[R]], source *source[R], n int64) error {
	for n > 0 {
		buffer, err := r.buffer(pipe.Context())
		if err != nil {
			return err
		}
		got, err := source.fill(pipe.Context(), buffer)
		if err != nil {
			return err
		}
		n -= int64(got)
		if err := pipe.Send(run[R]{records: buffer[:got], buffer: buffer}); err != nil {
			return err
		}
	}
	return nil
}

// sort starts a task that loads and sorts the n records of p's buckets b to end.
func (r *runs[R]) sort(pipe *ordered.Pipe[run[R]], p *partition[R], b, end, n int) error {
	ctx := pipe.Context()
	records, err := r.buffer(ctx)
	if err != nil {
		return err
	}
	room, err := r.buffer(ctx)
	if err != nil {
		return err
	}
	sources := make([]*source[R], 0, end-b)
	for ; b < end; b++ {
		sources = append(sources, p.source(b))
	}
	r.reading.Add(1)
	err = pipe.Go(func(int) (run[R], error) {
		err := load(ctx, sources, records[:n])
		r.reading.Done()
		if err != nil {
			return run[R]{}, err
		}
		sorted := radix.Sort(records[:n], room[:n])
		if &sorted[0] == &room[0] {
			records, room = room, records
		}
		r.buffers <- room
		return run[R]{records: sorted, buffer: records}, nil
	})
	if err != nil {
		r.reading.Done() // the task was not begun
	}
	return err
}

func load[R radix.Record](ctx context.Context, sources []*source[R], dst []R) error {
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
func (r *runs[R]) buffer(ctx context.Context) ([]R, error) {
	select {
	case b := <-r.buffers:
		if b == nil {
			b = make([]R, r.bufferLen)
		}
		return b, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
