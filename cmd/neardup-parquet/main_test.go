package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// TestMain runs the command if a test starts the test binary as the command.
func TestMain(m *testing.M) {
	if os.Getenv("NEARDUP_PARQUET") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func command(t *testing.T, args ...string) (out, problem string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "NEARDUP_PARQUET=1")
	cmd.Stdin = strings.NewReader("a pipe")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// document is a row with the columns that datatrove writes, and some of FineWeb.
type document struct {
	Text     string  `parquet:"text"`
	ID       string  `parquet:"id"`
	Dump     string  `parquet:"dump,dict"`
	Score    float64 `parquet:"score"`
	Count    int64   `parquet:"count"`
	Metadata struct {
		URL    *string  `parquet:"url,optional"`
		Labels []string `parquet:"labels,list"`
	} `parquet:"metadata,optional"`
	Media []struct {
		URL string `parquet:"url"`
	} `parquet:"media,list"`
}

// documents returns n rows, and their lines. Lists have no column in a line.
func documents(n int) (rows []document, lines string) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		// one of thirty texts, with characters that JSON escapes
		text := strings.Repeat(fmt.Sprint("word ", r.IntN(30), " <b>\"other\"\u2028\n"), 50)
		row := document{Text: text, ID: fmt.Sprint(i), Dump: "CC-MAIN-2024-10",
			Score: float64(r.IntN(100)) / 8, Count: r.Int64N(1000)}
		row.Metadata.Labels = slices.Repeat([]string{"label"}, r.IntN(4))
		row.Media = make([]struct {
			URL string `parquet:"url"`
		}, r.IntN(3))
		quoted, _ := jsontext.AppendQuote(nil, text)
		url := "null"
		if address := fmt.Sprintf("https://example.com/%d", i); i%3 > 0 {
			row.Metadata.URL, url = &address, `"`+address+`"`
		}
		rows = append(rows, row)
		lines += fmt.Sprintf(`{"text":%s,"id":"%d","dump":"%s","score":%v,"count":%d,`+
			`"metadata.url":%s}`+"\n", quoted, i, row.Dump, row.Score, row.Count, url)
	}
	return rows, lines
}

// streamed compresses like parquet-mr, in frames that do not state the size of their content.
type streamed struct{ *zstd.Encoder }

func (streamed) String() string { return "ZSTD" }

func (streamed) CompressionCodec() format.CompressionCodec { return format.Zstd }

func (s streamed) Encode(_, src []byte) ([]byte, error) {
	var b bytes.Buffer
	s.Reset(&b)
	io.Copy(s.Encoder, bytes.NewReader(src))
	err := s.Close()
	return b.Bytes(), err
}

func (streamed) Decode(dst, src []byte) ([]byte, error) { return parquet.Zstd.Decode(dst, src) }

func codecs() map[string]compress.Codec {
	z, _ := zstd.NewWriter(nil)
	return map[string]compress.Codec{"zstd": &parquet.Zstd, "zstd-stream": streamed{z},
		"snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "brotli": &parquet.Brotli,
		"plain": &parquet.Uncompressed}
}

// write writes a Parquet file with several pages and row groups.
func write(t *testing.T, codec compress.Codec, rows []document) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.parquet")
	err := parquet.WriteFile(path, rows, parquet.Compression(codec), parquet.PageBufferSize(20<<10),
		parquet.MaxRowsPerRowGroup(60))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRows(t *testing.T) {
	rows, want := documents(200)
	for name, codec := range codecs() {
		out, problem, code := command(t, write(t, codec, rows))
		if out != want || problem != "" || code != 0 {
			t.Errorf("%s: exit code %d, %s; got\n%.1000s\nwant\n%.1000s", name, code, problem, out,
				want)
		}
	}
}

func TestTypes(t *testing.T) {
	type group struct {
		X *int32 `parquet:"x,optional"`
	}
	type row struct {
		Bool     bool             `parquet:"bool"`
		Unsigned uint64           `parquet:"unsigned"`
		Small    uint32           `parquet:"small"`
		Float    float32          `parquet:"float"`
		Infinite float64          `parquet:"infinite"`
		Bytes    []byte           `parquet:"bytes"`
		JSON     string           `parquet:"json,json"`
		NoJSON   string           `parquet:"nojson,json"`
		Time     time.Time        `parquet:"time,timestamp(microsecond)"`
		Nanos    int64            `parquet:"nanos,timestamp(nanosecond:local)"`
		Millis   int64            `parquet:"millis,timestamp"`
		Julian   deprecated.Int96 `parquet:"julian"`
		Date     int32            `parquet:"date,date"`
		Decimal  int64            `parquet:"decimal,decimal(2:18)"`
		Long     [9]byte          `parquet:"long,decimal(3:20)"`
		UUID     [16]byte         `parquet:"uuid,uuid"`
		Group    *group           `parquet:"group,optional"`
		Text     *string          `parquet:"text,optional"`
		Map      map[string]group `parquet:"map"`
		List     []group          `parquet:"list,list"`
		Repeated []group          `parquet:"repeated"`
	}
	n := int32(-1)
	rows := []row{{
		true, 1<<64 - 1, 1<<32 - 1, 0.1, math.Inf(1), []byte("a\xffb"), "{\"a\":\n[1]}", "{",
		time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), 1, -1,
		deprecated.Int96{1, 0, 2440589}, -1, -123, [9]byte(slices.Repeat([]byte{0xff}, 9)),
		[16]byte{15: 1},
		&group{&n}, nil, map[string]group{"k": {}}, []group{{}, {}}, []group{{}, {}},
	}, {JSON: "{\"a\": \"\xff\"}", NoJSON: "1"}}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	out, problem, code := command(t, path)
	want := `{"bool":true,"unsigned":18446744073709551615,"small":4294967295,"float":0.1,"infinite":null,"bytes":"a` + "\ufffd" + `b","json":{"a":[1]},"nojson":"{",` +
		`"time":"2026-01-02T03:04:05.000006Z","nanos":"1970-01-01T00:00:00.000000001","millis":"1969-12-31T23:59:59.999Z","julian":"1970-01-02T00:00:00.000000001Z",` +
		`"date":"1969-12-31","decimal":-1.23,"long":-0.001,"uuid":"00000000-0000-0000-0000-000000000001","group.x":-1,"text":null}`
	if got, _, _ := strings.Cut(out, "\n"); got != want || code != 0 {
		t.Errorf("exit code %d, %s, got\n%s\nwant\n%s", code, problem, got, want)
	}
	if !strings.Contains(out, `"group.x":null`) ||
		!strings.Contains(out, `"json":{"a":"`+"\ufffd"+`"}`) || strings.Count(out, "\n") != 2 {
		t.Error(out)
	}
}

// open opens a file and returns its content.
func open(t *testing.T, path string) (*parquet.File, []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return f, content
}

// TestColumns tests that columns that are not selected are not read: one of them is damaged.
func TestColumns(t *testing.T) {
	rows, _ := documents(10)
	path := write(t, &parquet.Uncompressed, rows)
	f, content := open(t, path)
	at := f.Metadata().RowGroups[0].Columns[0].MetaData.DataPageOffset
	copy(content[at:], "\xff\xff\xff\xff")
	os.WriteFile(path, content, 0o600)
	if out, problem, code := command(t, "-columns", "id,count", path); code != 0 ||
		strings.Count(out, "\n") != 10 || !strings.HasPrefix(out, `{"id":"0","count":`) {
		t.Errorf("exit code %d, %s\n%s", code, problem, out)
	}
	if _, _, code := command(t, path); code != 1 {
		t.Errorf("exit code %d with the damaged column", code)
	}
	for columns, want := range map[string]string{
		"id,txt": `no column ["txt"] outside lists and maps: the columns are ["text" "id"`,
		"id,media": `no column ["media"] outside lists and maps: the columns are ["text" "id" ` +
			`"dump" "score" "count" "metadata.url"]`,
		"metadata.labels.list.element": `no column ["metadata.labels.list.element"]`,
	} {
		out, problem, code := command(t, "-columns", columns, path)
		if code != 1 || !strings.Contains(problem, path+": "+want) || out != "" {
			t.Errorf("exit code %d, %q, want %q", code, problem, want)
		}
	}
}

func TestBadArguments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	os.WriteFile(path, []byte("PAR1 and then something else\n"), 0o600)
	rows, _ := documents(3)
	lz4 := write(t, &parquet.Lz4Raw, rows)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "usage: neardup-parquet"},
		{[]string{"-no", "x"}, 2, "flag provided but not defined: -no\n"},
		{[]string{"missing"}, 1, "neardup-parquet: open missing: no such file or directory\n"},
		{[]string{t.TempDir()}, 1, ": is a directory"},
		{[]string{"/dev/stdin"}, 1, "neardup-parquet: not a regular file: "},
		{[]string{path}, 1, "neardup-parquet: " + path +
			": damaged footer: invalid magic footer of parquet file: "},
		{[]string{lz4}, 1, ": row group 0: LZ4_RAW, which parquet-go decodes incorrectly"},
	} {
		if out, problem, code := command(t, test.args...); code != test.code ||
			!strings.Contains(problem, test.want) || out != "" {
			t.Errorf("%q: exit code %d, %s%s", test.args, code, out, problem)
		}
	}
}

// TestDamaged tests that a truncated file is an error, and that no damage causes a panic.
func TestDamaged(t *testing.T) {
	rows, _ := documents(30)
	for name, codec := range codecs() {
		path := write(t, codec, rows)
		_, whole := open(t, path)
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 300 {
			damaged := bytes.Clone(whole)
			switch i % 3 {
			case 0:
				damaged = damaged[:r.IntN(len(damaged))]
			case 1: // most bytes are in pages
				damaged[r.IntN(len(damaged))] ^= 1 << r.IntN(8)
			case 2: // in the footer
				damaged[len(damaged)-1-r.IntN(1000)] = byte(r.IntN(256))
			}
			os.WriteFile(path, damaged, 0o600)
			if err := convert(io.Discard, path, nil); i%3 == 0 && err == nil {
				t.Errorf("%s: a file of %d bytes, truncated from %d, is not an error", name,
					len(damaged), len(whole))
			}
		}
	}
}

// TestRowCount tests that a wrong number of rows in the footer is an error.
func TestRowCount(t *testing.T) {
	documents, _ := documents(3)
	for rows, want := range map[int64]string{
		2: `row group 0: column "text" does not end after 2 rows`,
		4: `row group 0: row 3 of 4: column "text": EOF`,
	} {
		path := write(t, &parquet.Uncompressed, documents)
		f, file := open(t, path)
		f.Metadata().RowGroups[0].NumRows = rows
		footer, err := thrift.Marshal(new(thrift.CompactProtocol), f.Metadata())
		if err != nil {
			t.Fatal(err)
		}
		size := binary.LittleEndian.Uint32(file[len(file)-8:])
		file = append(file[:len(file)-8-int(size)], footer...)
		os.WriteFile(path, append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))),
			"PAR1"...), 0o600)
		if out, problem, code := command(t, path); code != 1 ||
			!strings.HasPrefix(problem, "neardup-parquet: "+path+": "+want) ||
			strings.Count(out, "\n") != int(min(rows, 3)) {
			t.Errorf("exit code %d, %d lines, %s; want %s", code,
				strings.Count(out, "\n"), problem, want)
		}
	}
}
