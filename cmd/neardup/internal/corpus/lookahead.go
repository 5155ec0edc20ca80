package corpus

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"slices"

	"github.com/neardup/neardup/internal/mediatype"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// lookaheadBytes is how far a lookahead can look.
const lookaheadBytes = 64 << 10

// lookahead is what all formats read from: the decompressed bytes of a file, of which the next ones can be
// looked at, and the places where gzip members begin.
type lookahead struct {
	src    *decompressor
	text   io.Reader // src, or src as UTF-8 if it is UTF-16
	utf16  bool      // it is
	unread []byte    // before text
	buf    *bufio.Reader
	pos    int64 // of the next byte, in the decompressed stream
	words  bool  // the file is fingerprints of 8 bytes
}

// newLookahead makes a lookahead, which reads UTF-16 as UTF-8 unless words says that the file is binary.
func newLookahead(src *decompressor, words bool) *lookahead {
	l := &lookahead{src: src, text: src, words: words}
	l.buf = bufio.NewReaderSize((*unreader)(l), lookaheadBytes)
	if !words {
		l.decodeUTF16()
	}
	return l
}

// minUTF16 is how many bytes it takes to recognize UTF-16 without a byte order mark.
const minUTF16 = 8

// decodeUTF16 makes UTF-8 of a file that begins like UTF-16, as PowerShell and some editors write it.
func (l *lookahead) decodeUTF16() {
	l.peek(2)
	head := l.peek(l.buf.Buffered()) // without waiting for more: the input may be slow
	if len(head) < 2 || !mediatype.IsUTF16(head) {
		return
	}
	order := unicode.LittleEndian
	if head[0] == 0 || head[0] == 0xfe {
		order = unicode.BigEndian
	}
	if marked := head[0]|head[1] == 0xff; !marked && len(head) < minUTF16 {
		return
	}
	undecoded := io.MultiReader(bytes.NewReader(bytes.Clone(head)), l.src)
	l.text = transform.NewReader(undecoded, unicode.UTF16(order, unicode.UseBOM).NewDecoder())
	l.buf.Reset((*unreader)(l))
	l.utf16 = true
}

// unreader is the input of lookahead.buf.
type unreader lookahead

func (l *unreader) Read(p []byte) (n int, err error) {
	if len(l.unread) == 0 {
		return l.text.Read(p)
	}
	n = copy(p, l.unread)
	if l.unread = l.unread[n:]; len(l.unread) == 0 {
		l.unread = nil
	}
	return n, nil
}

// goBack makes b, the last bytes that were read, the next ones.
func (l *lookahead) goBack(b []byte) {
	ahead := l.peek(l.buf.Buffered())
	l.unread = slices.Concat(b, ahead, l.unread)
	l.buf.Reset((*unreader)(l))
	l.pos -= int64(len(b))
}

// peek gives the next n bytes, n at most lookaheadBytes, or as many as there are.
func (l *lookahead) peek(n int) []byte {
	b, _ := l.buf.Peek(n)
	return b
}

// chunk gives bytes that are at hand, none of the next member; none at the end or at
// corruption.
func (l *lookahead) chunk() []byte {
	l.peek(1)
	c := l.peek(l.buf.Buffered())
	for _, m := range l.src.members {
		if m.pos > l.pos {
			return c[:min(int64(len(c)), m.pos-l.pos)]
		}
	}
	return c
}

// isEmpty reports whether no bytes are buffered, so that the next call may wait for the input.
func (l *lookahead) isEmpty() bool { return l.buf.Buffered() == 0 }

// Read reads without waiting for all of p. Its error is io.EOF, or corruption.
func (l *lookahead) Read(p []byte) (int, error) {
	n, err := l.buf.Read(p)
	l.passed(n)
	return n, err
}

// skip goes past bytes of a set, and gives the next other one; there is none at the end or at corruption.
func (l *lookahead) skip(set string) (next byte, is bool) {
	for {
		c := l.chunk()
		rest := bytes.TrimLeft(c, set)
		l.advance(len(c) - len(rest))
		if len(rest) > 0 {
			return rest[0], true
		} else if len(c) == 0 {
			return 0, false
		}
	}
}

// skipMark goes past a byte order mark.
func (l *lookahead) skipMark() {
	if string(l.peek(len(byteOrderMark))) == byteOrderMark {
		l.advance(len(byteOrderMark))
	}
}

// advance goes past n bytes that are at hand.
func (l *lookahead) advance(n int) {
	l.buf.Discard(n)
	l.passed(n)
}

func (l *lookahead) passed(n int) {
	l.pos += int64(n)
	l.src.members = slices.DeleteFunc(l.src.members, func(m *member) bool { return m.pos < l.pos })
}

// member returns the gzip member that begins here, or nil.
func (l *lookahead) member() *member {
	l.peek(1)
	if m := l.src.members; len(m) > 0 && m[0].pos == l.pos {
		return m[0]
	}
	return nil
}

// offset returns the Record.Offset of a record that begins here.
func (l *lookahead) offset() int64 {
	if m := l.member(); m != nil {
		return m.file
	}
	return l.pos
}

// compressed reports whether the file is compressed.
func (l *lookahead) compressed() bool { return l.src.format != "" }

// holds reports whether n bytes may follow. The size of a compressed file or a stream is known only after reading it. Another
// file may have grown since it was opened.
func (l *lookahead) holds(n int64) bool {
	file := l.src.file
	if l.compressed() || l.utf16 || file.size < 0 || n <= file.size-l.pos {
		return true
	}
	if f, ok := file.r.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			file.size = info.Size()
		}
	}
	return n <= file.size-l.pos
}

// corruption is what stops the reading here, nil for nothing or the end of the file.
func (l *lookahead) corruption() *corruption {
	if len(l.peek(1)) > 0 {
		return nil
	}
	return l.src.corruption()
}

// ended says whether all was read.
func (l *lookahead) ended() bool { return len(l.peek(1)) == 0 && l.src.err == io.EOF }

// line appends the next line to dst, with its line feed, but no more than limit bytes
// of it, and says how long it is, and whether it has a line feed. Size 0 is the end, or
// corruption.
func (l *lookahead) line(dst []byte, limit int) (line []byte, size int64, whole bool) {
	return l.cut(dst, limit, func(c []byte) (int, bool) {
		if end := bytes.IndexByte(c, '\n'); end >= 0 {
			return end + 1, true
		}
		return len(c), false
	})
}

// cut is line for what next finds the end of: how many of some bytes belong to it, and whether it
// ends there.
func (l *lookahead) cut(dst []byte, limit int, next func([]byte) (n int, ended bool)) (part []byte, size int64, whole bool) {
	for !whole {
		c := l.chunk()
		if len(c) == 0 {
			return dst, size, false
		}
		n := 0
		n, whole = next(c)
		size += int64(n)
		dst = append(dst, c[:min(n, max(0, limit-len(dst)))]...)
		l.advance(n)
	}
	return dst, size, true
}
