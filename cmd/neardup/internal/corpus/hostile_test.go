package corpus

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// long says that inputs may be as large as docs/limits.md has them.
func long() bool { return os.Getenv("NEARDUP_LONG") != "" }

// readHostile reads an input to its end and returns how many records there were of
// each kind, and the memory that it took at most.
func readHostile(t *testing.T, format Format, input io.Reader) (totals Totals, peak uint64) {
	t.Helper()
	r := newReader(t, Options{Format: format, MaxDocument: 1 << 20, Stdin: input}, "-")
	peak = measureHeap(func() {
		if _, err := countUntilError(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%+v, heap at most %.1f MiB", totalsOf(r), float64(peak)/(1<<20))
	return totalsOf(r), peak
}

// tinyRecords is an archive of n records of a few bytes each.
func tinyRecords(n int64) io.Reader {
	tiny := record("response", "u", "text/html", "x")
	return &generator{fill: tiny, size: n * int64(len(tiny))}
}

// An archive of tiny records without end: memory does not depend on their number.
func TestManyTinyRecords(t *testing.T) {
	n := int64(30_000)
	if testing.Short() {
		n = 3_000
	}
	if long() {
		n = 5_000_000
	}
	for name, input := range map[string]io.Reader{
		"plain": tinyRecords(n), "in one gzip member": compressed(tinyRecords(n).(*generator), gzipWriter), "in one zstd frame": compressed(tinyRecords(n).(*generator), zstdWriter),
	} {
		t.Run(name, func(t *testing.T) {
			totals, peak := readHostile(t, WARC, input)
			if totals.Records != n {
				t.Errorf("%d records, not %d", totals.Records, n)
			}
			if peak > 16<<20 {
				t.Errorf("%d bytes", peak)
			}
		})
	}
}

// A line of JSON of 2 GB is a document that is too large, whatever it is made of, and
// the line behind it is read.
func TestEndlessJSONLine(t *testing.T) {
	size := int64(16 << 20)
	if testing.Short() {
		size = 8 << 20
	}
	if long() {
		size = 2 << 30
	}
	for name, g := range map[string]*generator{
		"one string":       {head: `{"text":"`, fill: "x", tail: "\"}\n"},
		"escapes":          {head: `{"text":"`, fill: `\u0041`, tail: "\"}\n"},
		"invalid UTF-8":    {head: `{"text":"`, fill: "\xff\xc0\x80", tail: "\"}\n"},
		"brackets":         {head: `{"a":`, fill: "[", tail: "\n"},
		"braces":           {head: `{"a":`, fill: `{"a":`, tail: "\n"},
		"many members":     {head: "{", fill: `"k":1,`, tail: "\"k\":1}\n"},
		"a number":         {head: `{"a":`, fill: "1", tail: "}\n"},
		"a key":            {head: `{"`, fill: "k", tail: "\":1}\n"},
		"nothing but text": {fill: "x", tail: "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g.size = size
			g.tail += `{"url":"u","text":"behind"}`
			totals, peak := readHostile(t, JSONL, g)
			if totals.Records != 2 || totals.Documents != 1 {
				t.Errorf("%+v", totals)
			}
			if peak > 24<<20 {
				t.Errorf("%d bytes", peak)
			}
		})
	}
}

// Bombs within bombs: each layer is as long as it may be, and no longer.
func TestNestedBombs(t *testing.T) {
	size := int64(64 << 20)
	if testing.Short() {
		size = 16 << 20
	}
	if long() {
		size = 2 << 30
	}
	zeros := func() *generator { return &generator{fill: strings.Repeat("\x00", 1<<10), size: size} }
	inner := gzipped(strings.Repeat("\x00", 8<<20))
	after := response("after", page)
	for name, test := range map[string]struct {
		format Format
		input  io.Reader
		want   int64 // documents
	}{
		"zeros in gzip, as a page":         {HTMLFile, compressed(zeros(), gzipWriter), 0},
		"zeros in zstd, as a page":         {HTMLFile, compressed(zeros(), zstdWriter), 0},
		"zeros in gzip, as an archive":     {WARC, compressed(zeros(), gzipWriter), 0},
		"zeros in zstd, as JSON":           {JSONL, compressed(zeros(), zstdWriter), 0},
		"zeros in gzip, as fingerprints":   {Fingerprints, compressed(zeros(), gzipWriter), 0},
		"a bomb in a member, and another":  {WARC, strings.NewReader(gzipped(httpRecord("a", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"+inner)) + gzipped(after)), 1},
		"a bomb in a bomb":                 {WARC, strings.NewReader(httpRecord("a", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip, gzip\r\n\r\n"+gzipped(inner)) + after), 1},
		"sixty layers":                     {WARC, strings.NewReader(httpRecord("a", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: "+strings.Repeat("gzip, ", 59)+"gzip\r\n\r\n"+layers(page, 60)) + after), 1},
		"chunks of one byte":               {WARC, strings.NewReader(httpRecord("a", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked(strings.Repeat("x", 1<<16), 1)) + after), 2},
		"a chunk that claims all there is": {WARC, strings.NewReader(httpRecord("a", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nx") + after), 1},
	} {
		t.Run(name, func(t *testing.T) {
			totals, peak := readHostile(t, test.format, test.input)
			if totals.Documents < test.want || totals.Records != totals.Documents+totals.Skips() {
				t.Errorf("%+v, want %d documents", totals, test.want)
			}
			if peak > 24<<20 {
				t.Errorf("%d bytes", peak)
			}
		})
	}
}

func layers(s string, n int) string {
	for range n {
		s = gzipped(s)
	}
	return s
}

// A frame may ask for a window of 128 MiB, which is then taken, and no more.
func TestZstdWindows(t *testing.T) {
	frame := func(windowLog int, content string) string {
		block := uint32(len(content))<<3 | 1 // the last one, stored
		return "\x28\xb5\x2f\xfd\x00" + string([]byte{byte(windowLog-10) << 3, byte(block), byte(block >> 8), byte(block >> 16)}) + content
	}
	for log, readable := range map[int]bool{10: true, 20: true, 27: true, 28: false, 31: false, 41: false} {
		t.Run(fmt.Sprint("2^", log), func(t *testing.T) {
			totals, peak := readHostile(t, Detect, strings.NewReader(frame(log, page)))
			if (totals.Documents == 1) != readable || totals.Records != 1 {
				t.Errorf("%+v", totals)
			}
			if limit := uint64(16<<20 + 1<<min(log, 27)); peak > limit {
				t.Errorf("%d bytes", peak)
			}
		})
	}
}

// An archive, and lines, that end at any byte: what is whole is read, and the rest counted.
func TestTruncatedAnywhere(t *testing.T) {
	a, b := response("a", page), response("b", page)
	lines := `{"url":"u","text":"t"}` + "\n" + `{"url":"v","text":"\u00e9 t"}` + "\n"
	for name, whole := range map[string]string{
		"archive": a + b, "gzip": gzipped(a) + gzipped(b), "zstd": zstded(a) + zstded(b), "lines": lines, "lines in gzip": gzipped(lines),
	} {
		step := 1
		if testing.Short() {
			step = 7
		}
		for n := 0; n < len(whole); n += step {
			records := readString(t, Options{}, whole[:n])
			if name == "archive" && n > len(a) && (len(records) == 0 || records[0].Key != "a" || records[0].Skip != nil) {
				t.Errorf("%s cut at %d: %s", name, n, brief(records))
			}
		}
	}
}
