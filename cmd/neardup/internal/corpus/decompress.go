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
	// fileBuffer is enough to look into a compressed member before it is read: half
	// of it holds a Zstandard block, which has 128 KiB at most.
	fileBuffer = 512 << 10
	// maxWindow bounds the memory of a Zstandard decoder: what the zstd command allows
	// without being told to. It bounds the dictionary of xz too, of which xz -9 takes half.
	maxWindow = 128 << 20
	// maxDictionary bounds the dictionary that a .warc.zst file begins with.
	maxDictionary = 16 << 20
	// maxRewind bounds one rewind and, with the bytes read, the sum of rewinds.
	maxRewind = 1 << 20
)

var (
	bzip2Magic      = []byte("BZh")
	gzipMagic       = []byte{0x1f, 0x8b, 8}
	xzMagic         = []byte("\xfd7zXZ\x00")
	zstdMagic       = []byte{0x28, 0xb5, 0x2f, 0xfd}
	dictionaryMagic = []byte{0x5d, 0x2a, 0x4d, 0x18} // a skippable frame that holds a dictionary, as .warc.zst files have
)

var zstdOptions = []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow)}

// corruption is the end of what can be read of a file, at least up to its next gzip
// member or Zstandard frame.
type corruption struct {
	reason  string
	at      int64 // offset in the file
	between bool  // nothing was given of the member that is corrupt
	err     error
}

func (c *corruption) Error() string { return fmt.Sprintf("%s at byte %d: %v", c.reason, c.at, c.err) }
func (c *corruption) Unwrap() error { return c.err }

// skip is what corruption makes of a document.
func (c *corruption) skip(detail string) *Skip {
	detail = fmt.Sprintf("at byte %d: %v", c.at, c.err) + detail
	return &Skip{Reason: c.reason, Detail: detail, Document: true, Broken: true, Err: c}
}

// countedFile is a file as it is stored, counted, and ended by the context.
type countedFile struct {
	ctx      context.Context
	r        io.Reader
	size     int64 // -1 if unknown
	n        int64 // bytes read
	progress *atomic.Int64
	err      error // an error of the file, not its end
}

func (f *countedFile) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.r.Read(p)
	f.n += int64(n)
	f.progress.Add(int64(n))
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// decompressor decompresses a file by what its first bytes say. Of a gzip file it
// gives the members apart: no Read returns bytes of two.
type decompressor struct {
	file *countedFile
	in   *bufio.Reader // of file
	z    decoder       // nil until the file is opened, and where it is not compressed
	err  error         // behind what was given: io.EOF or *corruption

	format string // "gzip", "bzip2", "xz", "zstd"; "" for none
	magic  []byte
	inside bool  // inside a member
	began  int64 // file offset of the last member
	given  bool  // some of it was
	out    int64 // bytes given

	members []member // of gzip, for the reader to drop
	rewound int64    // bytes gone back so far
}

// member is where a gzip member begins, in the decompressed stream and in the file.
type member struct{ pos, file int64 }

type decoder interface {
	io.Reader
	Reset(io.Reader) error
}

// bzip2Reader reads all streams of a file as one.
type bzip2Reader struct{ io.Reader }

func (b *bzip2Reader) Reset(r io.Reader) error {
	b.Reader = bzip2.NewReader(r)
	return nil
}

// xzReader reads all streams of a file as one. It reads ahead of what it gives by 8 KiB at most.
type xzReader struct{ *xz.Reader }

func (x *xzReader) Reset(r io.Reader) error { return xzError(x.Reader.Reset(r)) }

func (x *xzReader) Read(p []byte) (int, error) {
	n, err := x.Reader.Read(p)
	return n, xzError(err)
}

func xzError(err error) error {
	switch err {
	case xz.ErrBuf: // the input ended
		return io.ErrUnexpectedEOF
	case xz.ErrMemlimit:
		return fmt.Errorf("its dictionary is over %d MiB: decompress it, xz -dc FILE | neardup dedup -", maxWindow>>20)
	}
	return err
}

// newDecompressor looks at the first bytes of a file, unless it is plain whatever they are.
func newDecompressor(f *countedFile, plain bool) *decompressor {
	size := fileBuffer
	if f.size >= 0 { // a small file takes no more than it has
		size = int(min(f.size+1, fileBuffer))
	}
	d := &decompressor{file: f, in: bufio.NewReaderSize(f, size)}
	if !plain {
		d.err = d.corrupt(d.open())
	}
	return d
}

func (d *decompressor) open() error {
	head, err := d.in.Peek(len(zstdMagic))
	if bytes.HasPrefix(xzMagic, head) {
		head, err = d.in.Peek(len(xzMagic))
	}
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		d.format, d.magic, d.z = "gzip", gzipMagic, new(gzip.Reader)
		return nil
	case len(head) == 4 && bytes.HasPrefix(head, bzip2Magic) && '1' <= head[3] && head[3] <= '9':
		d.format, d.magic, d.z = "bzip2", bzip2Magic, new(bzip2Reader)
		return nil
	case bytes.Equal(head, xzMagic):
		d.format, d.magic = "xz", xzMagic
		z, err := xz.NewReader(nil, maxWindow)
		d.z = &xzReader{z}
		return err
	case bytes.Equal(head, zstdMagic), len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], dictionaryMagic[1:]):
		return d.openZstd(head)
	case err == io.EOF: // a short file
		return nil
	}
	return err
}

func (d *decompressor) openZstd(head []byte) error {
	d.format, d.magic = "zstd", zstdMagic
	options := zstdOptions
	if bytes.Equal(head, dictionaryMagic) {
		dictionary, err := d.readDictionary()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if dictionary != nil {
			options = append(slices.Clone(options), zstd.WithDecoderDicts(dictionary))
		}
	}
	z, err := zstd.NewReader(nil, options...) // on this goroutine alone: there is nothing to close
	if err != nil {
		return err
	}
	d.z = z
	return nil
}

// readDictionary reads the first frame of a .warc.zst file: a dictionary, as it is or
// compressed with Zstandard itself.
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
		return nil, nil // some other frame, to be passed over
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDictionary))
	if err != nil {
		return nil, err
	}
	return z.DecodeAll(stored.Bytes(), nil)
}

// Read gives decompressed bytes. Its error is io.EOF, or a *corruption after which
// resync may find more.
func (d *decompressor) Read(p []byte) (n int, err error) {
	for n == 0 && d.err == nil {
		n, d.err = d.read(p)
		d.out += int64(n)
	}
	if n > 0 {
		return n, nil
	}
	return 0, d.err
}

func (d *decompressor) read(p []byte) (int, error) {
	if d.z == nil {
		n, err := d.in.Read(p)
		return n, d.corrupt(err)
	}
	if !d.inside {
		if err := d.begin(); err != nil {
			return 0, err
		}
	}
	n, err := d.z.Read(p)
	d.given = d.given || n > 0
	d.inside = err == nil
	if err == io.EOF {
		return n, nil
	}
	return n, d.corrupt(err)
}

// begin starts the next member; io.EOF if there is none. Zero bytes that fill up a block
// of a tape or a disk are no members.
func (d *decompressor) begin() error {
	head, err := d.in.Peek(len(d.magic))
	for len(head) > 0 && head[0] == 0 {
		d.in.Discard(1)
		head, err = d.in.Peek(len(d.magic))
	}
	if len(head) == 0 {
		return d.corrupt(err)
	}
	d.began, d.given = d.offset(), false
	err = gzip.ErrHeader
	if d.format != "gzip" || bytes.Equal(head, gzipMagic) {
		err = d.z.Reset(d.in)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return d.corruptAt(d.began, err)
	}
	if z, ok := d.z.(*gzip.Reader); ok {
		z.Multistream(false)
		if n := len(d.members); n > 0 && d.members[n-1].pos == d.out { // which is empty
			d.members = d.members[:n-1]
		}
		d.members = append(d.members, member{d.out, d.began})
	}
	return nil
}

// corrupt makes corruption of an error that is not the end.
func (d *decompressor) corrupt(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return d.corruptAt(d.offset(), err)
}

func (d *decompressor) corruptAt(offset int64, err error) error {
	c := &corruption{at: offset, between: !d.given || errors.Is(err, zstd.ErrMagicMismatch), err: err}
	switch { // the file may well be whole
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		c.err = fmt.Errorf("its window is over %d MiB: decompress it, zstd -dc --long=31 FILE | neardup dedup -", maxWindow>>20)
	case errors.Is(err, zstd.ErrUnknownDictionary):
		c.err = errors.New("its dictionary is not in it: decompress it, zstd -dc -D DICTIONARY FILE | neardup dedup -")
	}
	switch {
	case d.file.err != nil:
		c.reason, c.err = "read error", d.file.err
	case d.format == "":
		c.reason = "read error"
	case errors.Is(err, io.ErrUnexpectedEOF):
		c.reason = "truncated " + d.format
	default:
		c.reason = "bad " + d.format
	}
	return c
}

// corruption is what stopped the reading, nil for nothing or the end.
func (d *decompressor) corruption() *corruption {
	c, _ := d.err.(*corruption)
	return c
}

// offset is the position of the next byte in the file.
func (d *decompressor) offset() int64 { return d.file.n - int64(d.in.Buffered()) }

// resync goes forward, after corruption, to the next member whose text begins with want,
// and says whether there is one.
func (d *decompressor) resync(want string) bool {
	if d.z == nil || d.file.err != nil {
		return false
	}
	if d.format == "gzip" {
		d.rewind(d.began + 1) // a member that was cut off runs into the next one
	}
	for {
		if d.in.Buffered() < fileBuffer/2 {
			d.in.Peek(fileBuffer) // seldom, since it moves what is in the buffer
		}
		ahead, _ := d.in.Peek(d.in.Buffered())
		at := bytes.Index(ahead, d.magic)
		switch {
		case len(ahead) < len(d.magic):
			return false
		case at < 0:
			d.in.Discard(len(ahead) - len(d.magic) + 1)
		case at > 0:
			d.in.Discard(at)
		case d.beginsWith(ahead, want):
			d.err = nil
			return true
		default:
			d.in.Discard(1)
		}
	}
}

// beginsWith tries to read a member of which the first bytes are at hand.
func (d *decompressor) beginsWith(member []byte, want string) bool {
	if err := d.z.Reset(bytes.NewReader(member)); err != nil {
		return false
	}
	got := make([]byte, len(want))
	_, err := io.ReadFull(d.z, got)
	return err == nil && string(got) == want
}

// rewind goes back to offset, or as near to it as may be. Where the file cannot seek, it
// stays where it is.
func (d *decompressor) rewind(offset int64) {
	seeker, ok := d.file.r.(io.Seeker)
	offset = max(offset, d.offset()-maxRewind)
	back := d.offset() - offset
	if !ok || back <= 0 || d.rewound+back > d.offset()+maxRewind {
		return
	}
	if _, err := seeker.Seek(offset-d.file.n, io.SeekCurrent); err != nil {
		return
	}
	d.rewound += back
	d.file.progress.Add(offset - d.file.n)
	d.file.n = offset
	d.in.Reset(d.file)
}

// Open opens a file, or standard input where the name is "-", and decompresses it by its
// content, all its members as one stream. Corruption is an error of Read: what was read
// before it may not be taken for the whole.
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
