package corpus

import (
	"bufio"
	"bytes"
	"io"
	"slices"

	"github.com/neardup/neardup/internal/mediatype"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// lookaheadBytes is the number of bytes that a lookahead can peek.
const lookaheadBytes = 64 << 10

// lookahead is the reader of all formats. It returns the decompressed bytes of a file, peeks the
// next bytes, and reports where gzip members begin. Reading ends at the end of the file or at
// corruption.
type lookahead struct {
	src   *decompressor
	text  io.Reader // src, or the UTF-8 text of src if it is UTF-16, after bytes of goBack
	utf16 bool
	words bool          // the file is fingerprints of 8 bytes
	buf   *bufio.Reader // of text
	pos   int64         // of the next byte in the decompressed stream
}

// newLookahead returns a lookahead. It decodes UTF-16 unless the file is fingerprints of 8 bytes.
func newLookahead(src *decompressor, words bool) *lookahead {
	l := &lookahead{src: src, text: src, words: words,
		buf: bufio.NewReaderSize(src, lookaheadBytes)}
	if !words {
		l.decodeUTF16()
	}
	return l
}

// minUTF16 is the number of bytes needed to recognize UTF-16 without a byte order mark.
const minUTF16 = 8

// decodeUTF16 decodes a file that begins like UTF-16, as PowerShell and some editors write it.
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
	l.buf.Reset(l.text)
	l.utf16 = true
}

// goBack unreads b, the last bytes that were read.
func (l *lookahead) goBack(b []byte) {
	unread := slices.Concat(b, l.peek(l.buf.Buffered()))
	l.text = io.MultiReader(bytes.NewReader(unread), l.text)
	l.buf.Reset(l.text)
	l.pos -= int64(len(b))
}

// peek returns the next n bytes, or fewer at the end or at corruption. n is at most lookaheadBytes.
func (l *lookahead) peek(n int) []byte {
	b, _ := l.buf.Peek(n)
	return b
}

// chunk returns the next bytes of a member that are available without waiting, at least one. It
// returns none at the end or at corruption.
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

// Read implements io.Reader. Its error is io.EOF or a *corruption.
func (l *lookahead) Read(p []byte) (int, error) {
	n, err := l.buf.Read(p)
	l.passed(n)
	return n, err
}

// skip skips the bytes of a set, and returns the next byte. It returns false at the end or at
// corruption.
func (l *lookahead) skip(set string) (next byte, ok bool) {
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

// skipMark skips a byte order mark.
func (l *lookahead) skipMark() {
	if string(l.peek(len(byteOrderMark))) == byteOrderMark {
		l.advance(len(byteOrderMark))
	}
}

// advance skips n bytes that are buffered.
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

// mayHave reports whether n more bytes may follow. The size of the content is known only for a
// regular file that is not compressed.
func (l *lookahead) mayHave(n int64) bool {
	size := l.src.file.size
	return l.compressed() || l.utf16 || size < 0 || n <= size-l.pos
}

// corruption returns the corruption that begins here, or nil.
func (l *lookahead) corruption() *corruption {
	if len(l.peek(1)) > 0 {
		return nil
	}
	return l.src.corruption()
}

// ended reports whether the end of the file is here.
func (l *lookahead) ended() bool { return len(l.peek(1)) == 0 && l.src.err == io.EOF }

// line appends the next line with its line feed to dst, up to a length of limit for dst. It returns
// the size of the whole line, which is 0 at the end or at corruption, and whether the line has a
// line feed.
func (l *lookahead) line(dst []byte, limit int) (line []byte, size int64, whole bool) {
	return l.cut(dst, limit, func(c []byte) (int, bool) {
		if end := bytes.IndexByte(c, '\n'); end >= 0 {
			return end + 1, true
		}
		return len(c), false
	})
}

// cut is like line for a part whose end next determines: next returns the number of bytes of c that
// belong to the part, and whether the part ends after them.
func (l *lookahead) cut(
	dst []byte, limit int, next func(c []byte) (n int, ended bool),
) (part []byte, size int64, whole bool) {
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
