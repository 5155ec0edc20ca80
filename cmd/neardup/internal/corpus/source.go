package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// source is one file that is being read.
type source struct {
	*run
	name   string
	key    string // of the file as one document; "" for standard input and pipes
	within bool   // an archive of files
	w      *lookahead
	number int64
}

// send completes a record and hands it over. It is false when to stop.
func (s *source) send(rec *Record) bool { return s.sendRaw(&RawRecord{record: *rec}) }

// sendRaw is send for a record that parse has still to set.
func (s *source) sendRaw(u *RawRecord) bool {
	if s.ctx.Err() != nil { // what ended the file was the context
		return false
	}
	s.number++
	u.record.Source, u.record.Number = s.name, s.number
	return s.emit(u)
}

// skip sends a record that is none.
func (s *source) skip(offset int64, key string, skip *Skip) bool {
	return s.send(&Record{Offset: offset, Key: key, Skip: skip})
}

// records reads the file as records.
func (s *source) records() {
	if unpack := s.container(); unpack != nil {
		unpack(s)
		return
	}
	format, problem := s.format()
	if problem != nil {
		s.skip(0, s.key, problem)
		return
	}
	if !s.accept(format) {
		return
	}
	for _, f := range formats {
		if f.name == format {
			f.read(s) // archive, jsonLines, wholeFile or a list
		}
	}
	if s.number == 0 { // the caller counts and names the file by its records
		s.skip(0, s.key, &Skip{Reason: noRecords})
	}
}

// noRecords is the reason of the skip that stands for a file without records.
const noRecords = "no records"

// format is that which is forced, or found.
func (s *source) format() (Format, *Skip) {
	if s.opts.Format != Detect {
		return s.opts.Format, nil
	}
	return s.detect()
}

// ErrNoOriginals is matched by the error about a file of which Options.Originals has no use.
var ErrNoOriginals = errors.New("its records cannot be passed through")

// CheckOriginals is the error that the formats of files will end the run with, as far as can be
// known before: not of standard input, pipes and what is within an archive of files. It is one
// too if a file is the output, by what os.SameFile says: it would never end.
func (r *Reader) CheckOriginals(ctx context.Context, output os.FileInfo) error {
	ahead := &Reader{opts: r.opts}
	ahead.opts.Output = nil // here it is an error in a folder too
	for _, input := range r.inputs {
		if input == "-" && isFile(r.opts.Stdin, output) {
			return fmt.Errorf("input: %s: %w", input, errIsOutput)
		}
		if !IsStream(input) {
			ahead.inputs = append(ahead.inputs, input)
		}
	}
	ahead.totals = make([]Totals, len(ahead.inputs))
	run := &run{Reader: ahead, ctx: ctx, give: func(*RawRecord) bool { return true }}
	run.read = func(s *source) {
		if isFile(s.w.src.file.r, output) {
			s.refuse(fmt.Errorf("input: %s: %w", s.name, errIsOutput))
		} else if s.container() == nil {
			if format, problem := s.format(); problem == nil {
				s.accept(format)
			}
		}
	}
	return run.readAll()
}

// IsStream says whether an input is neither a file nor a folder: it can be read once, and comes when its
// writer likes.
func IsStream(input string) bool {
	info, err := os.Stat(input)
	return input == "-" || err != nil || !info.Mode().IsRegular() && !info.IsDir()
}

var errIsOutput = errors.New("the output is the same file")

// isFile says whether r reads a file of which info is.
func isFile(r io.Reader, info os.FileInfo) bool {
	file, ok := r.(*os.File)
	if !ok || info == nil {
		return false
	}
	its, err := file.Stat()
	return err == nil && its.Mode().IsRegular() && os.SameFile(its, info)
}

// refuse ends the run with an error.
func (r *run) refuse(err error) { r.refused, r.stopped = err, true }

// accept ends the run, and is false, where records are asked for as they stand in their files
// and this file has none such.
func (s *source) accept(format Format) bool {
	if s.opts.Originals == nil {
		return true
	}
	if format == WET {
		format = WARC
	}
	switch {
	case !slices.Contains(s.opts.Originals, format):
		s.refuse(fmt.Errorf("input: %s: %w: its format is %s", s.name, ErrNoOriginals, format))
	case s.first != "" && s.first != format:
		s.refuse(fmt.Errorf("input: %s: %w: its format is %s, that of the inputs before it is %s", s.name, ErrNoOriginals, format, s.first))
	default:
		s.first = format
	}
	return !s.stopped
}

// wholeFile reads a file that is one document.
func (s *source) wholeFile(kind Kind) {
	limit, size := s.opts.MaxDocument, int64(0)
	content, _, over := s.w.cut(nil, int(limit), func(c []byte) (int, bool) {
		size += int64(len(c))
		return len(c), size > limit
	})
	switch c := s.w.corruption(); {
	case over:
		s.skip(0, s.key, tooLarge(limit))
	case c != nil:
		s.skip(0, s.key, c.skip())
	case size == 0:
		s.skip(0, s.key, &Skip{Reason: "empty", Document: true})
	default:
		rec := &Record{Key: s.key, Kind: kind, Content: content}
		if s.w.utf16 {
			rec.ContentType = utf8Type[kind]
		}
		s.send(rec)
	}
}

// open returns the lookahead of a file. Fingerprints of 8 bytes may begin with any bytes, so a file
// of them is compressed only if its extension says so.
func (o *Options) open(name string, file *countedFile) *lookahead {
	if slices.Contains(o.Originals, WARC) {
		file.keep = int(o.MaxDocument) + httpSlack
	}
	words := o.Format == U64LE || o.Format == Detect && formatByName(name) == U64LE
	plain := words && !slices.Contains(compressions, path.Ext(strings.ToLower(name)))
	return newLookahead(newDecompressor(file, plain), words)
}

// entryKey returns the key of an entry of an archive of files as one document: no name leads out of
// the archive.
func (s *source) entryKey(name string) string {
	if s.key == "" {
		return ""
	}
	return s.key + path.Clean("/"+name)
}

// pathKey returns the key of a document that is a whole file: its absolute path, cleaned, with
// slashes. A relative path would be the key of another file in another working directory.
func pathKey(name string) string {
	absolute, err := filepath.Abs(filepath.FromSlash(name))
	if err != nil {
		return "" // the working directory does not exist any more
	}
	return filepath.ToSlash(absolute)
}

// found is a file below a folder, or what cannot be read there.
type found struct {
	name string // the path as given, with slashes
	path string
	size int64
	skip *Skip // why it is no file to be read
}

// walk visits the files in a folder and below it, each folder sorted by name. Links are not followed: one may
// lead out of the folder, to files that its owner did not mean to be read, or round in a circle. It passes over
// names that begin with a dot, the folders of indexes and, in the folder of a crawl, all but its web archives.
func walk(ctx context.Context, folder string, visit func(found) error) error {
	root, err := filepath.EvalSymlinks(folder) // one that was named is followed
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	if isDatabase(entries) {
		return fmt.Errorf("%s is an index, and holds no documents to read: \"neardup export\" prints the stored documents", folder)
	}
	return walkEntries(ctx, found{path: root, name: strings.TrimSuffix(filepath.ToSlash(folder), "/")}, entries, visit)
}

// walkEntries visits the entries of a folder and the files below them.
func walkEntries(ctx context.Context, folder found, entries []fs.DirEntry, visit func(found) error) error {
	crawl := isCrawlFolder(folder.path)
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := found{path: filepath.Join(folder.path, entry.Name()), name: folder.name + "/" + entry.Name()}
		switch {
		case strings.HasPrefix(entry.Name(), "."):
			f.skip = &Skip{Reason: "hidden file", PassedOver: true}
		case crawl && (!entry.IsDir() || entry.Name() != "archive"):
			f.skip = notArchive()
		case entry.IsDir():
			below, err := os.ReadDir(f.path)
			switch {
			case err != nil:
				f.skip = cannotOpen(err)
			case isDatabase(below):
				f.skip = &Skip{Reason: "folder of an index", PassedOver: true}
			default:
				if err := walkEntries(ctx, f, below, visit); err != nil {
					return err
				}
				continue
			}
		case entry.Type() == fs.ModeSymlink:
			f.skip = &Skip{Reason: "link", Document: true, Detail: "links in a folder are not followed: name the link itself as an input"}
		case !entry.Type().IsRegular():
			f.skip = &Skip{Reason: "not a regular file", Detail: entry.Type().String()}
		default:
			info, err := entry.Info()
			if err != nil {
				f.skip = cannotOpen(err)
				break
			}
			f.size = info.Size()
		}
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// isCrawlFolder reports whether a folder is laid out as a WACZ file: with web archives in the folder archive,
// and with pages and indexes that repeat what these hold.
func isCrawlFolder(folder string) bool {
	has := func(pattern string) bool {
		names, err := fs.Glob(os.DirFS(folder), pattern)
		return err == nil && len(names) > 0
	}
	return has("archive/*.warc*") && slices.ContainsFunc(crawlFiles, has)
}

// crawlFiles are the files of a WACZ file that tell it from other folders with web archives, as patterns.
var crawlFiles = []string{"datapackage.json", "pages/*.jsonl", "indexes/*.cdx*", "indexes/*.idx"}

func notArchive() *Skip { return &Skip{Reason: "no archive of the WACZ", PassedOver: true} }

// isDatabase reports whether the entries of a folder are the files of an index. The index may be open, so its
// files may disappear.
func isDatabase(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "marker.manifest.") })
}

func cannotOpen(err error) *Skip {
	return &Skip{Reason: "cannot be opened", Detail: err.Error(), Document: true, Broken: true, Err: err}
}
