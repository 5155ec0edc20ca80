package corpus

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/neardup/neardup/internal/mediatype"
	"pgregory.net/rapid"
)

// fuzzRead reads an input. It checks the totals, document sizes, and that an archive has the
// same records if it is compressed.
func fuzzRead(t *testing.T, format Format, input []byte) []Record {
	const limit = 1000
	opts := Options{Format: format, MaxDocument: limit}
	records := readString(t, opts, string(input))
	if len(records) > 2*len(input)+1 {
		t.Fatalf("%d records of %d bytes", len(records), len(input))
	}
	for _, rec := range records {
		if len(rec.Content) > limit {
			t.Fatalf("a document of %d bytes, limit %d", len(rec.Content), limit)
		}
		if rec.Offset < 0 || rec.Offset > 1<<40 {
			t.Fatalf("offset %d of %d", rec.Offset, len(input))
		}
	}
	if format == WARC && !isCompressed(input) {
		if got, want := brief(readString(t, opts, zstded(string(input)))),
			brief(records); got != want {
			t.Errorf("compressed, the records are\n%swant\n%s", got, want)
		}
	}
	return records
}

// isCompressed reports whether an input would be decompressed, or decoded from UTF-16.
func isCompressed(input []byte) bool {
	return mediatype.IsUTF16(input) || bytes.HasPrefix(input, gzipMagic) ||
		bytes.HasPrefix(input, bzip2Magic) || bytes.HasPrefix(input, xzMagic) ||
		bytes.HasPrefix(input, zstdMagic) ||
		len(input) >= 4 && input[0]&0xf0 == 0x50 && bytes.Equal(input[1:4], dictionaryMagic[1:])
}

func FuzzWARC(f *testing.F) {
	a, b := response("a", page), response("b", page)
	for _, seed := range []string{
		a + b, gzipped(a) + gzipped(b), zstded(a) + zstded(b),
		withLength(a, "Content-Length: 9") + b,
		withLength(a, "Content-Length: 200") + b, withLength(a, "X: ") + b, a + "rubbish\r\n" + b,
		"\x5d\x2a\x4d\x18\x04\x00\x00\x00\x37\xa4\x30\xec" + zstded(a),
		gzipped(a)[:60] + gzipped(b),
		gzipped(a + b)[:90], "WARC/1.0\n\n\n\n", "WARC/1.0\r\n \r\n : \r\n\r\n",
		gzipped("") + gzipped(a), a[:50],
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		records := fuzzRead(t, WARC, input)
		if len(records) == 0 && len(bytes.Trim(input, "\x00")) > 0 {
			t.Error("no record, no skip")
		}
		if recordStart(input) { // a record before it is not affected
			check(t, readString(t, Options{Format: WARC, MaxDocument: 1000}, a+string(input))[:1],
				"a html "+page)
		}
	})
}

func FuzzHTTP(f *testing.F) {
	const html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	for _, seed := range []string{
		html + "\r\n" + page, html + "Transfer-Encoding: chunked\r\n\r\n" + chunked(page, 5),
		html + "Content-Encoding: gzip\r\n\r\n" + gzipped(page),
		html + "Content-Encoding: deflate\r\n\r\n" + zlibbed(page),
		html + "Content-Encoding: deflate\r\n\r\n" + deflated(page),
		html + "Content-Encoding: zstd\r\n\r\n" + zstded(page),
		html + "Content-Encoding: gzip, br\r\n\r\n" + page,
		html + "Content-Encoding: br\r\n\r\n" + brotlied(page),
		"HTTP/1.1 100\r\n\r\n" + html + "\r\n" + page,
	} {
		f.Add([]byte(seed))
	}
	a := &archive{pages: map[uint64]bool{},
		source: &source{run: &run{Reader: &Reader{opts: Options{MaxDocument: 1000}}}}}
	f.Fuzz(func(t *testing.T, message []byte) {
		h := recordHeader{kind: "response", contentType: "application/http",
			length: int64(len(message))}
		before := bytes.Clone(message)
		a.content = message
		u := a.interpret(h, h.length)
		u.record.Number = 1
		u.reader = newReader(t, Options{}, "-")
		clear(message) // the next block overwrites the block before the record is parsed
		rec := u.Parse()
		copy(message, before)
		checkTotals(t, []Record{rec}, u.reader.Totals())
		if len(rec.Content) > 1000 {
			t.Errorf("a document of %d bytes", len(rec.Content))
		}
		a.content = before
		direct := a.interpret(h, h.length)
		direct.reader = u.reader
		if again := direct.Parse(); !bytes.Equal(rec.Content, again.Content) ||
			(rec.Skip == nil) != (again.Skip == nil) {
			t.Errorf("parsed later: %+v; at once: %+v", rec, again)
		}
	})
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

func FuzzJSONLines(f *testing.F) {
	for _, seed := range []string{
		`{"url":"u","text":"t"}`, `{"id":1,"html":"\ud83d\ude00\\\"","x":[{"y":"}"}]}` + "\n{",
		`{"key":"k","fingerprint":"0xff"}`, "{}", "[]\n\n \n1", `{"":""}`,
		`{"x":NaN,"url":-Infinity}`, `{"data":[{"text":"t"},{}]}`, "{\"a\xff\":\"\xff\xfe\"}",
		`{"a\u12g4":1}`, `{"a\u12":"b"}`, `{"a\x":1}`, `"\`, "\"\x1f\"", `{"a":"b"c"d"}`, `"a""b"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		records := fuzzRead(t, JSONL, input)
		if isCompressed(input) {
			return
		}
		n := 0
		for line := range bytes.SplitSeq(bytes.TrimPrefix(input, []byte("\xef\xbb\xbf")),
			[]byte{'\n'}) {
			if len(bytes.TrimSpace(line)) > 0 {
				n++
				compareFields(t, line)
			}
		}
		if len(records) != max(1, n) { // a file without lines has one skip
			t.Errorf("%d records of %d lines", len(records), n)
		}
	})
}

// The reader finds as many records in an array as encoding/json finds objects.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`[{"url":"u","text":"t"},{"text":"]"}]`,
		"{\n\"text\":\"\\\"}\"}{}", "[1,[2,{}],]", `["a""b"]`, "[[[", "]}", "\xef\xbb\xbf[]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		records := fuzzRead(t, JSON, input)
		var objects []map[string]json.RawMessage
		if isCompressed(input) || json.Unmarshal(input, &objects) != nil || objects == nil ||
			len(records) == max(1, len(objects)) {
			return
		}
		t.Errorf("%d records of %d objects", len(records), len(objects))
	})
}

func FuzzDetect(f *testing.F) {
	for _, seed := range []string{response("a", page), gzipped(page), zstded(page), `{"text":"t"}`,
		"[{}]", "{\n}", "a,b\n1,2\n3,4\n", "http://a", gzipped(tarred("a", "b")), page, "words",
		"0123456789abcdef\n", "\x89PNG", ""} {
		f.Add(seed, "x.html")
		f.Add(seed, "-")
	}
	f.Fuzz(func(t *testing.T, input, name string) {
		head := []byte(input[:min(len(input), sniffBytes)])
		if format, problem := detectFormat(name, head); (format == Detect) != (problem != nil) {
			t.Errorf("format %q and %v", format, problem)
		}
		readString(t, Options{MaxDocument: 1000}, input)
	})
}
