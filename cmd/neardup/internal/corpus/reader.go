package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// Reader reads inputs one after the other. Call either RawRecords or Chunks, once. The other
// methods are safe for concurrent use.
type Reader struct {
	inputs []string
	opts   Options

	done  atomic.Int64 // bytes read
	total atomic.Int64 // bytes of all files; -1 if unknown

	mu     sync.Mutex
	totals Totals
	broken Record // the first record with a broken Skip
	places int64  // number of such records
}

// New returns a reader of inputs: files, folders with all files below them, or "-" for standard
// input. It opens none of them, but returns an error if an input does not exist.
func New(inputs []string, opts Options) (*Reader, error) {
	r := &Reader{inputs: inputs, opts: opts.withDefaults(),
		totals: Totals{Skipped: make(map[string]int64)}}
	r.total.Store(-1)
	for _, input := range inputs {
		if input == "-" {
			continue
		}
		if _, err := os.Stat(input); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
	}
	return r, nil
}

// Progress returns the number of bytes read from the files, before decompression, and the size of
// all files. The size is -1 before Measure returns, and if an input is standard input or a pipe.
func (r *Reader) Progress() (read, total int64) { return r.done.Load(), r.total.Load() }

// Measure determines the size of all files for Progress.
func (r *Reader) Measure(ctx context.Context) error {
	var total int64
	for _, input := range r.inputs {
		info, err := os.Stat(input)
		switch {
		case input == "-":
			return nil
		case err != nil:
			return fmt.Errorf("input: %w", err)
		case info.Mode().IsRegular():
			total += info.Size()
		case !info.IsDir():
			return nil
		default:
			err := walk(ctx, input, func(f found) error {
				total += f.size
				return nil
			})
			if err != nil {
				return fmt.Errorf("input: %w", err)
			}
		}
	}
	r.total.Store(total)
	return nil
}

const (
	// maxReasons bounds the number of reasons that are counted separately. Reasons quote media
	// types, which the input chooses.
	maxReasons = 200
	// otherReasons counts skips beyond maxReasons.
	otherReasons = "other reasons"
)

// Totals counts the records of all inputs. Records is the sum of Documents and of Skipped.
type Totals struct {
	Files     int64            // opened files, including standard input
	Records   int64            // all records
	Documents int64            // records without a Skip
	Skipped   map[string]int64 // skips by reason
	Malformed string           // source of the first BadJSON or BadFingerprint
	// Unrecognized is the error of the first input whose format is not recognized, or nil. It does
	// not include files in folders.
	Unrecognized error
	Repaired     int64 // WARC records with a wrong Content-Length
}

// Totals returns the counts so far.
func (r *Reader) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	totals := r.totals
	totals.Skipped = maps.Clone(totals.Skipped)
	return totals
}

// count counts documents and skips.
func (r *Reader) count(documents int, skips ...Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.totals
	t.Records += int64(documents + len(skips))
	t.Documents += int64(documents)
	for _, rec := range skips {
		reason := rec.Skip.Reason
		CountReason(t.Skipped, reason)
		if t.Malformed == "" && (reason == BadJSON || reason == BadFingerprint) {
			t.Malformed = rec.Source
		}
		if rec.Skip.Unrecognized && t.Unrecognized == nil && slices.Contains(r.inputs, rec.Source) {
			t.Unrecognized = fmt.Errorf("%s: %w", rec.Source, rec.Skip)
		}
		if rec.Skip.Broken {
			if r.places++; r.places == 1 {
				r.broken = rec
			}
		}
	}
}

// CountReason counts a skip by its reason. The number of reasons is bounded.
func CountReason(counts map[string]int64, reason string) {
	if counts[reason] == 0 && len(counts) >= maxReasons {
		reason = otherReasons
	}
	counts[reason]++
}

// ErrBroken is matched by the error of Reader.Broken.
var ErrBroken = errors.New("broken input")

// Broken returns an error that matches ErrBroken if an input is damaged or cannot be read. The
// error has the first such place so far and the number of places. Each place is also a skip.
// Otherwise Broken returns nil.
func (r *Reader) Broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places == 0 {
		return nil
	}
	more := ""
	if r.places > 1 {
		more = fmt.Sprintf(" (and in %d more places)", r.places-1)
	}
	return fmt.Errorf("%w: %s byte %d: %w%s", ErrBroken, r.broken.Source, r.broken.Offset,
		r.broken.Skip, more)
}

// MissingFields returns the names in Options.Fields that no record has had so far, each with its
// flag.
func (r *Reader) MissingFields() (missing []string) {
	named := &r.opts.Fields
	for _, f := range []struct {
		field      field
		flag, name string
	}{
		{keyField, "--key-field ", named.Key}, {contentField, "--content-field ", named.Content},
		{scopeField, "--scope field:", named.Scope},
	} {
		if f.name != "" && !r.opts.names.found[f.field].Load() {
			missing = append(missing, f.flag+f.name)
		}
	}
	return missing
}

// RawRecord is a record that is not parsed.
type RawRecord struct {
	record Record
	parse  func(*Record) // completes record; nil if it is complete
	bytes  int           // memory that parse uses
	reader *Reader
}

// Parse parses and counts the record. Call it once, on any goroutine. See Options.MaxDocument for
// the memory that a call needs.
func (u *RawRecord) Parse() Record {
	if u.parse != nil {
		if u.parse(&u.record); u.record.Skip != nil {
			u.record.Original = nil
		}
	}
	if u.record.Skip == nil {
		u.reader.count(1)
	} else {
		u.reader.count(0, u.record)
	}
	return u.record
}

// Place returns Record.Source and Record.Number.
func (u *RawRecord) Place() (source string, number int64) {
	return u.record.Source, u.record.Number
}

// Bytes returns the memory that the record takes until it is parsed.
func (u *RawRecord) Bytes() int { return u.bytes + cap(u.record.Content) }

// RawRecords reads all inputs. An error ends the sequence: an input that cannot be opened, the
// error of ctx, or ErrNoOriginals. Any other problem is a record with a Skip. One goroutine finds
// the ends of records, but RawRecord.Parse, which takes most of the time, may run on several.
func (r *Reader) RawRecords(ctx context.Context) iter.Seq2[*RawRecord, error] {
	return func(yield func(*RawRecord, error) bool) {
		run := &run{Reader: r, ctx: ctx, read: (*source).records}
		run.yield = func(u *RawRecord) bool { return yield(u, nil) }
		if err := run.readAll(); err != nil {
			yield(nil, err)
		}
	}
}

// run reads all inputs.
type run struct {
	*Reader
	ctx     context.Context
	read    func(*source)         // reads a file
	yield   func(*RawRecord) bool // returns false to stop the run
	stopped bool
	first   Format // of the first file, with Options.Originals
	refused error  // why the run stopped
}

// errStopped ends a walk after the run was stopped.
var errStopped = errors.New("stopped")

// readAll reads all inputs. It returns an error if an input cannot be opened or the context ends.
func (r *run) readAll() error {
	for _, input := range r.inputs {
		if err := r.readInput(input); r.stopped {
			return r.refused
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) readInput(input string) (err error) {
	if in, ok := r.opts.Opened[input]; ok {
		err = r.readFile(input, in, -1)
	} else if input == "-" {
		err = r.readFile(input, r.opts.Stdin, -1)
	} else if info, statErr := os.Stat(input); statErr != nil {
		err = statErr
	} else if info.IsDir() {
		err = walk(r.ctx, input, r.readFound)
	} else {
		err = r.openFile(filepath.ToSlash(input), input)
	}
	if err != nil && r.ctx.Err() == nil {
		err = fmt.Errorf("input: %w", err)
	}
	return err
}

// readFound reads a file in a folder.
func (r *run) readFound(f found) error {
	if f.skip == nil {
		switch err := r.openFile(f.name, f.path); {
		case errors.Is(err, errIsOutput):
			f.skip = &Skip{Reason: "the output itself"}
		case err != nil && r.ctx.Err() == nil:
			f.skip = cannotOpen(err)
		}
	}
	if f.skip != nil {
		r.emit(&RawRecord{record: Record{Source: f.name, Number: 1, Key: pathKey(f.name),
			Skip: f.skip}})
	}
	if r.stopped {
		return errStopped
	}
	return r.ctx.Err()
}

func (r *run) openFile(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size := int64(-1)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return r.readFile(name, f, size)
}

// readFile reads a file. It returns errIsOutput and the error of the context, but no other error.
func (r *run) readFile(name string, f io.Reader, size int64) error {
	if isFile(f, r.opts.Output) {
		return fmt.Errorf("%s: %w", name, errIsOutput)
	}
	r.mu.Lock()
	r.totals.Files++
	r.mu.Unlock()
	file := &countedFile{ctx: r.ctx, r: f, size: size, progress: &r.done}
	key := ""
	if size >= 0 { // a regular file
		key = pathKey(name)
	}
	r.read(&source{run: r, name: name, key: key, w: r.opts.open(name, file)})
	return r.ctx.Err()
}

// emit yields a record. It returns false if the run must stop.
func (r *run) emit(u *RawRecord) bool {
	u.reader = r.Reader
	r.stopped = r.stopped || !r.yield(u)
	return !r.stopped
}
