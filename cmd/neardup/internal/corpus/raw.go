package corpus

import (
	"bufio"
	"context"
	"io"
	"sync/atomic"
)

// rawBuffer is enough to look into a compressed member before it is read: half
// of it holds a Zstandard block, which has 128 KiB at most.
const rawBuffer = 512 << 10

// maxRewind bounds how far back damage is looked for, at once and, beyond what
// was read since the beginning, in all.
const maxRewind = 1 << 20

// raw is a file as it is stored: buffered, counted, and ended by the context.
type raw struct {
	*bufio.Reader
	file    *countingReader
	size    int64 // -1 if unknown
	rewound int64 // bytes gone back so far
}

func newRaw(ctx context.Context, f io.Reader, size int64, progress *atomic.Int64) *raw {
	c := &countingReader{ctx: ctx, r: f, progress: progress}
	return &raw{Reader: bufio.NewReaderSize(c, rawBuffer), file: c, size: size}
}

// offset is the position of the next byte in the file.
func (r *raw) offset() int64 { return r.file.n - int64(r.Buffered()) }

// ahead gives what follows, half of the buffer at least, and says whether
// there is more. It fills the buffer seldom, since that moves what is in it.
func (r *raw) ahead() (b []byte, more bool) {
	n := r.Buffered()
	if n < rawBuffer/2 {
		n = rawBuffer
	}
	b, err := r.Peek(n)
	return b, err == nil
}

// rewind goes back to offset, or as near to it as may be. Where the file
// cannot seek, it stays where it is.
func (r *raw) rewind(offset int64) {
	seeker, ok := r.file.r.(io.Seeker)
	offset = max(offset, r.offset()-maxRewind)
	back := r.offset() - offset
	if !ok || back <= 0 || r.rewound+back > r.offset()+maxRewind {
		return
	}
	if _, err := seeker.Seek(offset-r.file.n, io.SeekCurrent); err != nil {
		return
	}
	r.rewound += back
	r.file.progress.Add(offset - r.file.n)
	r.file.n = offset
	r.Reset(r.file)
}

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
