package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// source is the file that is being read.
type source struct {
	*run
	name   string
	key    string // of the file as one document; "" for standard input and pipes
	within bool   // the file is in an archive of files
	w      *lookahead
	number int64 // of the last record
}

// open returns the lookahead of a file. Fingerprints of 8 bytes may begin with any bytes, so a file
// of them is compressed only if its extension says so.
func (o *Options) open(name string, file *countedFile) *lookahead {
	if o.Originals {
		file.keep = int(o.MaxDocument) + httpSlack
	}
	words := o.Format == U64LE || o.Format == Detect && formatByName(name) == U64LE
	plain := words && !slices.Contains(compressions, path.Ext(strings.ToLower(name)))
	return newLookahead(newDecompressor(file, plain), words)
}

// send yields a complete record. It returns false if the run must stop.
func (s *source) send(rec *Record) bool { return s.sendRaw(&RawRecord{record: *rec}) }

// sendRaw yields a record that is not parsed. It returns false if the run must stop.
func (s *source) sendRaw(u *RawRecord) bool {
	if s.ctx.Err() != nil { // the context ended the file
		return false
	}
	s.number++
	u.record.Source, u.record.Number = s.name, s.number
	return s.emit(u)
}

// skip yields a skip. It returns false if the run must stop.
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
			f.read(s)
		}
	}
	if s.number == 0 { // the caller counts files by their records
		s.skip(0, s.key, &Skip{Reason: noRecords})
	}
}

// noRecords is the skip reason of a file without records.
const noRecords = "no records"

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

// entryKey returns the key of a document that is an entry of an archive of files. A name with ".."
// cannot leave the archive.
func (s *source) entryKey(name string) string {
	if s.key == "" {
		return ""
	}
	return s.key + path.Clean("/"+name)
}

// ErrNoOriginals is matched by the error for a file whose format is not in OriginalFormats, or is
// not the format of the first file.
var ErrNoOriginals = errors.New("its records cannot be passed through")

// CheckOriginals checks the files before the run. It returns an error that matches ErrNoOriginals
// if their formats would end the run, and another error if one of the files is the output. It does
// not check standard input, pipes and the files in archives.
func (r *Reader) CheckOriginals(ctx context.Context, output os.FileInfo) error {
	ahead := &Reader{opts: r.opts}
	ahead.opts.Output = nil // here, the output file is also an error in a folder
	for _, input := range r.inputs {
		if input == "-" && isFile(r.opts.Stdin, output) {
			return fmt.Errorf("input: %s: %w", input, errIsOutput)
		}
		if !IsStream(input) {
			ahead.inputs = append(ahead.inputs, input)
		}
	}
	run := &run{Reader: ahead, ctx: ctx, yield: func(*RawRecord) bool { return true }}
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

// IsStream reports whether an input is neither a regular file nor a folder, so that it can be read
// only once.
func IsStream(input string) bool {
	info, err := os.Stat(input)
	return input == "-" || err != nil || !info.Mode().IsRegular() && !info.IsDir()
}

var errIsOutput = errors.New("the output is the same file")

// isFile reports whether r is the file with the given info.
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

// accept ends the run and returns false if the format is not in OriginalFormats, or if an earlier
// file has another format.
func (s *source) accept(format Format) bool {
	if !s.opts.Originals {
		return true
	}
	if format == WET {
		format = WARC
	}
	switch {
	case !slices.Contains(OriginalFormats, format):
		s.refuse(fmt.Errorf("input: %s: %w: its format is %s", s.name, ErrNoOriginals, format))
	case s.first != "" && s.first != format:
		s.refuse(fmt.Errorf(
			"input: %s: %w: its format is %s, and the format of the first input is %s",
			s.name, ErrNoOriginals, format, s.first))
	default:
		s.first = format
	}
	return !s.stopped
}
