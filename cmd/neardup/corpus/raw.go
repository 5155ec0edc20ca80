package corpus

import (
	"bufio"
	"context"
	"io"
	"sync/atomic"
)

// rawBuffer is enough to look into a compressed member before it is read: one
// Zstandard block is at most 128 KiB.
const rawBuffer = 256 << 10

// raw is a file as it is stored: buffered, counted, and ended by the context.
type raw struct {
	*bufio.Reader
	file *countingReader
	size int64 // -1 if unknown
}

func newRaw(ctx context.Context, f io.Reader, size int64, progress *atomic.Int64) *raw {
	c := &countingReader{ctx: ctx, r: f, progress: progress}
	return &raw{Reader: bufio.NewReaderSize(c, rawBuffer), file: c, size: size}
}

// offset is the position of the next byte in the file.
func (r *raw) offset() int64 { return r.file.n - int64(r.Buffered()) }

type countingReader struct {
	ctx      context.Context
	r        io.Reader
	n        int64
	progress *atomic.Int64
	err      error // an error of the file, not its end
}

func (c *countingReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.progress.Add(int64(n))
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
