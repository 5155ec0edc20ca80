package corpus

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
)

// maxDirectory bounds the directory of a zip file, which is read into memory, where each entry
// takes some three times as much.
const maxDirectory = 16 << 20

// container is how to read a file that is an archive of files, nil for any other one.
func (s *source) container() func(*source) {
	if s.w.words {
		return nil
	}
	head := s.w.chunk()
	if len(head) < tarMagicAt+len(tarMagic) && s.mayBeTar(head) {
		head = s.w.peek(tarBlock)
	}
	var unpack func(*source)
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		unpack = (*source).zip
	case len(head) >= tarMagicAt+len(tarMagic) && string(head[tarMagicAt:][:len(tarMagic)]) == tarMagic:
		unpack = (*source).tar
	default:
		return nil
	}
	if s.within {
		return func(s *source) {
			s.skip(0, s.key, &Skip{Reason: "archive within an archive", Detail: "unpack the outer one and name the folder", Document: true})
		}
	}
	return unpack
}

const (
	tarMagic   = "ustar"
	tarMagicAt = 257
	tarBlock   = 512
)

// mayBeTar says whether to wait for more of a file than its head, which is too short to tell. What has another
// form is not waited for: the input may be slow.
func (s *source) mayBeTar(head []byte) bool {
	base := strings.ToLower(path.Base(s.name))
	named := strings.Contains(base, ".tar") || strings.HasSuffix(base, ".tgz") || s.within
	return named || bytes.IndexByte(head, 0) >= 0 || s.opts.Format == Detect && formatByStart(s.name, head) == Detect
}

// entry reads a file within an archive of files.
func (s *source) entry(name string, r io.Reader, size int64) {
	file := &countedFile{ctx: s.ctx, r: struct{ io.Reader }{r}, size: max(size, -1), progress: new(atomic.Int64)}
	key := s.entryKey(name)
	name = s.name + "/" + name
	within := &source{run: s.run, name: name, key: key, within: true, w: s.opts.open(name, file)}
	within.records()
}

// passEntry sends the skip of an entry that is not read. It is false when to stop.
func (s *source) passEntry(name string, skip *Skip) bool {
	return s.skip(s.w.pos, s.entryKey(name), skip)
}

func badEntry(reason string, err error) *Skip {
	return &Skip{Reason: reason, Detail: err.Error(), Document: true, Broken: true, Err: err}
}

func isHidden(name string) bool {
	return strings.HasPrefix(name, "__MACOSX/") || slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		return strings.HasPrefix(part, ".") && part != "." && part != ".."
	})
}

// zip reads the files in a zip file; in a WACZ file, its web archives only.
func (s *source) zip() {
	file, ok := s.w.src.file.r.(io.ReaderAt)
	size := s.w.src.file.size
	if !ok || s.w.compressed() || size < 0 {
		s.skip(0, s.key, &Skip{Reason: "zip that is no file", Detail: "its directory is at its end: save it as a file, not compressed again, or unpack it", Document: true})
		return
	}
	directory := &limitedReaderAt{r: file, left: maxDirectory}
	z, err := zip.NewReader(directory, size)
	if err != nil {
		s.skip(0, s.key, badEntry("bad zip", err))
		return
	}
	directory.left = -1
	stored, crawls := uint64(0), make(crawlNames)
	for _, f := range z.File {
		if f.Name == "[Content_Types].xml" || f.Name == "mimetype" { // its parts are no documents each
			s.skip(0, s.key, &Skip{Reason: "not supported: office document", Detail: "take the text out of it: pandoc -t plain -o FILE.txt FILE", Document: true, Unrecognized: true})
			return
		}
		crawls.add(f.Name)
		if stored += min(f.CompressedSize64, uint64(size)+1); stored > uint64(size) {
			s.skip(0, s.key, badEntry("bad zip", errors.New("its entries are larger than the file: they overlap")))
			return
		}
	}
	for _, f := range z.File {
		if s.stopped || !s.zipEntry(f, crawls) {
			return
		}
		s.done.Add(int64(f.CompressedSize64))
	}
}

// zipEntry reads a file in a zip file. It is false when to stop.
func (s *source) zipEntry(f *zip.File, crawls crawlNames) bool {
	switch {
	case strings.HasSuffix(f.Name, "/"):
		return true
	case isHidden(f.Name):
		return s.passEntry(f.Name, &Skip{Reason: "hidden file", PassedOver: true})
	case crawls.repeat(f.Name):
		return s.passEntry(f.Name, notArchive())
	case f.Mode().Type() == fs.ModeSymlink: // what it holds is a name
		return s.passEntry(f.Name, &Skip{Reason: "link", Document: true})
	case !f.Mode().IsRegular():
		return s.passEntry(f.Name, &Skip{Reason: "not a regular file"})
	case f.Flags&1 != 0:
		return s.passEntry(f.Name, &Skip{Reason: "encrypted", Detail: "unpack it with its password", Document: true})
	}
	r, err := f.Open()
	if err != nil {
		return s.passEntry(f.Name, badEntry("bad zip", err))
	}
	defer r.Close()
	s.entry(f.Name, r, int64(f.UncompressedSize64))
	return !s.stopped
}

// crawlNames finds the folders in an archive of files that are laid out as a WACZ file, as isCrawlFolder does in
// a file system. The root of a WACZ file that was unpacked and zipped again is such a folder.
type crawlNames map[string]struct{ archives, repeats bool }

// add adds the name of an entry.
func (c crawlNames) add(name string) {
	matches := func(pattern string) bool { is, _ := path.Match(pattern, path.Base(name)); return is }
	name = path.Clean(name)
	root := path.Dir(name)
	parent := path.Base(root)
	isArchive := parent == "archive" && matches("*.warc*")
	inFolder := parent == "pages" && matches("*.jsonl") || parent == "indexes" && (matches("*.cdx*") || matches("*.idx"))
	if isArchive || inFolder {
		root = path.Dir(root)
	}
	found := c[root]
	found.archives = found.archives || isArchive
	found.repeats = found.repeats || inFolder || matches("datapackage.json")
	if found.archives || found.repeats {
		c[root] = found
	}
}

// repeat reports whether an entry is in the folder of a crawl, and not one of its web archives.
func (c crawlNames) repeat(name string) bool {
	name = path.Clean(name)
	for root := path.Dir(name); ; root = path.Dir(root) {
		if found := c[root]; found.archives && found.repeats {
			return !strings.HasPrefix(strings.TrimPrefix(name, root+"/"), "archive/")
		}
		if root == "." || root == "/" {
			return false
		}
	}
}

// limitedReaderAt reads so many bytes at most; any number if it is negative.
type limitedReaderAt struct {
	r    io.ReaderAt
	left int64
}

func (l *limitedReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if l.left >= 0 {
		if int64(len(p)) > l.left {
			return 0, errors.New("its directory is too large: unpack it and name the folder")
		}
		l.left -= int64(len(p))
	}
	n, err := l.r.ReadAt(p, offset)
	// archive/zip makes room for as many entries as the end of the directory says.
	if l.left >= 0 && len(p) == zip64EndBytes && bytes.HasPrefix(p, []byte("PK\x06\x06")) && binary.LittleEndian.Uint64(p[32:]) > maxDirectory/minEntry {
		return 0, errors.New("its directory is too large: unpack it and name the folder")
	}
	return n, err
}

const (
	zip64EndBytes = 56 // of the record with the number of entries in its bytes from 32 on
	minEntry      = 46
)

// tar reads the files in a tar file.
func (s *source) tar() {
	in := &zeroCounter{Reader: s.w}
	t := tar.NewReader(in)
	crawls := make(crawlNames)
	for next := int64(0); ; { // where the next header is, or the end
		h, err := t.Next()
		if errors.Is(err, context.Canceled) || s.ctx.Err() != nil {
			return
		}
		switch c := s.w.corruption(); {
		case err == nil:
		case c != nil:
			s.skip(s.w.pos, "", c.skip())
			return
		case err != io.EOF:
			s.skip(s.w.pos, "", badEntry("bad tar", err))
			return
		case in.zeros < tarBlock || s.w.pos < next+tarBlock: // a file may end with zeros too
			s.skip(s.w.pos, "", badEntry("truncated tar", errNoTarEnd))
			return
		default:
			s.behindTar()
			return
		}
		next = s.w.pos
		if h.Typeflag == tar.TypeReg && !isSparse(h) { // of a sparse file it is not known how much is stored
			next += h.Size
		}
		next = (next + tarBlock - 1) / tarBlock * tarBlock
		crawls.add(h.Name)
		if crawls.repeat(h.Name) && h.Typeflag == tar.TypeReg {
			if !s.passEntry(h.Name, notArchive()) {
				return
			}
		} else if !s.tarEntry(h, t) {
			return
		}
	}
}

// behindTar reads what stands behind the zeros that end a tar file: nothing, as a rule, and the checksum of a
// compressed one.
func (s *source) behindTar() {
	s.w.skip("\x00")
	at := s.w.pos
	for c := s.w.chunk(); len(c) > 0; c = s.w.chunk() {
		s.w.advance(len(c))
	}
	if c := s.w.corruption(); c != nil {
		s.skip(at, "", c.skip())
	} else if n := s.w.pos - at; n > 0 {
		s.skip(at, "", &Skip{Reason: "behind the end of a tar", Detail: fmt.Sprintf("%d bytes passed over; if they are another tar file, give each as a file of its own", n), Document: true})
	}
}

// errNoTarEnd: POSIX ends a tar file with two blocks of zeros; one will do.
var errNoTarEnd = errors.New("it is cut off: the block of zeros that ends it is missing")

// zeroCounter counts the zeros that what was read ends with.
type zeroCounter struct {
	io.Reader
	zeros int
}

func (z *zeroCounter) Read(p []byte) (int, error) {
	n, err := z.Reader.Read(p)
	if rest := len(bytes.TrimRight(p[:n], "\x00")); rest > 0 {
		z.zeros = n - rest
	} else {
		z.zeros += n
	}
	return n, err
}

func isSparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// tarEntry reads a file in a tar file. It is false when to stop.
func (s *source) tarEntry(h *tar.Header, content io.Reader) bool {
	switch {
	case h.Typeflag == tar.TypeDir:
		return true
	case isHidden(h.Name):
		return s.passEntry(h.Name, &Skip{Reason: "hidden file", PassedOver: true})
	case h.Typeflag == tar.TypeLink || h.Typeflag == tar.TypeSymlink:
		return s.passEntry(h.Name, &Skip{Reason: "link", Document: true})
	case isSparse(h): // its holes may be of any length, and cost nothing
		return s.passEntry(h.Name, &Skip{Reason: "sparse file", Detail: "unpack it and name the folder", Document: true})
	case h.Typeflag != tar.TypeReg:
		return s.passEntry(h.Name, &Skip{Reason: "not a regular file"})
	}
	s.entry(h.Name, content, h.Size)
	return !s.stopped
}
