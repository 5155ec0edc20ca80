package extsort

import (
	"bufio"
	"context"
	"math/bits"

	"github.com/neardup/neardup/internal/radix"
)

const buckets = 256

// partition distributes records to buckets by 8 bits of the first word; above
// those bits all its records are equal. One goroutine adds to it.
type partition[R radix.Record] struct {
	s       *Sorter[R]
	shift   int
	open    [buckets][]R // the chunk of each bucket that has room
	buckets [buckets]bucket[R]
	chunks  int // of the pool, held by open and buckets
	file    *spillFile
}

// bucket holds records in the order in which they came: extents, then chunks,
// then the open chunk.
type bucket[R radix.Record] struct {
	extents []extent
	spilled int64        // records in extents
	spread  radix.Spread // of these
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
		if len(p.open[b]) == cap(p.open[b]) {
			if err := p.extend(ctx, b); err != nil {
				return err
			}
		}
		p.open[b] = append(p.open[b], records[i])
	}
	return nil
}

// extend gives bucket b a new open chunk. When the pool is used up, it spills.
func (p *partition[R]) extend(ctx context.Context, b byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	chunk := p.s.pool.get()
	if chunk == nil {
		if err := p.spill(ctx); err != nil {
			return err
		}
		chunk = p.s.pool.get()
	}
	if p.open[b] != nil {
		p.buckets[b].chunks = append(p.buckets[b].chunks, p.open[b])
	}
	p.open[b] = chunk
	p.chunks++
	return nil
}

// take removes the chunks of bucket b and returns them, none of them empty.
func (p *partition[R]) take(b int) [][]R {
	chunks := p.buckets[b].chunks
	p.buckets[b].chunks = nil
	if len(p.open[b]) > 0 {
		chunks = append(chunks, p.open[b])
		p.open[b] = nil
	}
	p.chunks -= len(chunks)
	return chunks
}

// spill appends what is in memory to the spill file, one extent a bucket.
func (p *partition[R]) spill(ctx context.Context) (err error) {
	if p.file == nil {
		if p.file, err = createSpillFile(p.s.options.FS, p.s.options.Dir); err != nil {
			return err
		}
	}
	if p.s.writer == nil {
		p.s.writer = bufio.NewWriterSize(nil, int(p.s.writeBuffer()))
	}
	w := p.s.writer
	w.Reset(p.file.f)
	for b := range p.buckets {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, chunk := range p.take(b) {
			if _, err := w.Write(radix.Memory(chunk)); err != nil {
				return p.file.writeError(err)
			}
			p.buckets[b].addSpilled(p.file.size, chunk)
			p.file.size += int64(len(chunk)) * radix.Bytes[R]()
			p.s.pool.put(chunk)
		}
	}
	if err := w.Flush(); err != nil {
		return p.file.writeError(err)
	}
	return nil
}

// addSpilled takes note of a chunk that was written at offset.
func (b *bucket[R]) addSpilled(offset int64, chunk []R) {
	n := int64(len(chunk))
	b.spilled += n
	b.spread = b.spread.Join(radix.SpreadOf(chunk))
	if last := len(b.extents) - 1; last >= 0 && b.extents[last].offset+b.extents[last].bytes == offset {
		b.extents[last].bytes += n * radix.Bytes[R]()
		return
	}
	b.extents = append(b.extents, extent{offset, n * radix.Bytes[R]()})
}

// records is the number of records in bucket b.
func (p *partition[R]) records(b int) int64 {
	return p.buckets[b].spilled + int64(len(p.buckets[b].chunks)*p.s.pool.chunkLen+len(p.open[b]))
}

// differing has the bits in which the records of bucket b differ.
func (p *partition[R]) differing(b int) uint64 {
	s := p.buckets[b].spread
	for _, chunk := range p.buckets[b].chunks {
		s = s.Join(radix.SpreadOf(chunk))
	}
	return s.Join(radix.SpreadOf(p.open[b])).Differing()
}

// source reads the records of one bucket, which it has taken from its partition.
type source[R radix.Record] struct {
	file    *spillFile
	extents []extent
	chunks  [][]R
	read    int // records of the first chunk
	pool    *chunkPool[R]
}

func (p *partition[R]) source(b int) *source[R] {
	return &source[R]{file: p.file, extents: p.buckets[b].extents, chunks: p.take(b), pool: p.s.pool}
}

// fill reads the next records, as many as dst holds unless there are fewer, and
// gives back each chunk that is read to its end.
func (s *source[R]) fill(ctx context.Context, dst []R) (n int, err error) {
	for n < len(dst) && len(s.extents) > 0 {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		e := &s.extents[0]
		part := radix.Memory(dst[n:])
		part = part[:min(int64(len(part)), e.bytes)]
		if err := s.file.readAt(part, e.offset); err != nil {
			return n, err
		}
		n += len(part) / int(radix.Bytes[R]())
		e.offset += int64(len(part))
		if e.bytes -= int64(len(part)); e.bytes == 0 {
			s.extents = s.extents[1:]
		}
	}
	for n < len(dst) && len(s.chunks) > 0 {
		chunk := s.chunks[0]
		copied := copy(dst[n:], chunk[s.read:])
		n += copied
		if s.read += copied; s.read == len(chunk) {
			s.pool.put(chunk)
			s.chunks, s.read = s.chunks[1:], 0
		}
	}
	return n, nil
}

// chunkPool lends chunks, memory for chunkLen records each, made as they are
// first needed.
type chunkPool[R radix.Record] struct {
	free     chan []R
	chunkLen int
	unmade   int // touched only by the goroutine that distributes
}

// slabChunks are made at once.
const slabChunks = 16

// newChunkPool makes a pool of so many bytes. 256 buckets have one chunk open each, which
// has to be little of the pool; beyond 16 KiB a larger chunk is no faster, but a shorter list.
func newChunkPool[R radix.Record](bytes int64) *chunkPool[R] {
	chunkLen := min(bytes/2048, max(16<<10, bytes/(64<<10))) / radix.Bytes[R]()
	chunks := int(bytes / (chunkLen * radix.Bytes[R]()))
	return &chunkPool[R]{free: make(chan []R, chunks), chunkLen: int(chunkLen), unmade: chunks}
}

// get returns an empty chunk, or nil when all are lent.
func (p *chunkPool[R]) get() []R {
	select {
	case c := <-p.free:
		return c
	default:
	}
	if p.unmade == 0 {
		return nil
	}
	n := min(slabChunks, p.unmade)
	p.unmade -= n
	slab := make([]R, n*p.chunkLen)
	for ; n > 1; n-- {
		p.free <- slab[:0:p.chunkLen]
		slab = slab[p.chunkLen:]
	}
	return slab[:0]
}

func (p *chunkPool[R]) put(chunk []R) { p.free <- chunk[:0] }

// scarce says whether less than a quarter of all chunks is there to be lent.
func (p *chunkPool[R]) scarce() bool { return len(p.free)+p.unmade < cap(p.free)/4 }
