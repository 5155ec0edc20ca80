// Command neardup-parquet writes the rows of Parquet files as JSON lines, which neardup reads:
//
//	neardup-parquet -columns url,text FILE... | neardup dedup -format jsonl -
//
// Of each column that is asked for it holds a page at a time.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

const usage = `usage: neardup-parquet [-columns a,b.c] [-memory MiB] FILE...

Writes the rows of Parquet files to standard output, a JSON object a line: lists as arrays, maps as
objects, timestamps as RFC 3339. To find near-duplicates among them:

  neardup-parquet -columns url,text FILE... | neardup dedup -format jsonl -

`

func main() {
	flags := flag.NewFlagSet("neardup-parquet", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	columns := flags.String("columns", "", "read these `columns` only, with commas between, a dot before what is inside one (default all)")
	memory := flags.Int64("memory", 4096, "end with an error rather than take more than so many `MiB`")
	err := flags.Parse(os.Args[1:])
	if err == nil && flags.NArg() == 0 {
		err = errors.New("no file is named")
	}
	if err == nil && *memory <= 0 {
		err = errors.New("-memory is to be above 0")
	}
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(os.Stderr, "neardup-parquet: %v\n", err)
		}
		fmt.Fprint(os.Stderr, usage)
		flags.SetOutput(os.Stderr)
		flags.PrintDefaults()
		os.Exit(2)
	}
	var wanted []string
	if *columns != "" {
		wanted = strings.Split(*columns, ",")
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))) // one is guard's
	go guard(uint64(*memory) << 20)
	for _, path := range flags.Args() {
		if err := convert(out, path, wanted); err != nil {
			out.Flush()
			fmt.Fprintf(os.Stderr, "neardup-parquet: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintf(os.Stderr, "neardup-parquet: %v\n", err)
		os.Exit(1)
	}
}

// collect is set when it is time to collect garbage.
var collect atomic.Bool

// guard ends the program when it takes too much memory: what a page of a few bytes decompresses
// to is nowhere bounded in the format, nor in the library. The library may write gigabytes without a
// point where a collection could stop it, which in turn would stop guard: so none begins by itself, and guard
// allocates nothing.
func guard(limit uint64) {
	problem := fmt.Appendf(nil, "neardup-parquet: a file takes more than %d MiB: it is broken, or has very large pages, for which there is -memory\n", limit>>20)
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	for range time.Tick(10 * time.Millisecond) {
		metrics.Read(samples)
		heap, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
		if heap > limit {
			os.Stderr.Write(problem)
			os.Exit(1)
		}
		if heap > live+min(live+64<<20, (limit-min(live, limit))/2) {
			collect.Store(true)
		}
	}
}

// convert writes the rows of a file. The library panics where some files are broken.
func convert(out io.Writer, path string, wanted []string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return errors.Unwrap(err) // the path is told by the caller
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no file: Parquet is read from its end")
	}
	where := "its footer"
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("broken: %s: %v", where, p)
		}
	}()
	f, err := parquet.OpenFile(file, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("broken: %w", err)
	}
	root, err := newNode(f.Root(), wanted)
	if err != nil {
		return err
	}
	for i, group := range f.Metadata().RowGroups {
		for _, l := range root.leaves {
			if group.Columns[l.column.Index()].MetaData.Codec == format.Lz4Raw {
				return fmt.Errorf("row group %d: column %s is compressed with LZ4_RAW, which the library reads wrong (parquet-go issue 608): write it anew with another compression", i, l.name())
			}
		}
	}
	for i, group := range f.RowGroups() {
		where = fmt.Sprintf("row group %d", i)
		if err := writeRows(out, root, group); err != nil {
			if errors.Is(err, errOutput) {
				return err
			}
			return fmt.Errorf("broken: %s: %w", where, err)
		}
	}
	for _, l := range root.leaves {
		if l.notUTF8 > 0 {
			fmt.Fprintf(os.Stderr, "neardup-parquet: %s: column %s: %d values are not UTF-8, and what is not became U+FFFD\n", path, l.name(), l.notUTF8)
		}
	}
	return nil
}

var errOutput = errors.New("standard output")

// writeRows writes a row group.
func writeRows(out io.Writer, root *node, group parquet.RowGroup) error {
	chunks := group.ColumnChunks()
	for _, l := range root.leaves {
		l.values = parquet.NewColumnChunkValueReader(chunks[l.column.Index()])
		l.buffered, l.next = 0, 0
		defer l.values.Close()
	}
	rows := make([][]parquet.Value, len(root.leaves))
	var line []byte
	for n := range group.NumRows() {
		for i, l := range root.leaves {
			if err := l.read(); err == io.EOF {
				return fmt.Errorf("column %s ends after %d of the %d rows of its group", l.name(), n, group.NumRows())
			} else if err != nil {
				return fmt.Errorf("column %s: %w", l.name(), err)
			}
			rows[i] = l.row
		}
		var err error
		if line, err = root.appendJSON(line[:0], rows); err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("%w: %w", errOutput, err)
		}
	}
	for _, l := range root.leaves {
		if err := l.read(); err == nil {
			return fmt.Errorf("column %s has more than the %d rows of its group", l.name(), group.NumRows())
		} else if err != io.EOF {
			return fmt.Errorf("column %s, behind its rows: %w", l.name(), err)
		}
	}
	return nil
}

// leaf reads a column of a row group.
type leaf struct {
	column         *parquet.Column
	values         parquet.ColumnChunkValueReader
	buffer         [64]parquet.Value
	next, buffered int
	row            []parquet.Value // valid until the next read
	notUTF8        int64           // values
}

func (l *leaf) name() string { return strings.Join(l.column.Path(), ".") }

// read reads the values of the next row: in a repeated column all up to the one that begins
// another row.
func (l *leaf) read() error {
	l.row = l.row[:0]
	for {
		if l.next == l.buffered {
			for i := range l.row { // their page goes
				l.row[i] = l.row[i].Clone()
			}
			if collect.Swap(false) {
				runtime.GC()
			}
			n, err := l.values.ReadValues(l.buffer[:])
			l.next, l.buffered = 0, n
			switch {
			case n > 0:
			case err == io.EOF && len(l.row) > 0:
				return nil
			case err == nil:
				return io.ErrNoProgress
			default:
				return err
			}
		}
		v := l.buffer[l.next]
		if len(l.row) > 0 && v.RepetitionLevel() == 0 {
			return nil
		}
		l.row = append(l.row, v)
		l.next++
		if l.column.MaxRepetitionLevel() == 0 {
			return nil
		}
	}
}
