package corpus

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// generator is a reader of head, of fill repeated up to size bytes, and of tail.
type generator struct {
	head, fill, tail string
	size             int64 // of the repeated fill, rounded down
	n                int64
	begun            bool
	at               func(n int64) // called every MiB
	told             int64
}

func (g *generator) Read(p []byte) (int, error) {
	if g.at != nil && g.n-g.told >= 1<<20 {
		g.told = g.n
		g.at(g.n)
	}
	if !g.begun {
		g.begun = true
		if g.fill == "" {
			g.fill = " "
		}
		g.size -= g.size % int64(len(g.fill))
		g.fill = strings.Repeat(g.fill, 1+4096/len(g.fill)) // so that large pieces are copied
	}
	end := int64(len(g.head)) + g.size
	var n int
	switch {
	case g.n < int64(len(g.head)):
		n = copy(p, g.head[g.n:])
	case g.n < end:
		p = p[:min(int64(len(p)), end-g.n)]
		for n < len(p) {
			n += copy(p[n:], g.fill[(g.n-int64(len(g.head))+int64(n))%int64(len(g.fill)):])
		}
	case g.n < end+int64(len(g.tail)):
		n = copy(p, g.tail[g.n-end:])
	default:
		return 0, io.EOF
	}
	g.n += int64(n)
	return n, nil
}

// compressed returns a reader of the compressed bytes of g.
func compressed(g io.Reader, writer func(io.Writer) io.WriteCloser) io.Reader {
	r, w := io.Pipe()
	go func() {
		z := writer(w)
		_, err := io.CopyBuffer(struct{ io.Writer }{z}, g, make([]byte, 1<<20))
		if err == nil {
			err = z.Close()
		}
		w.CloseWithError(err)
	}()
	return r
}

func gzipWriter(w io.Writer) io.WriteCloser {
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	return z
}

func zstdWriter(w io.Writer) io.WriteCloser {
	z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20))
	return z
}

// TestMemory reads hostile inputs of 32 MiB, or of 2 GB as in docs/limits.md, with documents of at
// most 1 MiB.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short")
	}
	size, records := int64(32<<20), int64(30_000)
	if os.Getenv("NEARDUP_LONG") != "" {
		size, records = 2<<30, 5_000_000
	}
	const html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	const line = "\n" + `{"url":"u","text":"last"}`
	const tooLarge, last = " lost too large\n", "u text last\n"
	after, lost := response("after", page), "a lost too large\n"
	read := "after html " + page + "\n"
	endless := func(head, fill, tail string) io.Reader {
		return &generator{head: head, fill: fill, size: size, tail: tail}
	}
	many := func(n int64, head, fill string) io.Reader {
		return &generator{head: head, fill: fill, size: n}
	}
	zeros := func() io.Reader { return endless("", strings.Repeat("\x00", 1<<10), "") }
	tiny := func() io.Reader {
		one := record("response", "u", "text/html", "x")
		return &generator{fill: one, size: records * int64(len(one)), tail: after}
	}
	inBody := func(header, body string) io.Reader {
		return strings.NewReader(httpRecord("a", html+header+"\r\n\r\n"+body) + after)
	}
	bomb := gzipped(strings.Repeat("\x00", 32<<20))
	for _, test := range []struct {
		name   string
		format Format
		input  io.Reader
		want   string // the beginning of each record, without repetitions
	}{
		{"tiny records", WARC, tiny(), "u html x\n" + read},
		{"tiny records in one gzip member", WARC, compressed(tiny(), gzipWriter),
			"u html x\n" + read},

		{"a JSON line of one string", JSONL, endless(`{"text":"`, "x", `"}`+line), tooLarge + last},
		{"a JSON line of escapes", JSONL, endless(`{"text":"`, `\u0041`, `"}`+line),
			tooLarge + last},
		{"a JSON line that is not UTF-8", JSONL, endless(`{"text":"`, "\xff\xc0\x80", `"}`+line),
			tooLarge + last},
		{"a JSON line of brackets", JSONL, endless(`{"a":`, "[", line), tooLarge + last},
		{"a JSON line of members", JSONL, endless("{", `"k":1,`, `"k":1}`+line), tooLarge + last},
		{"blank lines", JSONL, endless("", strings.Repeat(" ", 200)+"\n", line), last},
		{"a line of a fingerprint", Fingerprints, endless("1\t", "x", "\n2\n"),
			tooLarge + " 0000000000000002\n"},

		{"an array of one string", JSON, endless(`[{"text":"`, "x",
			`"},{"url":"u","text":"last"}]`), tooLarge + last},
		{"an array of brackets", JSON, endless("[", "[", ""), tooLarge + " lost truncated json\n"},
		{"an array of braces", JSON, endless("[", `{"a":`, ""),
			tooLarge + " lost truncated json\n"},
		{"an array of numbers", JSON, many(1<<18, "[", "1,"),
			" lost bad json\n lost truncated json\n"},
		{"an array of nothing", JSON, endless("[", " ,\n", `{"url":"u","text":"last"}]`), last},

		{"a page", HTMLFile, endless("<html>", "x", ""), " lost too large\n"},
		{"a gzip bomb", Detect, compressed(endless("<html>", "x", ""), gzipWriter),
			" lost too large\n"},
		{"a zstd bomb", Detect, compressed(endless("<html>", "x", ""), zstdWriter),
			" lost too large\n"},
		{"a bomb of an archive", WARC, compressed(zeros(), gzipWriter),
			" lost not a WARC record\n"},
		{"a bomb of JSON", JSONL, compressed(zeros(), zstdWriter), tooLarge},
		{"a bomb in a body", WARC, inBody("Content-Encoding: gzip", bomb), lost + read},
		{"a bomb of Brotli in a body", WARC, inBody("Content-Encoding: br",
			brotlied(strings.Repeat("\x00", 32<<20))), lost + read},
		{"a bomb in a bomb", WARC, inBody("Content-Encoding: gzip, gzip", gzipped(bomb)),
			lost + read},
		{"sixty layers", WARC, inBody("Content-Encoding: "+strings.Repeat("gzip, ", 59)+"gzip",
			layers(page, 60)), "a lost too many content encodings\n" + read},
		{"a header of encodings", WARC, inBody("Content-Encoding: "+strings.Repeat("a,", 1_000_000),
			page), "a lost too many content encodings\n" + read},
		{"chunks of one byte", WARC, inBody("Transfer-Encoding: chunked",
			chunked(strings.Repeat("x", 1<<16), 1)),
			"a html " + strings.Repeat("x", 53) + "\n" + read},
		{"a chunk of a huge size", WARC, inBody("Transfer-Encoding: chunked", "7fffffffffffffff x"),
			"a html 7fffffffffffffff x\n" + read},

		{"a record", WARC,
			endless(
				strings.TrimSuffix(withLength(response("a", ""),
					fmt.Sprint("Content-Length: ", int64(len(html)+2)+size)), "\r\n\r\n"), "x",
				"\r\n\r\n"+after), lost + read},
		{"a record whose length lies", WARC,
			endless(withLength(response("a", ""), "Content-Length: 5"), "x", "\r\n\r\n"+after),
			lost + read},
		{"a length beyond the end", WARC,
			endless(withLength(response("a", ""), "Content-Length: 999999999999"), "x", ""),
			"a lost truncated record\n"},
		{"a header of lines", WARC, endless("WARC/1.0\r\n", "A: b\r\n", "\r\n"+after),
			" lost record header too large\n" + read},
		{"a header of one line", WARC, endless("WARC/1.0\r\n", "A", "\r\n\r\n"+after),
			" lost record header too large\n" + read},
		{"no record", WARC, endless("", "WARC/ \n", after), " lost not a WARC record\n" + read},
		{"small records", WARC, many(2<<20, "", "WARC/1.0\r\n\r\n\r\n\r\n"),
			" lost no WARC-Type\n"},
		{"small members", WARC, many(30<<20, gzipped(after), gzipped("\r\n")), read},
		{"empty members", WARC, many(30<<20, gzipped(after), gzipped("")), read},
		{"members that are cut", WARC, many(3<<20, gzipped(after),
			"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x07"), read + " lost bad gzip\n"},
		{"bad lines", JSONL, many(1<<18, "", "{\n"), " lost bad json\n"},
		{"bad lines of a list", Fingerprints, many(1<<18, "", "x\n"), " lost bad fingerprint\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, peak := readMeasured(t, test.format, test.input)
			if got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			// About ten documents of 1 MiB, or the skips of a chunk of a list, are in memory. On a
			// busy machine, garbage takes up to as much again.
			limit := uint64(30 << 20)
			if strings.HasPrefix(test.name, "tiny") {
				limit = 20 << 20
			}
			if peak > limit {
				t.Errorf("peak heap %d bytes, limit %d", peak, limit)
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

// readMeasured reads an input. It returns the beginning of each record, without repetitions, and
// the peak of the heap.
func readMeasured(t *testing.T, format Format, input io.Reader) (records string, peak uint64) {
	r := newReader(t, Options{Format: format, MaxDocument: 1 << 20, Stdin: input}, "-")
	last := ""
	peak = testenv.PeakHeap(func() {
		for u, err := range r.RawRecords(t.Context()) {
			must(t, err)
			line := strings.TrimSuffix(brief([]Record{u.Parse()}), "\n")
			if line = line[:min(len(line), 60)] + "\n"; line != last && len(records) < 1000 {
				records, last = records+line, line
			}
		}
	})
	t.Logf("heap at most %.1f MiB", float64(peak)/(1<<20))
	return records, peak
}

// A frame takes a window of up to 128 MiB. A larger window is refused.
func TestZstdWindows(t *testing.T) {
	frame := func(windowLog int, content string) string {
		block := uint32(len(content))<<3 | 1 // the last one, stored
		return "\x28\xb5\x2f\xfd\x00" +
			string([]byte{byte(windowLog-10) << 3, byte(block), byte(block >> 8),
				byte(block >> 16)}) + content
	}
	for log, readable := range map[int]bool{10: true, 20: true, 27: true, 28: false,
		31: false, 41: false} {
		checkWindow(t, "zstd", frame(log, page), log, readable)
	}
}

// checkWindow reads a page whose decoder takes 2^log bytes, at most 128 MiB.
func checkWindow(t *testing.T, format, input string, log int, readable bool) {
	t.Helper()
	got, peak := readMeasured(t, Detect, strings.NewReader(input))
	want := " lost bad " + format + "\n"
	if readable {
		want = " html " + page + "\n"
	}
	if limit := uint64(16<<20 + 1<<min(log, 27)); got != want || peak > limit {
		t.Errorf("2^%d: %d bytes, limit %d; got %s, want %s", log, peak, limit, got, want)
	}
}

// A stream of xz takes a dictionary of up to 128 MiB. A larger dictionary is refused.
func TestXZDictionaries(t *testing.T) {
	for size, readable := range map[byte]bool{0: true, 28: true, 30: true, 31: false,
		40: false, 41: false} {
		checkWindow(t, "xz", xzed(page, size), int(size)/2+12, readable)
	}
	c := readString(t, Options{}, xzed(page, 40))[0].Skip
	if want := "its dictionary is over 128 MiB: decompress it, xz -dc FILE | neardup dedup -"; !strings.Contains(c.Detail, want) {
		t.Errorf("%s, want %s", c.Detail, want)
	}
}
