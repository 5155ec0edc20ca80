package beam

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local" // files without a scheme
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/neardup/neardup/fingerprint"
)

func init() {
	beam.RegisterDoFn(&divide{})
	beam.RegisterDoFn(&read{})
	register.DoFn3x1[context.Context, string, func(int, []byte), error](&gatherLines{})
	beam.RegisterDoFn(&writeFile{})
	register.Function2x0(everyFile)
	register.Function1x1(pairLine)
	register.Function1x1(memberLine)
	register.Function1x1(matchLine)
	register.Emitter1[shard]()
	register.Emitter1[Batch]()
}

// Format is the format of a file of fingerprints.
type Format string

const (
	U64LE Format = "u64le" // 8 bytes per fingerprint, little-endian
	// one per line, as fingerprint.Parse reads it; text after a tab is ignored
	Lines Format = "fingerprints"
	JSONL Format = "jsonl" // one object per line with the string field "fingerprint"
)

// ErrFormat means that a format is unknown, or that a file does not have the given format.
var ErrFormat = errors.New("beam: wrong format")

// Read reads the fingerprints of files as a PCollection<Batch>. A name may be a pattern. It may
// have a scheme if the program imports the package of beam/io/filesystem for it. Files are read in
// parts of 32 MiB if their file system supports seeking, or else as a whole. They are not
// decompressed. A value that is not a fingerprint fails the pipeline with the file and the offset.
// A pattern without a file also fails the pipeline.
func Read(s beam.Scope, format Format, files ...string) beam.PCollection {
	switch format {
	case U64LE, Lines, JSONL:
	default:
		panic(fmt.Errorf("%w: %q is neither %s, %s nor %s", ErrFormat, format, U64LE, Lines, JSONL))
	}
	s = s.Scope("neardup.Read")
	matched := fileio.MatchAll(s, beam.CreateList(s, files), fileio.MatchEmptyDisallow())
	shards := beam.ParDo(s, &divide{Format: format, Length: 32 << 20}, matched)
	return beam.ParDo(s, &read{}, beam.Reshuffle(s, shards))
}

// shard is a part of a file: the records that begin in it.
type shard struct {
	File          string
	Format        Format
	Offset, Limit int64
}

// divide emits the parts of a file.
type divide struct {
	Format Format
	Length int64 // the length of a part in bytes, a multiple of 8
}

func (d *divide) ProcessElement(
	ctx context.Context, file fileio.FileMetadata, emit func(shard),
) error {
	if d.Format == U64LE && file.Size%8 != 0 {
		return fmt.Errorf("%w: %s has %d bytes, want a multiple of 8", ErrFormat, file.Path,
			file.Size)
	}
	in, err := open(ctx, file.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	length := d.Length
	if _, seeks := in.(io.Seeker); !seeks {
		length = max(file.Size, 1)
	}
	for offset := int64(0); offset < file.Size; offset += length {
		emit(shard{file.Path, d.Format, offset, min(offset+length, file.Size)})
	}
	return nil
}

func open(ctx context.Context, file string) (io.ReadCloser, error) {
	fs, err := filesystem.New(ctx, file)
	if err != nil {
		return nil, err
	}
	defer fs.Close()
	return fs.OpenRead(ctx, file)
}

// read reads parts of files.
type read struct{}

func (*read) ProcessElement(ctx context.Context, part shard, emit func(Batch)) error {
	file, err := open(ctx, part.File)
	if err != nil {
		return err
	}
	defer file.Close()
	start := part.Offset
	if part.Format != U64LE && start > 0 {
		start-- // the end of the previous line
	}
	if start > 0 {
		if _, err := file.(io.Seeker).Seek(start, io.SeekStart); err != nil {
			return err
		}
	}
	in := bufio.NewReaderSize(file, maxLine)
	if part.Format == U64LE {
		err = readNumbers(in, part, emit)
	} else {
		err = readLines(in, start, part, emit)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", part.File, err)
	}
	return nil
}

// batchLen is the number of fingerprints per Batch.
const batchLen = 1 << 16

func readNumbers(in io.Reader, part shard, emit func(Batch)) error {
	data := make([]byte, 8*batchLen)
	for at := part.Offset; at < part.Limit; {
		data = data[:min(int64(len(data)), part.Limit-at)]
		if _, err := io.ReadFull(in, data); err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		fps, _ := unpacked(data)
		emit(Batch{fps})
		at += int64(len(data))
	}
	return nil
}

// maxLine is the length of the longest allowed line, in bytes.
const maxLine = 1 << 20

// readLines reads the lines that begin in a part.
func readLines(in *bufio.Reader, at int64, part shard, emit func(Batch)) error {
	var fps []fp
	for at < part.Limit {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("%w: the line at %d has more than %d bytes", ErrFormat, at, maxLine)
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("at %d: %w", at, err)
		}
		if text := bytes.TrimRight(line, "\r\n"); at >= part.Offset && len(text) > 0 {
			f, err := parseLine(text, part.Format)
			if err != nil {
				return fmt.Errorf("%w: the line at %d: %w", ErrFormat, at, err)
			}
			if fps = append(fps, f); len(fps) == batchLen {
				emit(Batch{fps})
				fps = nil
			}
		}
		if at += int64(len(line)); err == io.EOF {
			break
		}
	}
	if len(fps) > 0 {
		emit(Batch{fps})
	}
	return nil
}

func parseLine(line []byte, format Format) (fp, error) {
	if format == JSONL {
		var object struct{ Fingerprint *fp }
		if err := json.Unmarshal(line, &object); err != nil {
			return 0, err
		}
		if object.Fingerprint == nil {
			return 0, errors.New(`no "fingerprint"`)
		}
		return *object.Fingerprint, nil
	}
	text, _, _ := bytes.Cut(line, []byte{'\t'})
	return fingerprint.Parse(string(text))
}

// JSON encodes each Pair, Member or Match of a PCollection as a line of JSON, in a
// PCollection<string>. The line of a Pair has the fields of `neardup pairs` without IDs, keys
// and numbers of documents.
func JSON(s beam.Scope, found beam.PCollection) beam.PCollection {
	switch found.Type().Type() {
	case reflect.TypeFor[Pair]():
		return beam.ParDo(s, pairLine, found)
	case reflect.TypeFor[Member]():
		return beam.ParDo(s, memberLine, found)
	}
	return beam.ParDo(s, matchLine, found)
}

func pairLine(p Pair) string {
	return fmt.Sprintf(`{"first":{"fingerprint":"%v"},"second":{"fingerprint":"%v"},"distance":%d}`,
		p.First, p.Second, p.Distance())
}

func memberLine(m Member) string {
	return fmt.Sprintf(`{"cluster":"%v","fingerprint":"%v"}`, m.Cluster, m.Fingerprint)
}

func matchLine(m Match) string {
	return fmt.Sprintf(`{"query":"%v","found":"%v","distance":%d}`, m.Query, m.Found,
		m.Query.Distance(m.Found))
}

// Write writes the lines of a PCollection<string> to files, in no particular order: to one file
// with the name, or to several files with the suffixes -00000-of-00004 and so on. It writes all
// files, also empty ones, and overwrites existing files.
func Write(s beam.Scope, name string, files int, lines beam.PCollection) {
	if files < 1 {
		panic(fmt.Errorf("%w: %d files", ErrOptions, files))
	}
	s = s.Scope("neardup.Write")
	blobs := beam.ParDo(s, &gatherLines{Files: files}, lines)
	empty := beam.ParDo(s, everyFile, beam.Create(s, files))
	beam.ParDo0(s, &writeFile{Name: name, Files: files},
		beam.GroupByKey(s, beam.Flatten(s, blobs, empty)))
}

// everyFile emits each file once, so that files without lines are written too.
func everyFile(files int, emit func(int, []byte)) {
	for file := range files {
		emit(file, nil)
	}
}

// gatherLines collects the lines of a bundle for each file.
type gatherLines struct {
	Files int
	lines []byte
}

func (g *gatherLines) StartBundle(context.Context, func(int, []byte)) error {
	g.lines = nil
	return nil
}

func (g *gatherLines) ProcessElement(_ context.Context, line string, emit func(int, []byte)) error {
	if g.lines = append(append(g.lines, line...), '\n'); len(g.lines) >= 1<<20 {
		g.flush(emit)
	}
	return nil
}

func (g *gatherLines) FinishBundle(_ context.Context, emit func(int, []byte)) error {
	g.flush(emit)
	return nil
}

func (g *gatherLines) flush(emit func(int, []byte)) {
	if len(g.lines) > 0 {
		emit(int(crc32.ChecksumIEEE(g.lines)%uint32(g.Files)), g.lines)
	}
	g.lines = nil
}

// writeFile writes one whole file, so that the runner can repeat the step.
type writeFile struct {
	Name  string
	Files int
}

func (w *writeFile) ProcessElement(
	ctx context.Context, number int, blobs func(*[]byte) bool,
) (err error) {
	name := w.Name
	if w.Files > 1 {
		name = fmt.Sprintf("%s-%05d-of-%05d", name, number, w.Files)
	}
	fs, err := filesystem.New(ctx, name)
	if err != nil {
		return err
	}
	defer fs.Close()
	file, err := fs.OpenWrite(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var blob []byte
	for blobs(&blob) {
		if _, err := file.Write(blob); err != nil {
			return err
		}
	}
	return nil
}
