package corpus

import (
	"bytes"
	"io"
)

// windowBuffer is how far a window can look ahead.
const windowBuffer = 64 << 10

// window is what all formats read from: the decompressed bytes of a file,
// with some of them in view, and the places where gzip members begin.
type window struct {
	src     *inflater
	buf     []byte // buf[r:] is not read yet
	r       int
	pos     int64 // of buf[r], in the decompressed stream
	err     error // what follows buf: io.EOF or *damage
	members []member
}

// member is the start of a gzip member at or behind the window's position.
type member struct{ pos, file int64 }

func newWindow(in *raw) *window {
	return &window{src: &inflater{in: in}, buf: make([]byte, 0, windowBuffer)}
}

func (w *window) close() { w.src.close() }

// fill reads on; it is false at the end, or at damage.
func (w *window) fill() bool {
	if w.err != nil {
		return false
	}
	if w.r > 0 && (w.r == len(w.buf) || cap(w.buf)-len(w.buf) < windowBuffer/2) {
		rest := w.buf[w.r:]
		if cap(w.buf) > windowBuffer && len(rest) < windowBuffer/2 { // what unread made large
			w.buf = make([]byte, 0, windowBuffer)
		}
		w.buf = append(w.buf[:0], rest...)
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

// peek gives the next n bytes, n at most windowBuffer/2, or as many as there
// are.
func (w *window) peek(n int) []byte {
	for len(w.buf)-w.r < n && w.fill() {
	}
	return w.buf[w.r:min(w.r+n, len(w.buf))]
}

// chunk gives bytes that are at hand, none of the next member; none at the
// end or at damage.
func (w *window) chunk() []byte {
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
func (w *window) read(p []byte) int {
	for w.r == len(w.buf) && w.err == nil && len(p) >= windowBuffer { // past the window
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
func (w *window) advance(n int) {
	w.r += n
	w.pos += int64(n)
	gone := 0
	for gone < len(w.members) && w.members[gone].pos < w.pos {
		gone++
	}
	w.members = w.members[gone:]
}

// unread puts bytes back in front.
func (w *window) unread(b []byte) {
	w.buf = append(bytes.Clone(b), w.buf[w.r:]...)
	w.r = 0
	w.pos -= int64(len(b))
}

// atMember says whether a gzip member begins here, and where in the file.
func (w *window) atMember() (file int64, ok bool) {
	w.peek(1)
	if len(w.members) > 0 && w.members[0].pos == w.pos {
		return w.members[0].file, true
	}
	return 0, false
}

// offset is the Record.Offset of a record that begins here.
func (w *window) offset() int64 {
	if file, ok := w.atMember(); ok {
		return file
	}
	return w.pos
}

// remaining is how many bytes follow, at most; false where only reading on can
// tell.
func (w *window) remaining() (int64, bool) {
	if w.src.z != nil || w.src.in.size < 0 {
		return 0, false
	}
	return w.src.in.size - w.pos, true
}

// damage is what stopped the window, nil for nothing or the end of the file.
func (w *window) damage() *damage {
	d, _ := w.err.(*damage)
	return d
}

// ended says whether all was read.
func (w *window) ended() bool { return w.r == len(w.buf) && w.err == io.EOF }

// resync goes on behind damage where a member begins with want.
func (w *window) resync(want string) bool {
	if !w.src.resync(want) {
		return false
	}
	w.err = nil
	return true
}

// line appends the next line to dst, with its line feed, but no more than
// limit bytes of it, and says how long it is, and whether it has a line feed.
// Size 0 is the end, or damage.
func (w *window) line(dst []byte, limit int) (line []byte, size int64, whole bool) {
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
