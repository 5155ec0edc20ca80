package corpus

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// repeated is a reader of a text that repeats without end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		copied := copy(p[n:], r.text[r.at:])
		n += copied
		r.at = (r.at + copied) % len(r.text)
	}
	return n, nil
}

// long returns a reader of head, of fill repeated up to size bytes, and of tail.
func long(head, fill string, size int64, tail string) io.Reader {
	size -= size % int64(len(fill))
	fill = strings.Repeat(fill, 1+4096/len(fill)) // so that large pieces are copied
	return io.MultiReader(strings.NewReader(head), io.LimitReader(&repeated{text: fill}, size),
		strings.NewReader(tail))
}

// compressed returns a reader of the compressed bytes of in.
func compressed(in io.Reader, writer func(io.Writer) io.WriteCloser) io.Reader {
	r, w := io.Pipe()
	go func() {
		z := writer(w)
		_, err := io.CopyBuffer(struct{ io.Writer }{z}, in, make([]byte, 1<<20))
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
	if testenv.Long() {
		size, records = 2<<30, 5_000_000
	}
	const html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	const lastLine, last = "\n" + `{"url":"u","text":"last"}`, "u text last\n"
	const large, noRecord = " lost too large\n", " lost not a WARC record\n"
	after, lost, read := response("after", page), "a lost too large\n", "after html "+page+"\n"
	zeros := func() io.Reader { return long("", strings.Repeat("\x00", 1<<10), size, "") }
	tiny := func() io.Reader {
		one := record("response", "u", "text/html", "x")
		return long("", one, records*int64(len(one)), after)
	}
	inBody := func(field, body string) io.Reader {
		return strings.NewReader(httpRecord("a", html+field+"\r\n\r\n"+body) + after)
	}
	inRecord := func(length int64, tail string) io.Reader {
		line := fmt.Sprint("Content-Length: ", length)
		return long(strings.TrimSuffix(withLength(response("a", ""), line), "\r\n\r\n"), "x", size,
			tail)
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

		{"a JSON line of one string", JSONL, long(`{"text":"`, "x", size, `"}`+lastLine),
			large + last},
		{"a JSON line of brackets", JSONL, long(`{"a":`, "[", size, lastLine), large + last},
		{"blank lines", JSONL, long("", strings.Repeat(" ", 200)+"\n", size, lastLine), last},
		{"bad lines", JSONL, long("", "{\n", 1<<18, ""), " lost bad json\n"},
		{"a line of a fingerprint", Fingerprints, long("1\t", "x", size, "\n2\n"),
			large + " 0000000000000002\n"},
		{"bad lines of a list", Fingerprints, long("", "x\n", 1<<18, ""),
			" lost bad fingerprint\n"},

		{"an array of one string", JSON, long(`[{"text":"`, "x", size, `"},`+lastLine+"]"),
			large + last},
		{"an array of brackets", JSON, long("[", "[", size, ""), large + " lost truncated json\n"},
		{"an array of numbers", JSON, long("[", "1,", 1<<18, ""),
			" lost bad json\n lost truncated json\n"},
		{"an array of nothing", JSON, long("[", " ,\n", size, lastLine+"]"), last},

		{"a page", HTMLFile, long("<html>", "x", size, ""), large},
		{"a gzip bomb", Detect, compressed(long("<html>", "x", size, ""), gzipWriter), large},
		{"a zstd bomb", Detect, compressed(long("<html>", "x", size, ""), zstdWriter), large},
		{"a bomb of an archive", WARC, compressed(zeros(), gzipWriter), noRecord},
		{"a bomb of JSON", JSONL, compressed(zeros(), zstdWriter), large},
		{"a bomb in a body", WARC, inBody("Content-Encoding: gzip", bomb), lost + read},
		{"a bomb of Brotli in a body", WARC, inBody("Content-Encoding: br",
			brotlied(strings.Repeat("\x00", 32<<20))), lost + read},
		{"a bomb in a bomb", WARC, inBody("Content-Encoding: gzip, gzip", gzipped(bomb)),
			lost + read},
		{"a header of encodings", WARC, inBody("Content-Encoding: "+strings.Repeat("a,", 1_000_000),
			page), "a lost too many content encodings\n" + read},

		{"a record", WARC, inRecord(int64(len(html)+2)+size, "\r\n\r\n"+after), lost + read},
		{"a record whose length lies", WARC, inRecord(5, "\r\n\r\n"+after), lost + read},
		{"a length beyond the end", WARC, inRecord(999999999999, ""), "a lost truncated record\n"},
		{"a header of lines", WARC, long("WARC/1.0\r\n", "A: b\r\n", size, "\r\n"+after),
			" lost record header too large\n" + read},
		{"no record", WARC, long("", "WARC/ \n", size, after), noRecord + read},
		{"small records", WARC, long("", "WARC/1.0\r\n\r\n\r\n\r\n", 2<<20, ""),
			" lost no WARC-Type\n"},
		{"small members", WARC, long(gzipped(after), gzipped("\r\n"), 30<<20, ""), read},
		{"empty members", WARC, long(gzipped(after), gzipped(""), 30<<20, ""), read},
		{"members that are cut", WARC, long(gzipped(after),
			"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x07", 3<<20, ""), read + " lost bad gzip\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			// About ten documents of 1 MiB, or the skips of a chunk of a list, are in memory. On a
			// busy machine, garbage takes up to the same amount.
			limit := uint64(30 << 20)
			if strings.HasPrefix(test.name, "tiny") {
				limit = 20 << 20
			}
			checkMemory(t, test.format, test.input, test.want, limit)
		})
	}
}

// checkMemory reads an input, and compares the beginning of each record, without repetitions, and
// the peak of the heap.
func checkMemory(t *testing.T, format Format, input io.Reader, want string, limit uint64) {
	t.Helper()
	r := newReader(t, Options{Format: format, MaxDocument: 1 << 20, Stdin: input}, "-")
	got, last := "", ""
	peak := testenv.PeakHeap(func() {
		for u, err := range r.RawRecords(t.Context()) {
			must(t, err)
			text := describe([]Record{u.Parse()})[0]
			if text = text[:min(len(text), 60)] + "\n"; text != last && len(got) < 1000 {
				got, last = got+text, text
			}
		}
	})
	t.Logf("heap at most %.1f MiB", float64(peak)/(1<<20))
	if got != want || peak > limit {
		t.Errorf("heap of %d bytes, limit %d; got\n%swant\n%s", peak, limit, got, want)
	}
}

// The window of a Zstandard frame and the dictionary of an xz stream have up to 128 MiB. A larger
// window or dictionary is an error.
func TestWindows(t *testing.T) {
	for _, log := range []int{10, 20, 27, 28, 31, 41} {
		block := uint32(len(page))<<3 | 1 // the last one, stored
		frame := append([]byte("\x28\xb5\x2f\xfd\x00"), byte(log-10)<<3, byte(block),
			byte(block>>8), byte(block>>16))
		want := " html " + page + "\n"
		if log > 27 {
			want = " lost bad zstd\n"
		}
		checkMemory(t, Detect, strings.NewReader(string(frame)+page), want,
			16<<20+1<<min(log, 27))
	}
	for _, size := range []byte{0, 28, 30, 31, 40, 41} { // 30 is a dictionary of 128 MiB
		want := "u text t\n"
		if size > 30 {
			want = " lost bad xz\n"
		}
		checkMemory(t, Detect, strings.NewReader(xzed(size)), want, 16<<20+1<<min(size/2+12, 27))
	}
}
