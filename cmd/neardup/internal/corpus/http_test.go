package corpus

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
	"pgregory.net/rapid"
)

func deflated(s string) string {
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, 5)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

func zlibbed(s string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

// chunked returns s in chunks of n bytes.
func chunked(s string, n int) string {
	var b strings.Builder
	for len(s) > 0 {
		n := min(n, len(s))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, s[:n])
		s = s[n:]
	}
	return b.String() + "0\r\n\r\n"
}

func TestHTTP(t *testing.T) {
	const html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	const doc = "u html " + page
	big := strings.Repeat(page, 2000)
	for _, test := range []struct{ name, message, want string }{
		{"plain", html + "\r\n" + page, doc},
		{"line feeds only", "HTTP/1.0 200\nContent-Type: text/html\n\n" + page, doc},
		{"mixed line ends", "HTTP/1.0 200 OK\nContent-Type: text/html\r\n\n" + page, doc},
		{"HTTP/2", "HTTP/2 200\r\ncontent-type: text/html\r\n\r\n" + page, doc},
		{"ICY", "ICY 200 OK\r\nContent-Type: text/html\r\n\r\n" + page, doc},
		{"no status", "HTTP/1.1\r\n\r\n" + page, "u lost bad http"},
		{"bad status", "HTTP/1.1 20x OK\r\n\r\n" + page, "u lost bad http"},
		{"no http", page, "u lost bad http"},
		{"nothing", "", "u lost bad http"},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" +
			html + "\r\n" + page, doc},
		{"header only", html, "u lost empty"},
		{"no body", html + "\r\n", "u lost empty"},
		{"status 404", "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n" + page,
			"u pass status 404"},
		{"status 302", "HTTP/1.1 302 \r\nnnCoection: close\n\n", "u pass status 302"},
		{"line without a colon", "HTTP/1.1 200 OK\r\nnonsense\r\nContent-Type: text/html\r\n\r\n" +
			page, doc},
		{"wrong lengths", html + "Content-Length: -1\r\nContent-Length:     3\r\n\r\n" + page, doc},
		{"no type", "HTTP/1.1 200 OK\r\n\r\n" + page, doc},
		{"no type, text", "HTTP/1.1 200 OK\r\n\r\nSome words.", "u text Some words."},
		{"no type, binary", "HTTP/1.1 200 OK\r\n\r\n\x00\x01\x02",
			"u lost not text: application/octet-stream"},
		{"last type counts", "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Type: " +
			"text/html\r\n\r\n" + page, doc},
		{"image", "HTTP/1.1 200 OK\r\nContent-Type: Image/PNG; x=y\r\n\r\nx",
			"u lost not text: image/png"},
		{"pdf called html", html + "\r\n%PDF-1.4\n1 0 obj", "u lost not text: application/pdf"},

		{"chunked", html + "Transfer-Encoding: chunked\r\n\r\n" + chunked(page, 7), doc},
		{"padded sizes and extensions", html + "Transfer-Encoding: " +
			"Chunked\r\n\r\n0000003;a=b\r\n<p>\r\n5  \r\nwords\r\n00000000\r\n\r\n",
			"u html <p>words"},
		{"chunks with line feeds",
			html + "Transfer-Encoding: chunked\r\n\r\n3\n<p>\n5\nwords\n0\n\n", "u html <p>words"},
		{"trailers", html + "Transfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\n0\r\nX: y\r\n\r\n",
			"u html <p>"},
		{"declared chunked", html + "Transfer-Encoding: chunked\r\n\r\n" + page, doc},
		{"declared chunked, begins with a number", html +
			"Transfer-Encoding: chunked\r\n\r\n5\r\nand more words", "u html 5\r\nand more words"},
		{"no last chunk", html + "Transfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\n", "u html <p>"},
		{"cut in a chunk", html + "Transfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\nff\r\nwor",
			"u html <p>wor"},
		{"declared chunked, begins like a chunk", html + "Transfer-Encoding: " +
			"chunked\r\n\r\n3\r\n<p>\r\nmore words", "u html 3\r\n<p>\r\nmore words"},
		{"declared chunked, begins with hexadecimal digits",
			html + "Transfer-Encoding: chunked\r\n\r\n1998\r\nwas a year",
			"u html 1998\r\nwas a year"},
		{"declared chunked, begins with a word of hexadecimal digits",
			html + "Transfer-Encoding: chunked\r\n\r\nDecade\r\nafter decade",
			"u html Decade\r\nafter decade"},
		{"declared chunked, begins with the length of the next line",
			html + "Transfer-Encoding: chunked\r\n\r\n5\r\nwords\r\nand more",
			"u html 5\r\nwords\r\nand more"},
		{"declared chunked, begins with zero", html + "Transfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\nis a number", "u html 0\r\n\r\nis a number"},
		{"declared chunked and gzip, begins with hexadecimal digits",
			html + "Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\nface\r\nto face",
			"u html face\r\nto face"},
		{"gzip cut in its first chunk", html + "Transfer-Encoding: chunked\r\nContent-Encoding: " +
			"gzip\r\n\r\nffff\r\n" + gzipped(page), doc},
		{"chunk of a huge size", html + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n<p>",
			"u html ffffffffffffffff\r\n<p>"},

		{"gzip", html + "Content-Encoding: gzip\r\n\r\n" + gzipped(page), doc},
		{"x-gzip", html + "Content-Encoding: X-GZip\r\n\r\n" + gzipped(page), doc},
		{"gzip in chunks", html + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunked(gzipped(page), 9), doc},
		{"gzip as a transfer encoding", html + "Transfer-Encoding: gzip, chunked\r\n\r\n" +
			chunked(gzipped(page), 9), doc},
		{"declared gzip", html + "Content-Encoding: gzip\r\n\r\n" + page, doc},
		{"undeclared gzip", html + "\r\n" + gzipped(page), doc},
		{"gzip twice", html + "Content-Encoding: gzip, gzip\r\n\r\n" + gzipped(gzipped(page)), doc},
		{"gzip in two members", html + "Content-Encoding: gzip\r\n\r\n" + gzipped(page[:9]) +
			gzipped(page[9:]), doc},
		{"gzip and other data", html + "Content-Encoding: gzip\r\n\r\n" + gzipped(page) +
			"other data", doc},
		{"gzip without its end", html + "Content-Encoding: gzip\r\n\r\n" +
			gzipped(page)[:len(gzipped(page))-8], doc},
		{"gzip, a bad checksum", html + "Content-Encoding: gzip\r\n\r\n" +
			gzipped(page)[:len(gzipped(page))-8] + "12345678", "u lost bad gzip body"},
		{"gzip, nothing but the magic", html + "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08",
			"u lost bad gzip body"},
		{"deflate", html + "Content-Encoding: deflate\r\n\r\n" + zlibbed(page), doc},
		{"deflate, bare", html + "Content-Encoding: deflate\r\n\r\n" + deflated(page), doc},
		{"declared deflate", html + "Content-Encoding: deflate\r\n\r\n" + page, doc},
		{"deflate called gzip", html + "Content-Encoding: gzip\r\n\r\n" + zlibbed(page), doc},
		{"bare deflate called gzip", html + "Content-Encoding: gzip\r\n\r\n" + deflated(page), doc},
		{"gzip called deflate", html + "Content-Encoding: deflate\r\n\r\n" + gzipped(page), doc},
		{"zstd called gzip", html + "Content-Encoding: gzip\r\n\r\n" + zstded(page), doc},
		{"gzip called br", html + "Content-Encoding: br\r\n\r\n" + gzipped(page), doc},
		{"bytes called gzip", html + "Content-Encoding: gzip\r\n\r\n\xff\xfe\xfd\xfc",
			"u lost bad gzip body"},
		{"deflate, broken", html + "Content-Encoding: deflate\r\n\r\n\xff\xfe\xfd\xfc",
			"u lost bad deflate body"},
		{"zstd", html + "Content-Encoding: zstd\r\n\r\n" + zstded(page), doc},
		{"declared zstd", html + "Content-Encoding: zstd\r\n\r\n" + page, doc},
		{"br", html + "Content-Encoding: br\r\n\r\n" + brotlied(page), doc},
		{"br, cut short", html + "Content-Encoding: br\r\n\r\n" + brotlied(page)[:10],
			"u html <html><"},
		{"br of gzip", html + "Content-Encoding: gzip, br\r\n\r\n" + brotlied(gzipped(page)), doc},
		{"br, broken", html + "Content-Encoding: br\r\n\r\n\xff\xfe\x00\xfc", "u lost bad br body"},
		{"an unknown encoding of binary data", html + "Content-Encoding: " +
			"pack200\r\n\r\n\x1b\x1a\x00\xf8\xa5", "u lost unknown content encoding"},
		{"declared br", html + "Content-Encoding: br\r\n\r\n" + page, doc},
		{"identity", html + "Content-Encoding: identity\r\n\r\n" + page, doc},
		{"a charset as encoding", html + "Content-Encoding: UTF-8\r\n\r\n" + page, doc},
		{"an unknown encoding", html + "Content-Encoding: a\x01b\r\n\r\n\xff\x00",
			"u lost unknown content encoding"},
		{"too many encodings", html + "Content-Encoding: gzip,gzip,gzip,gzip,gzip\r\n\r\n" + page,
			"u lost too many content encodings"},
		{"encodings on many lines", html + strings.Repeat("Content-Encoding: gzip\r\n", 20_000) +
			"\r\n" + page, "u lost too many content encodings"},
		{"too large", html + "\r\n" + big, "u lost too large"},
		{"too large in gzip", html + "Content-Encoding: gzip\r\n\r\n" + gzipped(big),
			"u lost too large"},
		{"too large in gzip twice", html + "Content-Encoding: gzip, gzip\r\n\r\n" +
			gzipped(gzipped(big)), "u lost too large"},
		{"too large in deflate", html + "Content-Encoding: deflate\r\n\r\n" + deflated(big),
			"u lost too large"},
		{"too large in zstd", html + "Content-Encoding: zstd\r\n\r\n" + zstded(big),
			"u lost too large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := Options{MaxDocument: 40_000}
			check(t, readString(t, opts, httpRecord("u", test.message)+response("b", page)),
				test.want, "b html "+page)
		})
	}
}

func TestDechunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 1, 2000).Draw(t, "body")
		size := rapid.IntRange(1, 500).Draw(t, "size")
		if got := dechunk([]byte(chunked(string(body), size))); !bytes.Equal(got, body) {
			t.Errorf("got %q", got)
		}
	})
}
