package corpus

import (
	"strings"
	"testing"
)

func TestDetect(t *testing.T) {
	warc := response("a", page)
	for _, test := range []struct {
		name, head string
		format     Format
		problem    string
	}{
		{"x.warc", warc, WARC, ""},
		{"x.html", warc, WARC, ""},
		{"-", "\r\n" + warc, WARC, ""},
		{"-", "WARC/1.0 is a format", TextFile, ""},
		{"x.warc.gz", "rubbish", WARC, ""},
		{"x.wet.zst", "", WARC, ""},
		{"page.HTML", "words", HTMLFile, ""},
		{"a.b/page.htm.gz", `{"a":1}`, HTMLFile, ""},
		{"x.jsonl", "words", JSONL, ""},
		{"x.NDJSON.gz", "", JSONL, ""},
		{"x.txt", `{"a":1}`, JSONL, ""},
		{"x.md", "{1, 2}", TextFile, ""},
		{"readme.md", "<html>", TextFile, ""},
		{"x.u64le", "12345678", U64LE, ""},
		{"x.fingerprints", "1", Fingerprints, ""},
		{"x.json", "\xef\xbb\xbf {\"a\":1}", JSONL, ""},
		{"-", "<!doctype html>", HTMLFile, ""},
		{"-", "<!-- x --><p>", HTMLFile, ""},
		{"-", "<?xml version='1.0'?><html xmlns='x'>", HTMLFile, ""},
		{"-", "some words", TextFile, ""},
		{"-", "été", TextFile, ""},
		{"-", "x\x00" + strings.Repeat("é", sniffBytes)[1:sniffBytes-1], Detect,
			"not text: application/octet-stream"},
		// cut inside a character
		{"-", "x" + strings.Repeat("é", sniffBytes)[:sniffBytes-1], TextFile, ""},
		{"-", "0123456789abcdef\n0123456789abcde0\tkey\n", Fingerprints, ""},
		{"-", "0123456789abcdef", Fingerprints, ""},
		{"-", "0xff\n\n0x1", Fingerprints, ""},
		{"-", "18446744073709551615\r\n12345678901234567890\tb", Fingerprints, ""},
		{"-", "2024\n2025\n", TextFile, ""},
		{"-", "0123456789abcdef\nbut then words", TextFile, ""},
		// cut inside a line
		{"-", strings.Repeat("0123456789abcdef\n", 1000)[:sniffBytes], Fingerprints, ""},
		{"-", "", Detect, "empty"},
		{"x.json", "[\n {\"a\":1}]", JSON, ""},
		{"x.json", "{\n \"a\":1}", JSON, ""},
		{"x.txt", "[{\"a\":1}]", JSON, ""},
		{"-", "[1] A. Author, A Title", TextFile, ""},
		{"-", "\x89PNG\r\n\x1a\n", Detect, "not text: image/png"},
		{"x.html", "\x89PNG\r\n\x1a\n", Detect, "not text: image/png"},
		{"x.txt", "GIF89a\x01\x00", Detect, "not text: image/gif"},
		{"x.html", "BM is a page\n", HTMLFile, ""},
		{"x.html", "\x00\x01\x02", Detect, "not text: application/octet-stream"},
		{"-", gzipped("x"), Detect, "not text: application/x-gzip"},
		{"x.bin", "PAR1\x15\x04", Detect, "not text: application/vnd.apache.parquet"},
		{"x.txt", "%PDF-1.4", Detect, "not text: application/pdf"},
		{"x.html", "\x04\x22\x4d\x18", Detect, "not text: application/x-lz4"},
		{"x.csv", "words", Detect, "not supported: CSV"},
		{"-", "Well, then\nshe said, no\nand left, soon\n", TextFile, ""},
		{"-", "one,two\nthree\nfour,five,six\n", TextFile, ""},
		{"x.csv", "id,phash\n1,8f373714acfcf4d0\n2,8f373714acfcf4d1\n", Detect,
			"not supported: CSV"},
		{"x.txt", "8f373714acfcf4d0\n8f373714acfcf4d1\n", Fingerprints, ""},
		{"-", "p:8f373714acfcf4d0\ta.png\n", Fingerprints, ""},
		{"-", "-8128481726486315824\n-8128481726486315825\n", Fingerprints, ""},
		{"-", "8f373714acfcf4d0, so they say\n", TextFile, ""},
		{"x.txt", "0123456789abcdef\n0123456789abcde0\nxyz\n0123456789abcde1\n", Fingerprints, ""},
		{"-", "xyz\n0123456789abcdef\tkey\n0123456789abcde0\tkey\n", Fingerprints, ""},
		{"x.txt", "of the two\n0123456789abcdef\nand\n0123456789abcde0\none is wrong\n", TextFile,
			""},
		{"x.txt", "https://example.com/\nhttp://example.com/a b\n", TextFile, ""},
		{"x.txt", "https://example.com/\n\nhttp://example.com/a\r\n", Detect,
			"not supported: a list of URLs"},
		{"x.txt", "In 2024 the company made many changes to its policy.\n", TextFile, ""},
		{"x.mht", "some words", Detect, "not supported: MHTML"},
		{"x.cdxj", "", Detect, "not supported: CDX"},
		{"-", "\x00\x01\x02", Detect, "not text: application/octet-stream"},
	} {
		format, problem := detectFormat(test.name, []byte(test.head))
		reason := ""
		if problem != nil {
			reason = problem.Reason
		}
		if format != test.format || reason != test.problem {
			t.Errorf("%s, %.40q: got %q, %q, want %q, %q", test.name, test.head, format, reason,
				test.format, test.problem)
		}
	}
}
