package extsort

// chunkPool lends chunks, memory for chunkLen records each, made as they are
// first needed.
type chunkPool[R Record] struct {
	free     chan []R
	chunkLen int
	unmade   int // touched only by the goroutine that distributes
	total    int
}

// slabChunks are made at once.
const slabChunks = 16

func newChunkPool[R Record](b budget) *chunkPool[R] {
	return &chunkPool[R]{
		free:     make(chan []R, b.chunks),
		chunkLen: b.chunkLen,
		unmade:   b.chunks,
		total:    b.chunks,
	}
}

// get returns a chunk, or nil when all are lent.
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
		p.free <- slab[:p.chunkLen:p.chunkLen]
		slab = slab[p.chunkLen:]
	}
	return slab
}

// put takes back a chunk, or the filled part at its start.
func (p *chunkPool[R]) put(chunk []R) { p.free <- chunk[:cap(chunk)] }

func (p *chunkPool[R]) available() int { return len(p.free) + p.unmade }
