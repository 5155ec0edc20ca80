// Command neardup-parquet writes the rows of Parquet files as JSON Lines, which neardup reads:
//
//	neardup-parquet --columns url,text FILE... | neardup dedup --format jsonl -
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

func main() {
	columns := flag.String("columns", "",
		"write only these `columns`, separated by commas; a.b is column b of group a (default all)")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: neardup-parquet [--columns a,b.c] FILE...\n\nWrite the "+
			"rows of Parquet files to standard output, one JSON object per line.")
		flag.PrintDefaults()
		os.Exit(2)
	}
	wanted := strings.FieldsFunc(*columns, func(c rune) bool { return c == ',' })
	out, err := bufio.NewWriterSize(os.Stdout, 1<<20), error(nil)
	for i := 0; err == nil && i < flag.NArg(); i++ {
		err = convert(out, flag.Arg(i), wanted)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, "neardup-parquet:", err)
		os.Exit(1)
	}
}

// convert writes the rows of one file.
func convert(out io.Writer, path string, wanted []string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("not a regular file: a Parquet file is read from its end: %w", err)
	}
	part := "damaged footer: "
	defer func() {
		if p := recover(); p != nil { // The library panics on some damaged files.
			err = fmt.Errorf("damaged: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("%s: %s%w", path, part, err)
		}
	}()
	f, err := parquet.OpenFile(file, size, parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	part = ""
	columns, err := selectColumns(f.Schema(), wanted)
	if err != nil {
		return err
	}
	for i := 0; err == nil && i < len(f.RowGroups()); i++ {
		part = fmt.Sprintf("row group %d: ", i)
		err = writeRows(out, f, i, columns)
	}
	return err
}

// selectColumns returns the columns whose name, or the name of a group around them, is in wanted,
// or all columns if wanted is empty. It leaves out columns in lists and maps, which have several
// values per row.
func selectColumns(s *parquet.Schema, wanted []string) (columns []parquet.LeafColumn, err error) {
	var names []string
	missing := slices.Clone(wanted)
	for _, path := range s.Columns() {
		c, _ := s.Lookup(path...)
		c.Path = path // Lookup sets only the last name.
		if c.MaxRepetitionLevel > 0 {
			continue
		}
		name := strings.Join(path, ".")
		contains := func(group string) bool { return strings.HasPrefix(name+".", group+".") }
		if len(wanted) == 0 || slices.ContainsFunc(wanted, contains) {
			columns = append(columns, c)
		}
		names, missing = append(names, name), slices.DeleteFunc(missing, contains)
	}
	if len(missing) > 0 || len(names) == 0 {
		return nil, fmt.Errorf("no column %q outside lists and maps: the columns are %q",
			missing, names)
	}
	return columns, nil
}

// writeRows writes the rows of one row group. It keeps one page of each column in memory.
func writeRows(out io.Writer, f *parquet.File, number int, columns []parquet.LeafColumn) error {
	group, chunks := f.RowGroups()[number], f.Metadata().RowGroups[number].Columns
	readers := make([]parquet.ColumnChunkValueReader, len(columns))
	names := make([][]byte, len(columns))
	for i, c := range columns {
		if chunks[c.ColumnIndex].MetaData.Codec == format.Lz4Raw {
			return errors.New("LZ4_RAW, which parquet-go decodes incorrectly: " +
				"compress the file with another codec")
		}
		readers[i] = parquet.NewColumnChunkValueReader(group.ColumnChunks()[c.ColumnIndex])
		defer readers[i].Close()
		names[i], _ = jsontext.AppendQuote(nil, strings.Join(c.Path, "."))
	}
	var line []byte
	var value [1]parquet.Value
	for row := range group.NumRows() {
		line = line[:0]
		for i, c := range columns {
			if n, err := readers[i].ReadValues(value[:]); n == 0 {
				return fmt.Errorf("row %d of %d: column %s: %w", row, group.NumRows(), names[i], err)
			}
			line = append(append(append(line, ','), names[i]...), ':')
			line = appendValue(line, c.Node.Type(), value[0])
		}
		line[0] = '{'
		if _, err := out.Write(append(line, "}\n"...)); err != nil {
			return err
		}
	}
	for i := range readers {
		if n, err := readers[i].ReadValues(value[:]); n > 0 || err != io.EOF {
			return fmt.Errorf("column %s does not end after %d rows", names[i], group.NumRows())
		}
	}
	return nil
}

// appendValue appends a value as JSON. A number that JSON cannot represent becomes null.
func appendValue(b []byte, t parquet.Type, v parquet.Value) []byte {
	var logical any
	if l := t.LogicalType(); l != nil && !v.IsNull() {
		logical = l.Value
	}
	text, layout := v.String(), `"2006-01-02T15:04:05.999999999Z"`
	switch logical := logical.(type) {
	case *format.DateType:
		return time.Unix(86400*int64(v.Int32()), 0).UTC().AppendFormat(b, `"2006-01-02"`)
	case *format.TimestampType:
		at := time.Unix(0, v.Int64())
		switch logical.Unit.Value.(type) {
		case *format.MilliSeconds:
			at = time.UnixMilli(v.Int64())
		case *format.MicroSeconds:
			at = time.UnixMicro(v.Int64())
		}
		if !logical.IsAdjustedToUTC {
			layout = `"2006-01-02T15:04:05.999999999"`
		}
		return at.UTC().AppendFormat(b, layout)
	case *format.DecimalType:
		n, _ := new(big.Int).SetString(text, 10)
		if t.Kind() >= parquet.ByteArray { // two's complement, most significant byte first
			n = new(big.Int).SetBytes(v.ByteArray())
			if n.BitLen() == 8*len(text) {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(n.BitLen())))
			}
		}
		scale := max(0, min(logical.Scale, 76)) // 76 digits have 256 bits
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
		return append(b, new(big.Rat).SetFrac(n, unit).FloatString(int(scale))...)
	case *format.IntType:
		if !logical.IsSigned {
			text = strconv.FormatUint(v.Uint64()&(1<<logical.BitWidth-1), 10)
		}
	case *format.UUIDType:
		text = fmt.Sprintf("%x-%x-%x-%x-%x", text[:4], text[4:6], text[6:8], text[8:10], text[10:])
	}
	if v.Kind() == parquet.Int96 { // the time of day in nanoseconds, and the Julian day
		n := v.Int96()
		nanoseconds := int64(uint64(n[1])<<32 | uint64(n[0]))
		return time.Unix((int64(n[2])-2440588)*86400, nanoseconds).UTC().AppendFormat(b, layout)
	}
	_, isJSON := logical.(*format.JsonType)
	switch value := jsontext.Value(text); {
	case v.IsNull() || t.Kind() < parquet.ByteArray && !value.IsValid():
		return append(b, "null"...)
	case t.Kind() < parquet.ByteArray || isJSON && value.Compact() == nil:
		return append(b, bytes.ToValidUTF8(value, []byte("\ufffd"))...)
	}
	b, _ = jsontext.AppendQuote(b, text) // The error is invalid UTF-8, which becomes U+FFFD.
	return b
}
