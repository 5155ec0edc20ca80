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
	"sync"
	"sync/atomic"
)

// Reader reads inputs one after the other. RawRecords and Chunks read them: one of these is to
// be called, once. The other methods may be called from any goroutine,
// at any time.
type Reader struct {
	inputs []string
	opts   Options

	done  atomic.Int64 // bytes, as those of total
	total atomic.Int64

	mu     sync.Mutex
	totals []Totals
	broken Record // the first one whose file is broken there
	places int64  // where files are broken
}

// New makes a reader of inputs: files, folders (read in sorted order, with all
// below them but links) or "-" for standard input. It opens nothing yet, but an input
// that does not exist is an error here, before any work is done.
func New(inputs []string, opts Options) (*Reader, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Reader{inputs: inputs, opts: opts, totals: make([]Totals, len(inputs))}
	r.total.Store(-1)
	for i, input := range inputs {
		r.totals[i].Input = input
		if input == "-" {
			continue
		}
		if _, err := os.Stat(input); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
	}
	return r, nil
}

// Progress is the number of bytes read from the files, before decompression,
// and the number there is to read; -1 where that is not known: before Measure,
// and with standard input or a pipe among the inputs.
func (r *Reader) Progress() (read, total int64) { return r.done.Load(), r.total.Load() }

// Measure walks the inputs and adds up the sizes of their files, for Progress.
// It takes a stat of each file.
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

// maxReasons bounds the distinct reasons that are counted apart: reasons
// quote media types and encodings, which the input chooses.
const maxReasons = 200

// otherReasons counts skips beyond maxReasons.
const otherReasons = "other reasons"

// Totals counts what was read. Records == Documents + the sum of Skipped.
type Totals struct {
	Input     string           // as it was given to New; a folder is one
	Files     int64            // files opened; standard input is one
	Records   int64            // all records
	Documents int64            // records without a Skip
	Skipped   map[string]int64 // skips by reason
	Repaired  int64            // records of web archives with a wrong Content-Length
}

// Skips is the number of records that are no documents.
func (t Totals) Skips() int64 { return t.Records - t.Documents }

// Totals is what was read so far of each input given to New.
func (r *Reader) Totals() []Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	totals := append([]Totals(nil), r.totals...)
	for i := range totals {
		totals[i].Skipped = maps.Clone(totals[i].Skipped)
	}
	return totals
}

// count counts documents and skips of an input.
func (r *Reader) count(input, documents int, skips ...Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.totals[input]
	t.Records += int64(documents + len(skips))
	t.Documents += int64(documents)
	for _, rec := range skips {
		reason := rec.Skip.Reason
		if _, known := t.Skipped[reason]; !known && len(t.Skipped) >= maxReasons {
			reason = otherReasons
		}
		if t.Skipped == nil {
			t.Skipped = make(map[string]int64)
		}
		t.Skipped[reason]++
		if rec.Skip.Broken {
			if r.places++; r.places == 1 {
				r.broken = rec
			}
		}
	}
}

// ErrBroken is matched by the error of Reader.Broken.
var ErrBroken = errors.New("broken input")

// Broken returns an error that matches ErrBroken if an input is damaged or cannot be read. It gives the
// first such place so far, and the number of them. Each of them is also a skip, and what could be read was
// returned.
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
	return fmt.Errorf("%w: %s byte %d: %w%s", ErrBroken, r.broken.Source, r.broken.Offset, r.broken.Skip, more)
}

// MissingFields returns the names in Options.Fields that no record has had so far, each with its flag.
func (r *Reader) MissingFields() (missing []string) {
	named := &r.opts.Fields
	for _, f := range []struct {
		field      field
		flag, name string
	}{
		{keyField, "--key-field ", named.Key}, {contentField, "--content-field ", named.Content}, {scopeField, "--scope field:", named.Scope},
	} {
		if f.name != "" && !r.opts.names.found[f.field].Load() {
			missing = append(missing, f.flag+f.name)
		}
	}
	return missing
}

// RawRecord is a record that was read and not looked into.
type RawRecord struct {
	record Record // what is known of it, or all
	parse  func(*Record)
	bytes  int // that parse holds on to
	reader *Reader
	input  int
}

// Parse looks into the record and counts it. It is to be called once, on any
// goroutine; it takes memory as Options.MaxDocument says, each time that it runs.
func (u *RawRecord) Parse() Record {
	if u.parse != nil {
		if u.parse(&u.record); u.record.Skip != nil {
			u.record.Original = nil
		}
	}
	if u.record.Skip == nil {
		u.reader.count(u.input, 1)
	} else {
		u.reader.count(u.input, 0, u.record)
	}
	return u.record
}

// Place says where the record stands, as Record.Source and Number do.
func (u *RawRecord) Place() (source string, number int64) { return u.record.Source, u.record.Number }

// Bytes is the memory that the record holds until it is parsed, its Original among it.
func (u *RawRecord) Bytes() int { return u.bytes + cap(u.record.Content) }

// RawRecords reads all inputs. An error ends the sequence: an input that cannot be opened, ctx,
// or ErrNoOriginals. Everything else that goes wrong is a record with a Skip. What takes the most time is
// left to RawRecord.Parse, which may run on several goroutines: finding where a record ends
// must be done in order, undoing its encoding need not.
func (r *Reader) RawRecords(ctx context.Context) iter.Seq2[*RawRecord, error] {
	return func(yield func(*RawRecord, error) bool) {
		run := &run{Reader: r, ctx: ctx, read: (*source).records}
		run.give = func(u *RawRecord) bool { return yield(u, nil) }
		if err := run.readAll(); err != nil {
			yield(nil, err)
		}
	}
}

// run is a reading of all inputs.
type run struct {
	*Reader
	ctx     context.Context
	input   int                   // that is being read
	read    func(*source)         // reads a file
	give    func(*RawRecord) bool // hands a record over; false: no more is wanted
	stopped bool                  // no more is wanted
	first   Format                // of the files so far, with Options.Originals
	refused error                 // what ended the run
}

// errStopped ends a run when no more is wanted.
var errStopped = errors.New("stopped")

// readAll reads all inputs. Its error is one of opening an input, or of the context.
func (r *run) readAll() error {
	for i, input := range r.inputs {
		r.input = i
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

// readFound reads a file of a folder.
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
		r.emit(&RawRecord{record: Record{Source: f.name, Number: 1, Key: pathKey(f.name), Skip: f.skip}})
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

// readFile reads one stream of bytes; its only errors are that of the context and errIsOutput.
func (r *run) readFile(name string, f io.Reader, size int64) error {
	if isFile(f, r.opts.Output) {
		return fmt.Errorf("%s: %w", name, errIsOutput)
	}
	r.mu.Lock()
	r.totals[r.input].Files++
	r.mu.Unlock()
	file := &countedFile{ctx: r.ctx, r: f, size: size, progress: &r.done}
	key := ""
	if size >= 0 { // neither standard input nor a pipe
		key = pathKey(name)
	}
	r.read(&source{run: r, name: name, key: key, w: r.opts.open(name, file)})
	return r.ctx.Err()
}

// emit hands a record over. It is false when to stop.
func (r *run) emit(u *RawRecord) bool {
	u.reader, u.input = r.Reader, r.input
	r.stopped = r.stopped || !r.give(u)
	return !r.stopped
}
