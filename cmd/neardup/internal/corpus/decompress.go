package corpus

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
)

const (
	fileBuffer = 128 << 10
	// maxWindow bounds the window of Zstandard, as the zstd command does, and the dictionary of xz.
	// The largest dictionary of the xz command is half as large.
	maxWindow = 128 << 20
	// maxDictionary bounds the dictionary at the start of a .warc.zst file.
	maxDictionary = 16 << 20
)

var (
	bzip2Magic = []byte("BZh")
	gzipMagic  = []byte{0x1f, 0x8b, 8}
	xzMagic    = []byte("\xfd7zXZ\x00")
	zstdMagic  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	// a skippable frame with a dictionary, as in .warc.zst files
	dictionaryMagic = []byte{0x5d, 0x2a, 0x4d, 0x18}
)

// zstdOptions make a decoder run on the goroutine of its reader, so that it need not be closed.
var zstdOptions = []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
	zstd.WithDecoderMaxWindow(maxWindow)}

// corruption is an error that ended the reading of a file before its end.
type corruption struct {
	reason  string
	at      int64 // offset in the file; of gzip, where the damaged member begins
	between bool  // the damaged member or frame returned no bytes
	err     error
}

func (c *corruption) Error() string {
	return fmt.Sprintf("%s at byte %d: %v", c.reason, c.at, c.err)
}
func (c *corruption) Unwrap() error { return c.err }

// skip returns the Skip of the record that the corruption ended.
func (c *corruption) skip() *Skip {
	detail := fmt.Sprintf("at byte %d: %v; the rest of the file was not read", c.at, c.err)
	return &Skip{Reason: c.reason, Detail: detail, Document: true, Broken: true, Err: c}
}

// countedFile counts the bytes read from a file, and ends the file when its context ends.
type countedFile struct {
	ctx      context.Context
	r        io.Reader
	size     int64 // -1 if unknown
	n        int64 // bytes read
	progress *atomic.Int64
	err      error // of reading, not io.EOF

	keep    int    // largest gzip member whose compressed bytes are kept; 0 for none
	keeping bool   // raw has all bytes since the start of the member
	raw     []byte // bytes read
}

func (f *countedFile) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.r.Read(p)
	f.n += int64(n)
	f.progress.Add(int64(n))
	if f.keeping = f.keeping && len(f.raw) <= f.keep; f.keeping {
		f.raw = append(f.raw, p[:n]...)
	}
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// decompressor decompresses a file according to its first bytes. It reports the members of a gzip
// file. No Read returns bytes of two members.
type decompressor struct {
	file   *countedFile
	in     *bufio.Reader // of file
	format string        // "gzip", "bzip2", "xz", "zstd"; "" if the file is not compressed
	z      io.Reader     // in, if the file is not compressed
	gzip   *gzip.Reader  // z, if the format is gzip
	inside bool          // in a gzip member
	out    int64         // bytes returned
	err    error         // io.EOF or *corruption, after the bytes that were returned

	last    *member   // the member that is being read
	members []*member // of gzip; lookahead removes the members that it has passed
}

// member is a gzip member.
type member struct {
	file     int64  // offset in the file
	pos, end int64  // in the decompressed stream; end is set after the member was read
	raw      []byte // the compressed member, if it is kept
}

// newDecompressor returns a decompressor for the format of the first bytes of a file. If plain is
// true, the file is not compressed.
func newDecompressor(f *countedFile, plain bool) *decompressor {
	size := fileBuffer
	if f.size >= 0 { // a small file needs a small buffer
		size = int(min(f.size+1, fileBuffer))
	}
	d := &decompressor{file: f, in: bufio.NewReaderSize(f, size)}
	d.z = d.in
	if !plain {
		d.err = d.corrupt(d.open())
	}
	return d
}

func (d *decompressor) open() (err error) {
	head, err := d.in.Peek(len(zstdMagic))
	if bytes.HasPrefix(xzMagic, head) {
		head, err = d.in.Peek(len(xzMagic))
	}
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		d.format, d.gzip = "gzip", new(gzip.Reader)
		d.z = d.gzip
		return nil
	case len(head) == 4 && bytes.HasPrefix(head, bzip2Magic) && '1' <= head[3] && head[3] <= '9':
		d.format, d.z = "bzip2", bzip2.NewReader(d.in)
		return nil
	case bytes.Equal(head, xzMagic):
		d.format = "xz"
		d.z, err = xz.NewReader(d.in, maxWindow)
		return err
	case bytes.Equal(head, zstdMagic), len(head) == 4 && head[0]&0xf0 == 0x50 &&
		bytes.Equal(head[1:], dictionaryMagic[1:]):
		d.format = "zstd"
		d.z, err = d.openZstd(head)
		return err
	case err == io.EOF: // a short file
		return nil
	}
	return err
}

func (d *decompressor) openZstd(head []byte) (io.Reader, error) {
	options := zstdOptions
	if bytes.Equal(head, dictionaryMagic) {
		dictionary, err := d.readDictionary()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if dictionary != nil {
			options = append(slices.Clone(options), zstd.WithDecoderDicts(dictionary))
		}
	}
	return zstd.NewReader(d.in, options...)
}

// readDictionary reads the first frame of a .warc.zst file: a dictionary, which may itself be
// compressed with Zstandard. It returns nil if the frame has other content.
func (d *decompressor) readDictionary() ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(d.in, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[4:])
	if size > maxDictionary {
		return nil, fmt.Errorf("a dictionary of %d bytes, limit %d", size, maxDictionary)
	}
	var stored bytes.Buffer
	if _, err := io.CopyN(&stored, d.in, int64(size)); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(stored.Bytes(), []byte{0x37, 0xa4, 0x30, 0xec}) {
		return stored.Bytes(), nil
	}
	if !bytes.HasPrefix(stored.Bytes(), zstdMagic) {
		return nil, nil
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxDictionary))
	if err != nil {
		return nil, err
	}
	return z.DecodeAll(stored.Bytes(), nil)
}

// Read returns decompressed bytes. Its error is io.EOF or a *corruption.
func (d *decompressor) Read(p []byte) (n int, err error) {
	for n == 0 && d.err == nil {
		if d.gzip != nil && !d.inside {
			d.err = d.beginMember()
			continue
		}
		n, err = d.z.Read(p)
		d.out += int64(n)
		if d.gzip != nil && err == io.EOF {
			d.endMember()
			err = nil
		}
		d.err = d.corrupt(err)
	}
	if n > 0 {
		return n, nil
	}
	return 0, d.err
}

// beginMember begins the next gzip member. It returns io.EOF at the end of the file. Like gzip, it
// ignores zeros after a member, with which some media fill the last block.
func (d *decompressor) beginMember() error {
	head, err := d.in.Peek(len(gzipMagic))
	for d.last != nil && len(head) > 0 && head[0] == 0 {
		d.in.Discard(1)
		head, err = d.in.Peek(len(gzipMagic))
	}
	if len(head) == 0 {
		return d.corrupt(err)
	}
	d.last = &member{file: d.offset(), pos: d.out}
	if d.file.keep > 0 {
		unread, _ := d.in.Peek(d.in.Buffered())
		d.file.raw, d.file.keeping = append(d.file.raw[:0], unread...), true
	}
	if !bytes.HasPrefix(gzipMagic, head) {
		err = gzip.ErrHeader
	} else if err = d.gzip.Reset(d.in); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return d.corrupt(err)
	}
	d.gzip.Multistream(false)
	d.inside = true
	if n := len(d.members); n > 0 && d.members[n-1].pos == d.out { // the previous member was empty
		d.members = d.members[:n-1]
	}
	d.members = append(d.members, d.last)
	return nil
}

// endMember ends a gzip member whose checksum is correct.
func (d *decompressor) endMember() {
	m := d.last
	d.inside, m.end = false, d.out
	if !d.file.keeping {
		return
	}
	raw := d.file.raw[:len(d.file.raw)-d.in.Buffered()]
	if int64(len(raw)) <= m.end-m.pos+1<<10 { // bounds the memory of members with long headers
		m.raw = bytes.Clone(raw)
	}
}

// corrupt turns an error other than io.EOF into a *corruption.
func (d *decompressor) corrupt(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	c := &corruption{at: d.offset(), between: errors.Is(err, zstd.ErrMagicMismatch), err: err}
	if d.last != nil {
		c.at, c.between = d.last.file, d.out == d.last.pos
	}
	switch {
	case d.file.err != nil:
		c.reason, c.err = "read error", d.file.err
	case d.format == "":
		c.reason = "read error"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, xz.ErrBuf):
		c.reason, c.err = "truncated "+d.format, io.ErrUnexpectedEOF
	default:
		c.reason = "bad " + d.format
	}
	switch { // the file may be intact
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		c.err = fmt.Errorf("its window is over %d MiB: decompress it, zstd -dc --long=31 FILE | "+
			"neardup dedup -", maxWindow>>20)
	case errors.Is(err, zstd.ErrUnknownDictionary):
		c.err = errors.New("its dictionary is not in it: decompress it, zstd -dc -D DICTIONARY " +
			"FILE | neardup dedup -")
	case errors.Is(err, xz.ErrMemlimit):
		c.err = fmt.Errorf("its dictionary is over %d MiB: decompress it, xz -dc FILE | neardup "+
			"dedup -", maxWindow>>20)
	}
	return c
}

// corruption returns the corruption that ended the reading, or nil.
func (d *decompressor) corruption() *corruption {
	c, _ := d.err.(*corruption)
	return c
}

// offset returns the position of the next byte in the file.
func (d *decompressor) offset() int64 { return d.file.n - int64(d.in.Buffered()) }

// Open opens a file, or standard input if the name is "-", and decompresses it according to its
// first bytes. Read returns an error if the file is damaged.
func Open(name string, stdin io.Reader) (io.ReadCloser, error) {
	in := io.NopCloser(stdin)
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		in = file
	}
	file := &countedFile{ctx: context.Background(), r: in, size: -1, progress: new(atomic.Int64)}
	return struct {
		io.Reader
		io.Closer
	}{newDecompressor(file, false), in}, nil
}
