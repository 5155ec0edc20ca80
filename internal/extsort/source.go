package extsort

import "context"

// source reads the records of one bucket, which it has taken from its partition.
type source[R Record] struct {
	file    *spillFile
	extents []extent
	chunks  [][]R
	read    int // records read of the first chunk
	pool    *chunkPool[R]
}

func (p *partition[R]) source(b int) *source[R] {
	return &source[R]{file: p.file, extents: p.buckets[b].extents, chunks: p.take(b), pool: p.s.pool}
}

// fill reads the next records, as many as dst holds unless there are fewer, and
// gives back each chunk that is read to its end.
func (s *source[R]) fill(ctx context.Context, dst []R) (int, error) {
	n := 0
	for ; n < len(dst) && len(s.extents) > 0; s.extents = s.extents[1:] {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		e := s.extents[0]
		part := bytesOf(dst[n:])
		part = part[:min(int64(len(part)), e.bytes)]
		if err := s.file.readAt(part, e.offset); err != nil {
			return n, err
		}
		n += len(part) / int(recordBytes[R]())
		if rest := e.bytes - int64(len(part)); rest > 0 {
			s.extents = append([]extent{{e.offset + int64(len(part)), rest}}, s.extents[1:]...)
			return n, nil
		}
	}
	for n < len(dst) && len(s.chunks) > 0 {
		chunk := s.chunks[0]
		copied := copy(dst[n:], chunk[s.read:])
		n += copied
		s.read += copied
		if s.read == len(chunk) {
			s.pool.put(chunk)
			s.chunks, s.read = s.chunks[1:], 0
		}
	}
	return n, nil
}
