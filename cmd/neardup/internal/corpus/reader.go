package corpus

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// Reader reads inputs one after the other. Records is for one goroutine; the
// other methods may be called from any, at any time.
type Reader struct {
	inputs []string
	opts   Options

	counter counter
	read    atomic.Int64
	total   atomic.Int64
}

// New makes a reader of inputs: files, folders (read in sorted order, with all
// below them but links) or "-" for standard input. It opens nothing yet, but an input
// that does not exist is an error here, before any work is done.
func New(inputs []string, opts Options) (*Reader, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Reader{inputs: inputs, opts: opts}
	r.counter.inputs = make([]Totals, len(inputs))
	for i, input := range inputs {
		r.counter.inputs[i].Input = input
	}
	r.total.Store(-1)
	for _, input := range inputs {
		if input == "-" {
			continue
		}
		if _, err := os.Stat(input); err != nil {
			return nil, fmt.Errorf("corpus: input: %w", err)
		}
	}
	return r, nil
}

// Totals is what was read so far of each input given to New.
func (r *Reader) Totals() []Totals { return r.counter.byInput() }

// Broken is nil, or an error that matches ErrBroken and says where the first
// file is broken that was read so far, and how many places there are. Each of
// them is a skip too: what could be read was given.
func (r *Reader) Broken() error { return r.counter.err() }

// Progress is the number of bytes read from the files, before decompression,
// and the number there is to read; -1 where that is not known: before Measure,
// and with standard input or a pipe among the inputs.
func (r *Reader) Progress() (read, total int64) { return r.read.Load(), r.total.Load() }

// Measure walks the inputs and adds up the sizes of their files, for Progress.
// It takes a stat of each file.
func (r *Reader) Measure(ctx context.Context) error {
	var total int64
	for _, input := range r.inputs {
		if input == "-" {
			return nil
		}
		info, err := os.Stat(input)
		if err != nil {
			return fmt.Errorf("corpus: input: %w", err)
		}
		if !info.IsDir() {
			if !info.Mode().IsRegular() {
				return nil
			}
			total += info.Size()
			continue
		}
		for entry := range r.opts.disk.walk(ctx, input) {
			if entry.skip == nil {
				total += entry.size
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.total.Store(total)
	return nil
}

// Records reads all inputs. An error ends the sequence: an input that cannot
// be opened, or ctx. Everything else that goes wrong is a record with a Skip.
// It is to be called once, and not beside RawRecords.
func (r *Reader) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for u, err := range r.RawRecords(ctx) {
			var rec Record
			if err == nil {
				rec = u.Parse()
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// RawRecords is Records for those who parse on several goroutines: finding
// where a record ends must be done in order, undoing its encoding need not.
func (r *Reader) RawRecords(ctx context.Context) iter.Seq2[*RawRecord, error] {
	return func(yield func(*RawRecord, error) bool) {
		for i, input := range r.inputs {
			run := &run{Reader: r, ctx: ctx, input: i, yield: yield}
			if err := run.readInput(input); err != nil {
				if !run.stopped {
					yield(nil, err)
				}
				return
			}
			if run.stopped {
				return
			}
		}
	}
}

// run is the reading of one input.
type run struct {
	*Reader
	ctx     context.Context
	input   int
	yield   func(*RawRecord, error) bool
	lists   *listRun // nil unless files are read as lists
	stopped bool     // the receiver wants no more
}

func (r *run) readInput(input string) error {
	if input == "-" {
		return r.readFile(input, r.opts.Stdin, -1)
	}
	info, err := os.Stat(input)
	if err != nil {
		return fmt.Errorf("corpus: input: %w", err)
	}
	if info.IsDir() {
		return r.readFolder(input)
	}
	return r.openFile(filepath.ToSlash(input), input)
}

// openFile reads one file; its error is one of opening it, or of the context.
func (r *run) openFile(name, path string) error {
	f, err := r.opts.disk.open(path)
	if err != nil {
		return fmt.Errorf("corpus: input: %w", err)
	}
	defer f.Close()
	size := int64(-1)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return r.readFile(name, f, size)
}

func (r *run) readFolder(path string) error {
	folder, err := r.opts.disk.open(path)
	if err != nil {
		return fmt.Errorf("corpus: input: %w", err)
	}
	folder.Close()
	for entry := range r.opts.disk.walk(r.ctx, path) {
		skip := entry.skip
		if skip == nil {
			if err := r.openFile(entry.name, entry.path); err != nil && r.ctx.Err() == nil {
				skip = cannotOpen(err)
			}
		}
		if skip != nil {
			r.emit(&RawRecord{record: Record{Source: entry.name, Number: 1, Key: entry.name, Skip: skip}})
		}
		if r.stopped {
			return nil
		}
	}
	return r.ctx.Err()
}

// emit hands a record over. It is false when to stop.
func (r *run) emit(u *RawRecord) bool {
	u.counter, u.input = &r.counter, r.input
	if !r.yield(u, nil) {
		r.stopped = true
	}
	return !r.stopped
}

// readFile reads one stream of bytes; its only error is that of the context.
func (r *run) readFile(name string, f io.Reader, size int64) error {
	r.counter.countFile(r.input)
	s := &source{run: r, name: name, w: newLookahead(newCountedFile(r.ctx, f, size, &r.read))}
	s.w.src.opened = r.opts.isRawWords(name)
	s.readAll()
	s.w.close()
	return r.ctx.Err()
}

// RawRecord is a record that was read and not looked into.
type RawRecord struct {
	record  Record // what is known of it, or all
	parse   func(*Record)
	bytes   int // that parse holds on to
	counter *counter
	input   int
}

// Parse looks into the record and counts it. It is to be called once, on any
// goroutine; it takes memory as Options.MaxDocument says, each time that it runs.
func (u *RawRecord) Parse() Record {
	if u.parse != nil {
		u.parse(&u.record)
	}
	u.counter.count(u.input, &u.record)
	return u.record
}

// Bytes is the memory that the record holds until it is parsed.
func (u *RawRecord) Bytes() int { return u.bytes + cap(u.record.Content) }

// entry is a file below a folder, or a reason why something there is none.
type entry struct {
	name string // path as given, with slashes
	path string
	size int64
	skip *Skip
}

// disk is how files are found and opened; tests have it fail.
type disk struct {
	open    func(path string) (*os.File, error)
	readDir func(path string) ([]fs.DirEntry, error)
}

var realDisk = disk{open: os.Open, readDir: os.ReadDir}

// walk gives what is in a folder and below it, each folder sorted by name.
// Links are not followed: one may lead out of the folder, to what its owner did
// not mean to be read, or round in a circle. Names that begin with a dot are
// passed by.
func (d disk) walk(ctx context.Context, folder string) iter.Seq[entry] {
	return func(yield func(entry) bool) { d.walkFolder(ctx, folder, yield) }
}

func (d disk) walkFolder(ctx context.Context, folder string, yield func(entry) bool) bool {
	children, err := d.readDir(folder)
	if err != nil {
		return yield(entry{name: filepath.ToSlash(folder), path: folder, skip: cannotOpen(err)})
	}
	for _, child := range children {
		if ctx.Err() != nil {
			return false
		}
		path := strings.TrimSuffix(folder, string(filepath.Separator)) + string(filepath.Separator) + child.Name()
		if child.IsDir() && !isHidden(child) {
			if !d.walkFolder(ctx, path, yield) {
				return false
			}
		} else if !yield(examine(child, path)) {
			return false
		}
	}
	return true
}

func isHidden(child fs.DirEntry) bool { return strings.HasPrefix(child.Name(), ".") }

func examine(child fs.DirEntry, path string) entry {
	e := entry{name: filepath.ToSlash(path), path: path}
	if isHidden(child) {
		e.skip = &Skip{Reason: "hidden file"}
		return e
	}
	info, err := child.Info()
	switch {
	case err != nil:
		e.skip = cannotOpen(err)
	case info.Mode().Type() == fs.ModeSymlink:
		e.skip = &Skip{Reason: "link", Document: true, Detail: "links in a folder are not followed: name the link itself as an input"}
	case !info.Mode().IsRegular():
		e.skip = &Skip{Reason: "not a regular file", Detail: info.Mode().Type().String()}
	default:
		e.size = info.Size()
	}
	return e
}

func cannotOpen(err error) *Skip {
	return &Skip{Reason: "cannot be opened", Detail: err.Error(), Document: true, Broken: true, Err: err}
}
