package extsort

import (
	"context"
	"math/bits"

	"github.com/neardup/neardup/internal/radix"
)

const buckets = 256

// partition distributes records to buckets by 8 bits of the first word; above
// those bits all its records are equal. One goroutine adds to it.
type partition[R Record] struct {
	s       *Sorter[R]
	shift   int
	open    [buckets]openChunk[R]
	buckets [buckets]bucket[R]
	chunks  int // of the pool, held by open and buckets
	file    *spillFile
	writing chan error // the spill going on, if any; gives one value
}

type openChunk[R Record] struct {
	records []R
	n       int // of them are filled
}

// bucket holds records in the order in which they came: extents, then chunks,
// then the open chunk.
type bucket[R Record] struct {
	extents []extent
	spilled int64 // records in extents
	spread  radix.Spread
	chunks  [][]R
}

// newPartition is for records that agree in all bits but differing.
func (s *Sorter[R]) newPartition(differing uint64) *partition[R] {
	p := &partition[R]{s: s, shift: max(bits.Len64(differing)-8, 0)}
	for b := range p.buckets {
		p.buckets[b].spread = radix.NoSpread
	}
	s.partitions = append(s.partitions, p)
	return p
}

func (p *partition[R]) add(ctx context.Context, records []R) error {
	shift := p.shift & 63
	for i := range records {
		b := byte(records[i][0] >> shift)
		c := &p.open[b]
		if c.n >= len(c.records) {
			if err := p.extend(ctx, b); err != nil {
				return err
			}
		}
		c.records[c.n] = records[i]
		c.n++
	}
	return nil
}

// extend gives bucket b a new open chunk.
func (p *partition[R]) extend(ctx context.Context, b byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	chunk, err := p.chunk(ctx)
	if err != nil {
		return err
	}
	c := &p.open[b] // after chunk, which may have spilled what was open
	if c.records != nil {
		p.buckets[b].chunks = append(p.buckets[b].chunks, c.records)
	}
	*c = openChunk[R]{records: chunk}
	p.chunks++
	return nil
}

// chunk takes a chunk from the pool; when there is none it spills, and waits.
func (p *partition[R]) chunk(ctx context.Context) ([]R, error) {
	pool := p.s.pool
	select {
	case err := <-p.writing:
		p.writing = nil
		if err != nil {
			return nil, err
		}
	default:
	}
	// Once it has come to spilling, spill at half, so that writing and
	// distributing overlap.
	if p.file != nil && p.writing == nil && p.chunks >= pool.total/2 {
		p.startSpill()
	}
	for {
		if c := pool.get(); c != nil {
			return c, nil
		}
		if p.writing == nil && p.chunks > 0 {
			p.startSpill()
		}
		select {
		case c := <-pool.free:
			return c, nil
		case err := <-p.writing:
			p.writing = nil
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take removes the chunks of bucket b and returns them, none of them empty.
func (p *partition[R]) take(b int) [][]R {
	chunks := p.buckets[b].chunks
	p.buckets[b].chunks = nil
	if c := &p.open[b]; c.n > 0 {
		chunks = append(chunks, c.records[:c.n])
		*c = openChunk[R]{}
	}
	p.chunks -= len(chunks)
	return chunks
}

// startSpill hands all records in memory to a goroutine that writes them.
func (p *partition[R]) startSpill() {
	var lists [buckets][][]R
	for b := range lists {
		lists[b] = p.take(b)
	}
	written := make(chan error, 1)
	p.writing = written
	if p.file == nil {
		file, err := p.s.createSpillFile()
		if err != nil {
			written <- err
			return
		}
		p.file = file
	}
	p.s.spills.Go(func() { written <- p.write(&lists) })
}

// write appends lists to the spill file, one extent a bucket.
func (p *partition[R]) write(lists *[buckets][][]R) error {
	for b, chunks := range lists {
		if len(chunks) == 0 {
			continue
		}
		bucket := &p.buckets[b]
		start := p.file.size()
		for _, chunk := range chunks {
			if p.s.stopped.Load() {
				return ErrClosed
			}
			if err := p.file.append(bytesOf(chunk)); err != nil {
				return err
			}
			bucket.spread = bucket.spread.Join(radix.SpreadOf(chunk))
			bucket.spilled += int64(len(chunk))
			p.s.pool.put(chunk)
		}
		bucket.addExtent(extent{start, p.file.size() - start})
	}
	return p.file.flush()
}

func (b *bucket[R]) addExtent(e extent) {
	if n := len(b.extents); n > 0 && b.extents[n-1].offset+b.extents[n-1].bytes == e.offset {
		b.extents[n-1].bytes += e.bytes
		return
	}
	b.extents = append(b.extents, e)
}

// settle waits for the spill going on, after which the partition can be read.
func (p *partition[R]) settle() error {
	if p.writing == nil {
		return nil
	}
	err := <-p.writing
	p.writing = nil
	return err
}

// spillAll leaves nothing in memory.
func (p *partition[R]) spillAll() error {
	if err := p.settle(); err != nil || p.chunks == 0 {
		return err
	}
	p.startSpill()
	return p.settle()
}

// records is the number of records in bucket b of a settled partition.
func (p *partition[R]) records(b int) int64 {
	n := p.buckets[b].spilled + int64(p.open[b].n)
	return n + int64(len(p.buckets[b].chunks)*p.s.pool.chunkLen)
}

// differing has the bits in which the records of bucket b of a settled
// partition differ.
func (p *partition[R]) differing(b int) uint64 {
	s := p.buckets[b].spread
	for _, chunk := range p.buckets[b].chunks {
		s = s.Join(radix.SpreadOf(chunk))
	}
	return s.Join(radix.SpreadOf(p.open[b].records[:p.open[b].n])).Differing()
}
