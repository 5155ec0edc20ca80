package corpus

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// generator gives head, then fill over and over up to size bytes, then tail.
type generator struct {
	head, fill, tail string
	size             int64 // rounded down to whole fills; 0 for head and tail only
	n                int64
	at               func(n int64) // called every MiB
	told             int64
}

func (g *generator) Read(p []byte) (int, error) {
	if g.at != nil && g.n-g.told >= 1<<20 {
		g.told = g.n
		g.at(g.n)
	}
	if g.fill == "" {
		g.fill = " "
	}
	g.size -= g.size % int64(len(g.fill))
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

// compressed gives what write makes of a generator, without holding it.
func compressed(g *generator, writer func(io.Writer) io.WriteCloser) io.Reader {
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
	z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20))
	return z
}

// Inputs of 32 MiB, most of them, with documents of at most 1 MiB: what is held
// stays far below the input.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short")
	}
	const size = 32 << 20
	const limit = 1 << 20
	after := response("after", page)
	bomb := gzipped(strings.Repeat("x", 32<<20))
	for _, test := range []struct {
		name   string
		format Format
		input  io.Reader
		want   string // the records, those of the same kind once
	}{
		{"a long JSON line", JSONL, &generator{head: `{"text":"`, fill: "x", size: size, tail: "\"}\n" + `{"url":"u","text":"t"}`}, " lost too large\nu text t\n"},
		{"a long JSON line in gzip", JSONL, compressed(&generator{head: `{"text":"`, fill: "x", size: size, tail: "\"}\n" + `{"url":"u","text":"t"}`}, gzipWriter),
			" lost too large\nu text t\n"},
		{"a long fingerprint line", Fingerprints, &generator{head: "1\t", fill: "x", size: size, tail: "\n2\n"}, " lost too large\n 0000000000000002\n"},
		{"blank lines", JSONL, &generator{fill: "\n", size: size, tail: `{"text":"t"}`}, " text t\n"},
		{"a large page", HTMLFile, &generator{head: "<html>", fill: "x", size: size}, "- lost too large\n"},
		{"a gzip bomb", Detect, compressed(&generator{head: "<html>", fill: "x", size: size}, gzipWriter), "- lost too large\n"},
		{"a zstd bomb", Detect, compressed(&generator{head: "<html>", fill: "x", size: size}, zstdWriter), "- lost too large\n"},
		{"a large record", WARC, &generator{head: strings.TrimSuffix(withLength(response("a", ""), fmt.Sprint("Content-Length: ", len("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")+size)), "\r\n\r\n"), fill: "x", size: size, tail: "\r\n\r\n" + after},
			"a lost too large\nafter html " + page + "\n"},
		{"a large record with a length that lies", WARC, &generator{head: withLength(response("a", ""), "Content-Length: 5"), fill: "x", size: size, tail: "\r\n\r\n" + after},
			"a lost wrong Content-Length\nafter html " + page + "\n"},
		{"a large record in gzip", WARC, compressed(&generator{head: withLength(response("a", ""), "Content-Length: 1"), fill: "x", size: size, tail: "\r\n\r\n" + after}, gzipWriter),
			"a lost wrong Content-Length\nafter html " + page + "\n"},
		{"a length beyond the end", WARC, &generator{head: withLength(response("a", ""), "Content-Length: 999999999999"), fill: "x", size: size}, "a lost truncated record\n"},
		{"a bomb in a body", WARC, strings.NewReader(httpRecord("a", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"+bomb) + after),
			"a lost too large\nafter html " + page + "\n"},
		{"a header of endless lines", WARC, &generator{head: "WARC/1.0\r\n", fill: "A: b\r\n", size: size, tail: "\r\n" + after},
			" lost record header too large\nafter html " + page + "\n"},
		{"a header of one line", WARC, &generator{head: "WARC/1.0\r\n", fill: "A", size: size, tail: "\r\n\r\n" + after},
			" lost record header too large\nafter html " + page + "\n"},
		{"no record at all", WARC, &generator{fill: "WARC/ \n", size: size, tail: after}, " lost no WARC record\nafter html " + page + "\n"},
		{"many small records", WARC, &generator{fill: "WARC/1.0\r\n\r\n\r\n\r\n", size: 8 << 20}, " lost wrong Content-Length\n"},
		{"many small members", WARC, &generator{head: gzipped(after), fill: gzipped("\r\n"), size: 30 << 20}, "after html " + page + "\n"},
		{"many empty members", WARC, &generator{head: gzipped(after), fill: gzipped(""), size: 30 << 20}, "after html " + page + "\n"},
		{"many members that are cut", WARC, &generator{head: gzipped(after), fill: "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x07", size: 10 << 20}, "after html " + page + "\n lost bad gzip\n"},
		{"many bad lines", JSONL, &generator{fill: "{\n", size: 1 << 20}, " lost bad json\n"},
		{"many bad lines of a list", Fingerprints, &generator{fill: "x\n", size: 4 << 20}, " lost bad fingerprint\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReader(t, Options{Format: test.format, MaxDocument: limit, Stdin: test.input}, "-")
			got := ""
			last := ""
			peak := measureHeap(func() {
				for u, err := range r.RawRecords(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if line := brief([]Record{u.Parse()}); line != last {
						got, last = got+line, line
					}
				}
			})
			if len(got) > 1000 {
				got = got[:1000]
			}
			if got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			t.Logf("peak heap %.1f MiB", float64(peak)/(1<<20))
			if peak > 24*limit {
				t.Errorf("peak heap %d bytes for documents of %d", peak, limit)
			}
		})
	}
}

// measureHeap is how much the heap grows at most while f runs, looked at from
// time to time.
func measureHeap(f func()) (peak uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	look := func() {
		runtime.ReadMemStats(&m)
		if m.HeapAlloc > before {
			peak = max(peak, m.HeapAlloc-before)
		}
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				look()
			}
		}
	}()
	f()
	close(done)
	<-stopped
	return peak
}
