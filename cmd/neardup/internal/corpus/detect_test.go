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
		{"x.txt", `{"a":1}`, TextFile, ""},
		{"readme.md", "<html>", TextFile, ""},
		{"x.u64le", "12345678", U64LE, ""},
		{"x.fingerprints", "1", Fingerprints, ""},
		{"x.json", "\xef\xbb\xbf {\"a\":1}", JSONL, ""},
		{"-", "<!doctype html>", HTMLFile, ""},
		{"-", "<!-- x --><p>", HTMLFile, ""},
		{"-", "<?xml version='1.0'?><html xmlns='x'>", HTMLFile, ""},
		{"-", "some words", TextFile, ""},
		{"-", "été", TextFile, ""},
		{"-", "x\x00" + strings.Repeat("é", sniffBytes)[1:sniffBytes-1], Detect, "not text: application/octet-stream"},
		{"-", "x" + strings.Repeat("é", sniffBytes)[:sniffBytes-1], TextFile, ""}, // cut inside a character
		{"-", "0123456789abcdef\n0123456789abcde0\tkey\n", Fingerprints, ""},
		{"-", "0123456789abcdef", Fingerprints, ""},
		{"-", "0xff\n\n0x1", Fingerprints, ""},
		{"-", "18446744073709551615\r\n12345678901234567890\tb", Fingerprints, ""},
		{"-", "2024\n2025\n", TextFile, ""},
		{"-", "0123456789abcdef\nbut then words", TextFile, ""},
		{"-", strings.Repeat("0123456789abcdef\n", 1000)[:sniffBytes], Fingerprints, ""}, // cut inside a line
		{"-", "", Detect, "empty"},
		{"-", "filedesc://x.arc 0.0.0.0 20080430 text/plain 70\n", Detect, "not supported: ARC"},
		{"-", "\x89PNG\r\n\x1a\n", Detect, "not text: image/png"},
		{"-", "PK\x03\x04", Detect, "not text: application/zip"},
		{"-", gzipped("x"), Detect, "not text: application/x-gzip"},
		{"-", "%PDF-1.4", Detect, "not text: application/pdf"},
		{"-", "\x00\x01\x02", Detect, "not text: application/octet-stream"},
	} {
		format, problem := detectFormat(test.name, []byte(test.head))
		reason := ""
		if problem != nil {
			reason = problem.Reason
		}
		if format != test.format || reason != test.problem {
			t.Errorf("%s, %.40q: got %q, %q, want %q, %q", test.name, test.head, format, reason, test.format, test.problem)
		}
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range []Format{Detect, WARC, WET, JSONL, HTMLFile, TextFile, Fingerprints, Decimal, U64LE} {
		if got, err := ParseFormat(string(f)); got != f || err != nil {
			t.Errorf("%q: %q, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("arc"); err == nil || !strings.Contains(err.Error(), "warc, wet, jsonl, html, text, fingerprints, decimal, u64le") {
		t.Errorf("arc: %v", err)
	}
}
