package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The tests start their own binary as the command.
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
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// FineWeb's columns.
type fineWeb struct {
	Text          string  `parquet:"text" json:"text"`
	ID            string  `parquet:"id" json:"id"`
	Dump          string  `parquet:"dump,dict" json:"dump"`
	URL           string  `parquet:"url" json:"url"`
	Date          string  `parquet:"date" json:"date"`
	FilePath      string  `parquet:"file_path,dict" json:"file_path"`
	Language      string  `parquet:"language,dict" json:"language"`
	LanguageScore float64 `parquet:"language_score" json:"language_score"`
	TokenCount    int64   `parquet:"token_count" json:"token_count"`
}

// datatrove's, of a reader of WARC; what is missing is null.
type datatrove struct {
	Text     string `parquet:"text" json:"text"`
	ID       string `parquet:"id" json:"id"`
	Metadata struct {
		URL      *string  `parquet:"url,optional" json:"url"`
		Labels   []string `parquet:"labels,list" json:"labels"`
		Language *float64 `parquet:"language_score,optional" json:"language_score"`
	} `parquet:"metadata,optional" json:"metadata"`
	Media []struct {
		Type int64  `parquet:"type" json:"type"`
		URL  string `parquet:"url" json:"url"`
	} `parquet:"media,list" json:"media"`
}

// streamed compresses as parquet-mr does: in frames that do not say how much is in them.
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
	return map[string]compress.Codec{"zstd": &parquet.Zstd, "zstd-stream": streamed{z}, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "brotli": &parquet.Brotli, "plain": &parquet.Uncompressed}
}

// text is one of a few, changed a little or not at all.
func text(r *rand.Rand) string {
	words := strings.Fields(strings.Repeat("one two three four five six seven eight nine ten ", 20))
	seed := r.IntN(30)
	for i := range words {
		words[i] += fmt.Sprint(seed * i)
	}
	if r.IntN(2) == 0 {
		words[r.IntN(len(words))] = "<b>\"other\"\u2028\n"
	}
	return strings.Join(words, " ")
}

// write writes rows as Parquet, with pages and row groups of a few, and as JSON lines.
func write[T any](t *testing.T, codec compress.Codec, rows []T) (path string, lines []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.parquet")
	err := parquet.WriteFile(path, rows, parquet.Compression(codec), parquet.PageBufferSize(20<<10), parquet.MaxRowsPerRowGroup(60))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, row := range rows {
		if err := e.Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	return path, b.Bytes()
}

func fineWebRows(n int) (rows []fineWeb) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		rows = append(rows, fineWeb{text(r), fmt.Sprintf("<urn:uuid:%d>", i), "CC-MAIN-2024-10", fmt.Sprintf("https://example.com/%d", i),
			"2024-02-21T00:00:00Z", "s3://x", "en", r.Float64(), r.Int64N(1000)})
	}
	return rows
}

func datatroveRows(n int) (rows []datatrove) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		row := datatrove{Text: text(r), ID: fmt.Sprint(i)}
		row.Metadata.Labels = []string{}
		for range r.IntN(4) {
			row.Metadata.Labels = append(row.Metadata.Labels, fmt.Sprint("label ", i))
		}
		if url := fmt.Sprintf("https://example.com/%d", i); i%3 > 0 {
			row.Metadata.URL = &url
		}
		row.Media = append(row.Media, make([]struct {
			Type int64  `parquet:"type" json:"type"`
			URL  string `parquet:"url" json:"url"`
		}, r.IntN(3))...)
		if row.Media == nil {
			row.Media = append(row.Media, struct {
				Type int64  `parquet:"type" json:"type"`
				URL  string `parquet:"url" json:"url"`
			}{7, "\x00"})
		}
		rows = append(rows, row)
	}
	return rows
}

// sameJSON compares lines of JSON whatever the order of their members is.
func sameJSON(t *testing.T, got string, want []byte) {
	t.Helper()
	a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	if len(a) != len(b) {
		t.Fatalf("%d lines, want %d", len(a), len(b))
	}
	normal := func(line string) string {
		var v any
		if json.Unmarshal([]byte(line), &v) != nil {
			return line
		}
		m, _ := json.Marshal(v)
		return string(m)
	}
	for i := range a {
		if normal(a[i]) != normal(b[i]) {
			t.Fatalf("line %d:\n%s\nwant\n%s", i+1, a[i], b[i])
		}
	}
}

func TestRows(t *testing.T) {
	for name, codec := range codecs() {
		t.Run(name, func(t *testing.T) {
			path, lines := write(t, codec, fineWebRows(200))
			out, problem, code := command(t, path)
			if problem != "" || code != 0 {
				t.Fatalf("exit code %d: %s", code, problem)
			}
			sameJSON(t, out, lines)
			path, lines = write(t, codec, datatroveRows(200))
			out, _, _ = command(t, path)
			sameJSON(t, out, lines)
		})
	}
}

// Of Parquet that was made lines dedup says what it says of the same documents as lines.
func TestVerdicts(t *testing.T) {
	neardup := filepath.Join(t.TempDir(), "neardup")
	build := exec.Command("go", "build", "-o", neardup, "./cmd/neardup")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	verdicts := func(lines []byte) string {
		dedup := exec.Command(neardup, "dedup", "-format", "jsonl", "-")
		dedup.Stdin = bytes.NewReader(lines)
		out, err := dedup.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	check := func(path string, lines []byte, args ...string) {
		t.Helper()
		out, problem, _ := command(t, append(args, path)...)
		got, want := verdicts([]byte(out)), verdicts(lines)
		if got != want || !strings.Contains(want, `"verdict":"duplicate"`) || !strings.Contains(want, `"verdict":"new"`) {
			t.Errorf("%s\ngot\n%.2000s\nwant\n%.2000s", problem, got, want)
		}
	}
	path, lines := write(t, &parquet.Zstd, fineWebRows(200))
	check(path, lines)
	check(path, lines, "-columns", "url,text")
	path, lines = write(t, &parquet.Snappy, datatroveRows(200))
	check(path, lines)
	check(path, lines, "-columns", "id,text,metadata.url")
}

func TestTypes(t *testing.T) {
	type inner struct {
		X *int32 `parquet:"x,optional"`
		Y []int8 `parquet:"y"`
	}
	type row struct {
		Bool      bool              `parquet:"bool"`
		Unsigned  uint64            `parquet:"unsigned"`
		Small     uint32            `parquet:"small"`
		Float     float32           `parquet:"float"`
		Infinite  float64           `parquet:"infinite"`
		Bytes     []byte            `parquet:"bytes"`
		JSON      string            `parquet:"json,json"`
		NoJSON    string            `parquet:"nojson,json"`
		Time      time.Time         `parquet:"time,timestamp(microsecond)"`
		Nanos     int64             `parquet:"nanos,timestamp(nanosecond:local)"`
		Millis    int64             `parquet:"millis,timestamp"`
		Date      int32             `parquet:"date,date"`
		Decimal   int64             `parquet:"decimal,decimal(2:18)"`
		UUID      [16]byte          `parquet:"uuid,uuid"`
		Map       map[string]inner  `parquet:"map"`
		Numbers   map[int32]*string `parquet:"numbers"`
		Lists     []inner           `parquet:"lists,list"`
		Repeated  []inner           `parquet:"repeated"`
		Optional  *inner            `parquet:"optional,optional"`
		EmptyList []string          `parquet:"empty,list"`
	}
	n := int32(-1)
	rows := []row{{
		true, 1<<64 - 1, 1<<32 - 1, 0.1, math.Inf(1), []byte("a\xffb"), "{\"a\":\n[1]}", "{", time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), 1, -1, -1, -123,
		[16]byte{15: 1}, map[string]inner{"k\"": {&n, nil}}, map[int32]*string{7: nil}, []inner{{nil, []int8{1, 2}}, {&n, nil}}, []inner{{nil, nil}, {&n, []int8{3}}}, nil, nil,
	}, {Optional: &inner{Y: []int8{4}}, JSON: "{\"a\": \"\xff\"}", NoJSON: "1"}}
	path, _ := write(t, &parquet.Zstd, rows[:0])
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	out, problem, code := command(t, path)
	want := `{"bool":true,"unsigned":18446744073709551615,"small":4294967295,"float":0.1,"infinite":null,"bytes":"a` + "\ufffd" + `b","json":{"a":[1]},"nojson":"{",` +
		`"time":"2026-01-02T03:04:05.000006Z","nanos":"1970-01-01T00:00:00.000000001","millis":"1969-12-31T23:59:59.999Z","date":"1969-12-31","decimal":-1.23,` +
		`"uuid":"00000000-0000-0000-0000-000000000001","map":{"k\"":{"x":-1,"y":[]}},"numbers":{"7":null},"lists":[{"x":null,"y":[1,2]},{"x":-1,"y":[]}],` +
		`"repeated":[{"x":null,"y":[]},{"x":-1,"y":[3]}],"optional":null,"empty":[]}`
	if got, _, _ := strings.Cut(out, "\n"); got != want || code != 0 {
		t.Errorf("exit code %d, got\n%s\nwant\n%s", code, got, want)
	}
	if !strings.Contains(out, `"optional":{"x":null,"y":[4]}`) || !strings.Contains(out, `"json":{"a":"`+"\ufffd"+`"}`) || strings.Count(out, "\n") != 2 {
		t.Error(out)
	}
	for _, column := range []string{"bytes", "json"} {
		if want := ": column " + column + ": 1 values are not UTF-8, and what is not became U+FFFD\n"; !strings.Contains(problem, want) {
			t.Errorf("%q, want %q", problem, want)
		}
	}
}

// Of what is not asked for nothing is read: here it is damaged.
func TestColumns(t *testing.T) {
	path, _ := write(t, &parquet.Uncompressed, fineWebRows(10))
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(path, bytes.ReplaceAll(file, []byte("one"), []byte("\xff\xff\xff")), 0o600)
	if out, problem, code := command(t, "-columns", "url,token_count", path); code != 0 || strings.Count(out, "\n") != 10 || !strings.HasPrefix(out, `{"url":"https://example.com/0","token_count":`) {
		t.Errorf("exit code %d, %s\n%s", code, problem, out)
	}
	_, problem, code := command(t, "-columns", "url,txt", path)
	if want := path + `: there is no column "txt": it has text, id, dump, url,`; code != 1 || !strings.Contains(problem, want) {
		t.Errorf("exit code %d, %q, want %q", code, problem, want)
	}
}

func TestBadArguments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	os.WriteFile(path, []byte("PAR1 and then something else\n"), 0o600)
	lz4, _ := write(t, &parquet.Lz4Raw, fineWebRows(3))
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "neardup-parquet: no file is named\nusage: neardup-parquet"},
		{[]string{"-no", "x"}, 2, "neardup-parquet: flag provided but not defined: -no\nusage: "},
		{[]string{"-memory", "0", "x"}, 2, "neardup-parquet: -memory is to be above 0\nusage: "},
		{[]string{"there-is-none"}, 1, "neardup-parquet: there-is-none: no such file or directory\n"},
		{[]string{t.TempDir()}, 1, ": it is no file: Parquet is read from its end\n"},
		{[]string{path}, 1, "neardup-parquet: " + path + ": broken: invalid magic footer of parquet file: "},
		{[]string{lz4}, 1, ": row group 0: column text is compressed with LZ4_RAW, which the library reads wrong"},
	} {
		if out, problem, code := command(t, test.args...); code != test.code || !strings.Contains(problem, test.want) || out != "" {
			t.Errorf("%q: exit code %d, %s%s", test.args, code, out, problem)
		}
	}
}

// However a file is damaged, it is an error or other values, and none that ends the program.
func TestDamaged(t *testing.T) {
	const n = 30
	for name, codec := range codecs() {
		path, _ := write(t, codec, datatroveRows(n))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(5, 6))
		broken := 0
		for i := range 300 {
			damaged := bytes.Clone(whole)
			switch i % 3 {
			case 0:
				damaged = damaged[:r.IntN(len(damaged))]
			case 1: // in the pages, mostly
				damaged[r.IntN(len(damaged))] ^= 1 << r.IntN(8)
			case 2: // in the footer
				damaged[len(damaged)-1-r.IntN(1000)] = byte(r.IntN(256))
			}
			os.WriteFile(path, damaged, 0o600)
			err := convert(io.Discard, path, nil)
			if i%3 == 0 && err == nil {
				t.Errorf("%s cut to %d bytes of %d is read", name, len(damaged), len(whole))
			}
			if err != nil {
				broken++
			}
		}
		t.Logf("%s: %d of 300 are broken", name, broken)
	}
}

// A footer whose number of rows is not that of its columns.
func TestRowsThatAreNotThere(t *testing.T) {
	for rows, want := range map[int64]string{
		2: "row group 0: column text has more than the 2 rows of its group", 4: "row group 0: column text ends after 3 of the 4 rows of its group",
	} {
		path, _ := write(t, &parquet.Uncompressed, fineWebRows(3))
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		f.Metadata().RowGroups[0].NumRows = rows
		footer, err := thrift.Marshal(new(thrift.CompactProtocol), f.Metadata())
		if err != nil {
			t.Fatal(err)
		}
		size := binary.LittleEndian.Uint32(file[len(file)-8:])
		file = append(file[:len(file)-8-int(size)], footer...)
		os.WriteFile(path, append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...), 0o600)
		if out, problem, code := command(t, path); code != 1 || problem != "neardup-parquet: "+path+": broken: "+want+"\n" || strings.Count(out, "\n") != int(min(rows, 3)) {
			t.Errorf("exit code %d, %d lines, %s; want %s", code, strings.Count(out, "\n"), problem, want)
		}
	}
}

// What a few bytes decompress to may be anything: the program ends before it takes all memory.
func TestMemory(t *testing.T) {
	type page struct {
		HTML string `parquet:"html"`
	}
	path, _ := write(t, &parquet.Zstd, []page{{strings.Repeat("x", 48<<20)}})
	if out, problem, code := command(t, "-memory", "60", path); code != 1 || !strings.HasPrefix(problem, "neardup-parquet: a file takes more than 60 MiB") {
		t.Errorf("exit code %d, %d bytes, %s", code, len(out), problem)
	}
	if out, problem, code := command(t, path); code != 0 || len(out) != 48<<20+len(`{"html":""}`+"\n") {
		t.Errorf("exit code %d, %d bytes, %s", code, len(out), problem)
	}
}
