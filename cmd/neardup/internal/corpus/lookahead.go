package corpus

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"slices"
	"sync/atomic"
)

// lookaheadBytes is how far a window can look ahead.
const lookaheadBytes = 64 << 10

// lookahead is what all formats read from: the decompressed bytes of a file,
// with some of them in view, and the places where gzip members begin.
type lookahead struct {
	src     *decompressor
	buf     []byte // buf[r:] is not read yet
	r       int
	pos     int64 // of buf[r], in the decompressed stream
	err     error // what follows buf: io.EOF or *corruption
	members []member
}

// member is the start of a gzip member at or behind the window's position.
type member struct{ pos, file int64 }

func newLookahead(in *countedFile) *lookahead {
	return &lookahead{src: &decompressor{in: in}, buf: make([]byte, 0, lookaheadBytes)}
}

func (w *lookahead) close() { w.src.close() }

// fill reads on; it is false at the end, or at damage.
func (w *lookahead) fill() bool {
	if w.err != nil {
		return false
	}
	if w.r > 0 && (w.r == len(w.buf) || cap(w.buf)-len(w.buf) < lookaheadBytes/2) {
		w.buf = append(w.buf[:0], w.buf[w.r:]...)
		w.r = 0
	}
	if len(w.buf) == cap(w.buf) {
		return false
	}
	n, err := w.src.Read(w.buf[len(w.buf):cap(w.buf)])
	if n > 0 && w.src.newMember {
		w.members = append(w.members, member{w.pos + int64(len(w.buf)-w.r), w.src.memberAt})
		w.src.newMember = false
	}
	w.buf = w.buf[:len(w.buf)+n]
	w.err = err
	return n > 0 || err == nil
}

// peek gives the next n bytes, n at most lookaheadBytes/2, or as many as there
// are.
func (w *lookahead) peek(n int) []byte {
	for len(w.buf)-w.r < n && w.fill() {
	}
	return w.buf[w.r:min(w.r+n, len(w.buf))]
}

// chunk gives bytes that are at hand, none of the next member; none at the
// end or at damage.
func (w *lookahead) chunk() []byte {
	for w.r == len(w.buf) && w.fill() {
	}
	c := w.buf[w.r:]
	for _, m := range w.members {
		if m.pos > w.pos {
			return c[:min(int64(len(c)), m.pos-w.pos)]
		}
	}
	return c
}

// read reads into p, without waiting for all of it. It is 0 at the end or at damage.
func (w *lookahead) read(p []byte) int {
	for w.r == len(w.buf) && w.err == nil && len(p) >= lookaheadBytes { // past the window
		n, err := w.src.Read(p)
		w.err, w.pos, w.src.newMember = err, w.pos+int64(n), false
		if n > 0 {
			return n
		}
	}
	n := copy(p, w.chunk())
	w.advance(n)
	return n
}

// advance goes past n bytes that are at hand.
func (w *lookahead) advance(n int) {
	w.r += n
	w.pos += int64(n)
	gone := 0
	for gone < len(w.members) && w.members[gone].pos < w.pos {
		gone++
	}
	w.members = w.members[gone:]
}

// atMember says whether a gzip member begins here, and where in the file.
func (w *lookahead) atMember() (file int64, ok bool) {
	w.peek(1)
	if len(w.members) > 0 && w.members[0].pos == w.pos {
		return w.members[0].file, true
	}
	return 0, false
}

// memberAt says whether a gzip member begins at a position that is at hand.
func (w *lookahead) memberAt(pos int64) bool {
	return slices.ContainsFunc(w.members, func(m member) bool { return m.pos == pos })
}

// offset is the Record.Offset of a record that begins here.
func (w *lookahead) offset() int64 {
	if file, ok := w.atMember(); ok {
		return file
	}
	return w.pos
}

// remaining is how many bytes follow, at most; false where only reading on can
// tell.
func (w *lookahead) remaining() (int64, bool) {
	if w.src.z != nil || w.src.in.size < 0 {
		return 0, false
	}
	return w.src.in.size - w.pos, true
}

// corruption is what stopped the window, nil for nothing or the end of the file.
func (w *lookahead) corruption() *corruption {
	d, _ := w.err.(*corruption)
	return d
}

// ended says whether all was read.
func (w *lookahead) ended() bool { return w.r == len(w.buf) && w.err == io.EOF }

// resync goes on behind damage where a member begins with want.
func (w *lookahead) resync(want string) bool {
	if !w.src.resync(want) {
		return false
	}
	w.err = nil
	return true
}

// line appends the next line to dst, with its line feed, but no more than
// limit bytes of it, and says how long it is, and whether it has a line feed.
// Size 0 is the end, or damage.
func (w *lookahead) line(dst []byte, limit int) (line []byte, size int64, whole bool) {
	for {
		c := w.chunk()
		if len(c) == 0 {
			return dst, size, false
		}
		end := bytes.IndexByte(c, '\n') + 1
		if end > 0 {
			c = c[:end]
		}
		size += int64(len(c))
		dst = append(dst, c[:min(len(c), max(0, limit-len(dst)))]...)
		w.advance(len(c))
		if end > 0 {
			return dst, size, true
		}
	}
}

// fileBuffer is enough to look into a compressed member before it is read: half
// of it holds a Zstandard block, which has 128 KiB at most.
const fileBuffer = 512 << 10

// maxRewind bounds one rewind and, with the bytes read, the sum of rewinds.
const maxRewind = 1 << 20

// countedFile is a file as it is stored: buffered, counted, and ended by the context.
type countedFile struct {
	*bufio.Reader
	file    *countingReader
	size    int64 // -1 if unknown
	rewound int64 // bytes gone back so far
}

func newCountedFile(ctx context.Context, f io.Reader, size int64, progress *atomic.Int64) *countedFile {
	c := &countingReader{ctx: ctx, r: f, progress: progress}
	return &countedFile{Reader: bufio.NewReaderSize(c, fileBuffer), file: c, size: size}
}

// offset is the position of the next byte in the file.
func (r *countedFile) offset() int64 { return r.file.n - int64(r.Buffered()) }

// ahead gives what follows, half of the buffer at least, and says whether
// there is more. It fills the buffer seldom, since that moves what is in it.
func (r *countedFile) ahead() (b []byte, more bool) {
	n := r.Buffered()
	if n < fileBuffer/2 {
		n = fileBuffer
	}
	b, err := r.Peek(n)
	return b, err == nil
}

// rewind goes back to offset, or as near to it as may be. Where the file
// cannot seek, it stays where it is.
func (r *countedFile) rewind(offset int64) {
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
