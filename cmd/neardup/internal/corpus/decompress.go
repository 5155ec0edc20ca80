package corpus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxWindow bounds the memory of a Zstandard decoder: what the zstd
	// command allows without being told to.
	maxWindow = 128 << 20
	// maxDictionary bounds the dictionary that a .warc.zst file begins with.
	maxDictionary = 16 << 20
)

var (
	gzipMagic       = []byte{0x1f, 0x8b, 8}
	zstdMagic       = []byte{0x28, 0xb5, 0x2f, 0xfd}
	dictionaryMagic = []byte{0x5d, 0x2a, 0x4d, 0x18} // a skippable frame that holds a dictionary, as .warc.zst files have
)

// corruption is the end of what can be read of a compressed file, at least up to
// its next member.
type corruption struct {
	reason  string
	at      int64 // offset in the file
	between bool  // nothing was given of the member that is damaged
	err     error
}

func (d *corruption) Error() string { return fmt.Sprintf("%s at byte %d: %v", d.reason, d.at, d.err) }
func (d *corruption) Unwrap() error { return d.err }

// skip is what damage makes of a document.
func (d *corruption) skip(detail string) *Skip {
	detail = fmt.Sprintf("at byte %d: %v", d.at, d.err) + detail
	return &Skip{Reason: d.reason, Detail: detail, Document: true, Broken: true, Err: d}
}

// decompressor decompresses a file by what its first bytes say. Of a gzip file it
// gives the members apart: no Read returns bytes of two.
type decompressor struct {
	in     *countedFile
	opened bool

	name   string // "gzip", "zstd"; "" for none
	magic  []byte
	z      decoder
	zstd   *zstd.Decoder // z, to close it
	inside bool          // inside a member

	memberAt  int64 // file offset of the last member that began
	resumeAt  int64 // where to look for the next one after damage
	newMember bool  // and nothing was read of it yet
	given     bool  // some of it was
}

type decoder interface {
	io.Reader
	Reset(io.Reader) error
}

// open looks at the first bytes.
func (i *decompressor) open() error {
	i.opened = true
	head, err := i.in.Peek(len(zstdMagic))
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		i.name, i.magic, i.z = "gzip", gzipMagic, new(gzip.Reader)
	case bytes.Equal(head, zstdMagic), len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], dictionaryMagic[1:]):
		return i.openZstd(head)
	case err != nil && err != io.EOF:
		return i.damaged(err)
	}
	return nil
}

func (i *decompressor) openZstd(head []byte) error {
	i.name, i.magic = "zstd", zstdMagic
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow)}
	if bytes.Equal(head, dictionaryMagic) {
		dictionary, err := i.readDictionary()
		if err != nil {
			return i.damaged(err)
		}
		if dictionary != nil {
			options = append(options, zstd.WithDecoderDicts(dictionary))
		}
	}
	z, err := zstd.NewReader(nil, options...)
	if err != nil {
		return i.damaged(err)
	}
	i.z, i.zstd = z, z
	return nil
}

// readDictionary reads the first frame of a .warc.zst file: a dictionary, as
// it is or compressed with Zstandard itself.
func (i *decompressor) readDictionary() ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(i.in, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[4:])
	if size > maxDictionary {
		return nil, fmt.Errorf("a dictionary of %d bytes, limit %d", size, maxDictionary)
	}
	stored, err := io.ReadAll(io.LimitReader(i.in, int64(size)))
	if err != nil {
		return nil, err
	}
	if len(stored) < int(size) {
		return nil, io.ErrUnexpectedEOF
	}
	if !bytes.HasPrefix(stored, zstdMagic) {
		if bytes.HasPrefix(stored, []byte{0x37, 0xa4, 0x30, 0xec}) {
			return stored, nil
		}
		return nil, nil // some other frame to be passed over
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDictionary))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return z.DecodeAll(stored, nil)
}

// Read gives decompressed bytes. Its error is io.EOF, or a *corruption after which
// resync may find more.
func (i *decompressor) Read(p []byte) (int, error) {
	if !i.opened {
		if err := i.open(); err != nil {
			return 0, err
		}
	}
	if i.z == nil {
		n, err := i.in.Read(p)
		if err != nil && err != io.EOF {
			return n, i.damaged(err)
		}
		return n, err
	}
	for {
		if !i.inside {
			if err := i.begin(); err != nil {
				return 0, err
			}
		}
		n, err := i.z.Read(p)
		switch {
		case err == io.EOF:
			i.inside = false
		case err != nil:
			i.inside = false
			i.given = i.given || n > 0
			return n, i.damaged(err)
		}
		if n > 0 {
			i.given = true
			return n, nil
		}
	}
}

// begin starts the next member; io.EOF if there is none. Zero bytes that fill
// up a block of a tape or a disk are no members.
func (i *decompressor) begin() error {
	for {
		head, err := i.in.Peek(len(i.magic))
		if len(head) > 0 && head[0] == 0 {
			i.in.Discard(1)
			continue
		}
		if len(head) == 0 {
			if err == io.EOF {
				return io.EOF
			}
			return i.damaged(err)
		}
		break
	}
	at := i.in.offset()
	i.resumeAt, i.given = at+1, false
	if i.name == "gzip" && !startsWith(i.in, gzipMagic) {
		return i.damaged(gzip.ErrHeader)
	}
	if err := i.z.Reset(i.in.Reader); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		d := i.damaged(err)
		d.at = at
		return d
	}
	if z, ok := i.z.(*gzip.Reader); ok {
		z.Multistream(false)
	}
	i.inside, i.memberAt, i.newMember = true, at, i.name == "gzip"
	return nil
}

func startsWith(in *countedFile, magic []byte) bool {
	head, _ := in.Peek(len(magic))
	return bytes.Equal(head, magic)
}

func (i *decompressor) damaged(err error) *corruption {
	d := &corruption{at: i.in.offset(), between: !i.given || errors.Is(err, zstd.ErrMagicMismatch), err: err}
	switch {
	case i.in.file.err != nil:
		d.reason, d.err = "read error", i.in.file.err
	case i.name == "":
		d.reason = "read error"
	case errors.Is(err, io.ErrUnexpectedEOF):
		d.reason = "truncated " + i.name
	default:
		d.reason = "bad " + i.name
	}
	return d
}

// resync goes forward, after damage, to the next member whose text begins
// with want, and says whether there is one.
func (i *decompressor) resync(want string) bool {
	if i.z == nil || i.in.file.err != nil {
		return false
	}
	i.inside = false
	if i.name == "gzip" {
		i.in.rewind(i.resumeAt) // a member that was cut off runs into the next one
	}
	for {
		ahead, more := i.in.ahead()
		at := bytes.Index(ahead, i.magic)
		if at < 0 {
			if !more {
				return false
			}
			i.in.Discard(len(ahead) - len(i.magic) + 1)
			continue
		}
		i.in.Discard(at)
		ahead, _ = i.in.ahead()
		if i.beginsWith(ahead, want) {
			return true
		}
		i.in.Discard(1)
	}
}

// beginsWith tries to read a member of which the first bytes are at hand.
func (i *decompressor) beginsWith(member []byte, want string) bool {
	if err := i.z.Reset(bytes.NewReader(member)); err != nil {
		return false
	}
	got := make([]byte, len(want))
	_, err := io.ReadFull(i.z, got)
	return err == nil && string(got) == want
}

func (i *decompressor) close() {
	if i.zstd != nil {
		i.zstd.Close()
	}
}

// Open opens a file, or standard input where the name is "-", and decompresses
// it by its content, all its members as one stream.
func Open(name string, stdin io.Reader) (io.ReadCloser, error) {
	o := &opened{}
	var in io.Reader = stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("corpus: input: %w", err)
		}
		in, o.file = file, file
	}
	o.decompressor = &decompressor{in: newCountedFile(context.Background(), in, -1, new(atomic.Int64))}
	return o, nil
}

type opened struct {
	*decompressor
	file *os.File // nil for standard input
}

// Read is that of the decompressor. Damage is an error to the caller, who may
// not take what was read for the whole.
func (o *opened) Read(p []byte) (int, error) { return o.decompressor.Read(p) }

func (o *opened) Close() error {
	o.decompressor.close()
	if o.file == nil {
		return nil
	}
	return errors.Join(o.file.Close())
}
