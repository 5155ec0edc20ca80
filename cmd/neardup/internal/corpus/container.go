package corpus

import (
	"archive/tar"
	"archive/zip"
	"bytes"
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

// maxDirectory bounds the directory of a zip file, which is read into memory. Its entries need
// about three times as much memory.
const maxDirectory = 16 << 20

const (
	tarMagic   = "ustar"
	tarMagicAt = 257
	tarBlock   = 512
)

// container returns the function that reads an archive of files, or nil for another file.
func (s *source) container() func(*source) {
	if s.w.words {
		return nil
	}
	head := s.w.chunk()
	// If the first bytes suffice, do not wait for more: the input may be slow.
	if bytes.IndexByte(head, 0) >= 0 || s.opts.Format == Detect &&
		formatByStart(s.name, head) == Detect {
		head = s.w.peek(tarBlock)
	}
	var unpack func(*source)
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		unpack = (*source).zip
	case len(head) > tarMagicAt && bytes.HasPrefix(head[tarMagicAt:], []byte(tarMagic)):
		unpack = (*source).tar
	default:
		return nil
	}
	if s.within {
		return func(s *source) {
			s.skip(0, s.key, &Skip{Reason: "archive within an archive", Document: true,
				Detail: "unpack the outer archive, and pass the folder"})
		}
	}
	return unpack
}

// entry reads a file in an archive of files.
func (s *source) entry(name string, r io.Reader, size int64) {
	file := &countedFile{ctx: s.ctx, r: r, size: max(size, -1),
		progress: new(atomic.Int64)}
	key := s.entryKey(name)
	name = s.name + "/" + name
	within := &source{run: s.run, name: name, key: key, within: true, w: s.opts.open(name, file)}
	within.records()
}

// skipEntry yields the skip of an entry. The source is the entry, since the archive may have
// documents. For an entry that is left out on purpose, the source is the archive.
func (s *source) skipEntry(name string, skip *Skip) {
	if skip.PassedOver {
		s.skip(s.w.pos, s.entryKey(name), skip)
		return
	}
	within := &source{run: s.run, name: s.name + "/" + name}
	within.skip(0, s.entryKey(name), skip)
}

func badEntry(reason string, err error) *Skip {
	return &Skip{Reason: reason, Detail: err.Error(), Document: true, Broken: true, Err: err}
}

// passOver returns the skip of a file that is not read because of its name or type, or nil.
func passOver(name string, mode fs.FileMode) *Skip {
	hidden := func(part string) bool {
		return part == "__MACOSX" || strings.HasPrefix(part, ".") && part != "." && part != ".."
	}
	switch {
	case slices.ContainsFunc(strings.Split(name, "/"), hidden):
		return &Skip{Reason: "hidden file", PassedOver: true}
	case mode.Type() == fs.ModeSymlink:
		return &Skip{Reason: "link", Document: true,
			Detail: "links are not followed: pass the link itself as an input"}
	case !mode.IsRegular():
		return &Skip{Reason: "not a regular file", Detail: mode.Type().String()}
	}
	return nil
}

// zip reads the files in a zip file, or the web archives in a WACZ file.
func (s *source) zip() {
	file, ok := s.w.src.file.r.(io.ReaderAt)
	size := s.w.src.file.size
	if !ok || s.w.compressed() || size < 0 {
		s.skip(0, s.key, &Skip{Reason: "zip that is not a file", Document: true,
			Detail: "its directory is at its end: save it as a file, or unpack it"})
		return
	}
	directory := &limitedReaderAt{r: file, left: maxDirectory}
	z, err := zip.NewReader(directory, size)
	if err != nil {
		s.skip(0, s.key, badEntry("bad zip", err))
		return
	}
	directory.left = -1
	stored := uint64(0)
	for _, f := range z.File {
		if f.Name == "[Content_Types].xml" || f.Name == "mimetype" {
			s.skip(0, s.key, &Skip{Reason: "not supported: office document", Document: true,
				Unrecognized: true,
				Detail:       "convert it to text: pandoc -t plain -o FILE.txt FILE"})
			return
		}
		if stored += min(f.CompressedSize64, uint64(size)+1); stored > uint64(size) {
			s.skip(0, s.key, badEntry(
				"bad zip", errors.New("its entries are larger than the file: they overlap")))
			return
		}
	}
	crawl, isCrawl := crawlIn(z.File)
	for _, f := range z.File {
		switch skip := passOver(f.Name, f.Mode()); {
		case s.stopped:
			return
		case strings.HasSuffix(f.Name, "/"):
		case isCrawl && strings.HasPrefix(f.Name, crawl) &&
			!strings.HasPrefix(f.Name, crawl+"archive/"):
			s.skipEntry(f.Name, notArchive())
		case skip != nil:
			s.skipEntry(f.Name, skip)
		case f.Flags&1 != 0:
			s.skipEntry(f.Name, &Skip{Reason: "encrypted", Detail: "unpack it with its password",
				Document: true})
		default:
			s.zipEntry(f)
		}
		s.done.Add(int64(f.CompressedSize64))
	}
}

func (s *source) zipEntry(f *zip.File) {
	r, err := f.Open()
	if err != nil {
		s.skipEntry(f.Name, badEntry("bad zip", err))
		return
	}
	defer r.Close()
	s.entry(f.Name, r, int64(f.UncompressedSize64))
}

// crawlIn returns the folder of a zip file that is laid out as a WACZ file, with its final slash. A
// WACZ file that was unpacked and packed again has its files in a folder.
func crawlIn(files []*zip.File) (folder string, ok bool) {
	for _, f := range files {
		at := strings.LastIndex("/"+f.Name, "/archive/")
		if at >= 0 && strings.Contains(path.Base(f.Name), ".warc") {
			folder, ok = f.Name[:at], true
			break
		}
	}
	return folder, ok && isCrawl(func(pattern string) bool {
		return slices.ContainsFunc(files, func(f *zip.File) bool {
			name, below := strings.CutPrefix(f.Name, folder)
			matches, _ := path.Match(pattern, name)
			return below && matches
		})
	})
}

// isCrawl reports whether a folder is laid out as a WACZ file: it has web archives in its folder
// archive, and files that repeat or describe their pages. has reports whether the folder has a file
// that matches a pattern.
func isCrawl(has func(pattern string) bool) bool {
	patterns := []string{"datapackage.json", "pages/*.jsonl", "indexes/*.cdx*", "indexes/*.idx"}
	return has("archive/*.warc*") && slices.ContainsFunc(patterns, has)
}

func notArchive() *Skip { return &Skip{Reason: "not an archive of the WACZ", PassedOver: true} }

// limitedReaderAt limits the number of bytes that are read, unless left is negative.
type limitedReaderAt struct {
	r    io.ReaderAt
	left int64
}

var errDirectory = errors.New("its directory is too large: unpack it, and pass the folder")

func (l *limitedReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if l.left >= 0 {
		if int64(len(p)) > l.left {
			return 0, errDirectory
		}
		l.left -= int64(len(p))
	}
	n, err := l.r.ReadAt(p, offset)
	// archive/zip allocates memory for the number of entries in the last record of the directory.
	const endBytes, numberAt, minEntry = 56, 32, 46
	if l.left >= 0 && len(p) == endBytes && bytes.HasPrefix(p, []byte("PK\x06\x06")) &&
		binary.LittleEndian.Uint64(p[numberAt:]) > maxDirectory/minEntry {
		return 0, errDirectory
	}
	return n, err
}

// tar reads the files in a tar file.
func (s *source) tar() {
	t := tar.NewReader(s.w)
	for !s.stopped {
		h, err := t.Next()
		switch {
		case s.ctx.Err() != nil:
			return
		case err != nil:
			s.endTar(err)
			return
		case h.Typeflag == tar.TypeDir, h.Typeflag == tar.TypeXGlobalHeader: // as git archive writes
			continue
		}
		if skip := passOverTar(h); skip != nil {
			s.skipEntry(h.Name, skip)
		} else {
			s.entry(h.Name, t, h.Size)
		}
	}
}

// passOverTar returns the skip of an entry that is not read, or nil.
func passOverTar(h *tar.Header) *Skip {
	mode := fs.ModeIrregular
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		mode = 0
	case tar.TypeLink, tar.TypeSymlink:
		mode = fs.ModeSymlink
	}
	sparse := h.Typeflag == tar.TypeGNUSparse
	for name := range h.PAXRecords {
		sparse = sparse || strings.HasPrefix(name, "GNU.sparse.")
	}
	if skip := passOver(h.Name, mode); skip != nil || !sparse {
		return skip
	}
	// The holes of a sparse file may have any length.
	return &Skip{Reason: "sparse file", Detail: "unpack the archive, and pass the folder",
		Document: true}
}

// endTar reads a tar file to the end of the file, for the checksum of a compressed file.
func (s *source) endTar(err error) {
	at, rest := s.w.pos, 0
	if err != io.EOF && s.w.corruption() == nil {
		s.skip(at, "", badEntry("bad tar", err))
		return
	}
	for c := s.w.chunk(); len(c) > 0; c = s.w.chunk() {
		rest += len(c) - bytes.Count(c, []byte{0})
		s.w.advance(len(c))
	}
	if c := s.w.corruption(); c != nil {
		s.skip(at, "", c.skip())
	} else if rest > 0 {
		s.skip(at, "", &Skip{Reason: "data after the end of a tar", Document: true,
			Detail: fmt.Sprintf(
				"%d bytes; pass another tar file as a file of its own", s.w.pos-at)})
	}
}
