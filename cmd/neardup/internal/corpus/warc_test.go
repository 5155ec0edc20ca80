package corpus

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRecordTypes(t *testing.T) {
	for kind, want := range map[string]string{
		"warcinfo": "u pass warcinfo", "request": "u pass request", "metadata": "u pass metadata",
		"revisit":      "u pass revisit",
		"continuation": "u pass continuation", "x-own": "u pass unknown WARC-Type",
		"":         "u lost no WARC-Type",
		"resource": "u html " + page, "conversion": "u html " + page, "RESPONSE": "u html " + page,
	} {
		check(t, readString(t, Options{}, record(kind, "u", "text/html", page)), want)
	}
}

func TestQuirks(t *testing.T) {
	ab := []string{"a html " + page, "b html " + page}
	b := response("b", page)
	a := response("a", page)
	for _, test := range []struct {
		name, file string
		want       []string
	}{
		{"WARC 0.17 and 0.18", strings.ReplaceAll(a, "WARC/1.0", "WARC/0.17") +
			strings.ReplaceAll(b, "WARC/1.0", "WARC/0.18"), ab},
		{"line feeds only",
			strings.ReplaceAll(withLength(a, "Content-Length: 68")+
				withLength(b, "Content-Length: 68"), "\r\n", "\n"), ab},
		{"no empty lines after a record", strings.TrimRight(a, "\r\n") + b, ab},
		{"no empty lines at the end", a + strings.TrimRight(b, "\r\n"), ab},
		{"one empty line", strings.TrimSuffix(a, "\r\n") + b, ab},
		{"a space after the version", strings.ReplaceAll(a, "WARC/1.0", "WARC/1.0 ") +
			strings.ReplaceAll(b, "WARC/1.0", "WARC/1.1\t"), ab},
		{"many empty lines", "\r\n\n" + a + strings.Repeat("\r\n", 5000) + b + "\n\n\n", ab},
		{"a byte order mark", byteOrderMark + a + b, ab},
		{"URI in angle brackets", response("<a>", page) + b, ab},
		{"names in any case", strings.ReplaceAll(strings.ReplaceAll(a, "WARC-Type", "warc-type"),
			"Content-Length", "CONTENT-length") + b, ab},
		{"line without a colon", strings.Replace(a, "WARC-Type", "nonsense\r\nWARC-Type", 1) + b,
			ab},
		{"a field twice", strings.Replace(a, "WARC-Target-URI: a",
			"WARC-Target-URI: a\r\nWARC-Target-URI: z", 1) + b, ab},
		{"spaces around a length", withLength(a, "Content-Length:  \t 71  ") + b, ab},
		{"segments", record("response", "a", "application/http", "x", "WARC-Segment-Number: 1") + b,
			[]string{"a lost segmented record", ab[1]}},
		{"a DNS lookup", record("response", "dns:x", "text/dns", "20080430204825\nx. 589 IN A "+
			"1.2.3.4") + b, []string{"dns:x pass not text: text/dns", ab[1]}},
		{"no URI", record("resource", "", "text/html", page) + b, []string{" html " + page, ab[1]}},
		{"empty resource", record("resource", "a", "text/html", "") + b,
			[]string{"a lost empty", ab[1]}},
		{"a page that holds a record", record("resource", "a", "text/plain", "see\r\n\r\n"+b) + b,
			[]string{"a text see\r\n\r\n" + b, ab[1]}},
		{"an image", record("resource", "a", "image/png", "x") + b,
			[]string{"a lost not text: image/png", ab[1]}},
		{"an image called a page", record("resource", "a", "text/html", "\x89PNG\r\n\x1a\nx") + b,
			[]string{"a lost not text: image/png", ab[1]}},
		{"a page called nothing", record("resource", "a", "", page) + b, ab},
		{"a page called a stream", record("resource", "a", "application/octet-stream", page) + b,
			ab},
		{"a strange media type", record("resource", "a", "\"\x01, what/", page) + b, ab},
		{"words that begin as bitmaps do", record("resource", "a", "text/plain", "BMW and others") +
			b, []string{"a text BMW and others", ab[1]}},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, readString(t, Options{}, test.file), test.want...)
		})
	}
}

// Records that a crawler appends to an archive during the reading are read.
func TestGrowingArchive(t *testing.T) {
	long := strings.Repeat("a line of the page\n", 100_000)
	a, b, c := response("a", long), response("b", long), response("c", page)
	path := filepath.Join(writeFiles(t, map[string]string{"x.warc": a + b[:len(b)/2]}), "x.warc")
	var got []string
	for raw, err := range newReader(t, Options{}, path).RawRecords(t.Context()) {
		must(t, err)
		if len(got) == 0 {
			must(t, os.WriteFile(path, []byte(a+b+c), 0o666))
		}
		r := raw.Parse()
		got = append(got, fmt.Sprint(r.Key, r.Skip == nil))
	}
	if want := []string{"atrue", "btrue", "ctrue"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A record with a wrong Content-Length ends where the next record begins, and no other record is
// lost.
func TestWrongContentLength(t *testing.T) {
	a, b, c := response("a", page), response("b", page), response("c", page)
	if n := len("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page); n != 71 {
		t.Fatalf("the lengths below require a block of 71 bytes, not %d", n)
	}
	long := response("a", strings.Repeat(page, 3000))
	da, db, dc := "a html "+page, "b html "+page, "c html "+page
	for _, test := range []struct{ name, file, want string }{
		{"missing", withLength(a, "X: "), da},
		{"negative", withLength(a, "Content-Length: -5"), da},
		{"not a number", withLength(a, "Content-Length: many"), da},
		{"over 64 bits", withLength(a, "Content-Length: 99999999999999999999"), da},
		{"huge", withLength(a, "Content-Length: 9223372036854775807"), da},
		{"zero", withLength(a, "Content-Length: 0"), da},
		{"too small", withLength(a, "Content-Length: 50"), da},
		{"too small by one", withLength(a, "Content-Length: 70"), da},
		{"into the next version", withLength(a, "Content-Length: 78"), da},
		{"into the next header", withLength(a, "Content-Length: 100"), da},
		{"beyond the next record", withLength(a, "Content-Length: 300"), da},
		{"one too many, as wget writes it", withLength(a, "Content-Length: 72"), da + "\r"},
		{"too small, a large record", withLength(long, "Content-Length: 70"),
			"a html " + strings.Repeat(page, 3000)},
		{"of an image", withLength(record("response", "a", "image/png", "x"), "Content-Length: 0"),
			"a lost not text: image/png"},
		{"of a request", withLength(record("request", "a", "application/http", "GET"),
			"Content-Length: 0"), "a pass request"},
		{"of a request, into the next record",
			withLength(record("request", "a", "application/http", "GET"), "Content-Length: 150"),
			"a pass request"},
		{"without an empty line after the block", withLength(strings.TrimRight(a, "\r\n")+"\r\n",
			"Content-Length: 90"), da},
		{"line feeds only, too small", strings.ReplaceAll(withLength(a, "Content-Length: 60"),
			"\r\n", "\n"), da},
		{"line feeds only, too large", strings.ReplaceAll(withLength(a, "Content-Length: 80"),
			"\r\n", "\n"), da},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := []string{test.want, db, dc}
			file := filepath.Join(writeFiles(t, map[string]string{"x.warc": test.file + b + c}),
				"x.warc")
			check(t, readFiles(t, Options{}, file), want...)
			for _, input := range []string{test.file + b + c, gzipped(test.file + b + c),
				zstded(test.file + b + c), gzipped(test.file) + gzipped(b) + gzipped(c)} {
				check(t, readString(t, Options{}, input), want...)
			}
			if !strings.HasSuffix(test.want, "\r") {
				// the last record
				for _, input := range []string{b + c + test.file,
					gzipped(b) + gzipped(c) + gzipped(test.file)} {
					records := readString(t, Options{}, input)
					if got := brief(records[min(2, len(records)):]); got != test.want+"\n" &&
						(len(records) != 3 || records[2].Skip == nil || !records[2].Skip.Broken) {
						t.Errorf("the last record: %s", brief(records))
					}
				}
			}
			r := newReader(t, Options{Originals: true,
				Stdin: strings.NewReader(test.file + b + c)}, "-")
			records := readAll(t, r)
			if repaired := r.Totals().Repaired; repaired != 1 &&
				!strings.HasSuffix(test.want, "\r") {
				t.Errorf("%d records are counted as repaired", repaired)
			}
			if o := records[0].Original; o != nil { // it is a correct record
				check(t, readString(t, Options{}, string(o.Header)+string(o.Body)+"\r\n\r\n"+b),
					test.want, db)
			}
		})
	}
	t.Run("too large, at the end of the file", func(t *testing.T) {
		for _, n := range []int{72, 74, 76, 80, 1000} {
			for _, wrap := range []func(string) string{gzipped, zstded,
				func(s string) string { return s }} {
				records := readString(t, Options{}, wrap(b)+
					wrap(withLength(a, fmt.Sprint("Content-Length: ", n))))
				if len(records) != 2 || records[1].Skip != nil ||
					strings.TrimSpace(string(records[1].Content)) != page {
					t.Errorf("%d: %s", n, brief(records))
				}
			}
		}
	})
	t.Run("every length", func(t *testing.T) {
		for n := range 400 {
			records := readString(t, Options{}, withLength(a,
				fmt.Sprint("Content-Length: ", n))+b+c)
			want := []string{da, db, dc}
			switch {
			case n == 40: // the empty line after the HTTP header is taken for the end of the record
				want = []string{"a lost empty", " lost not a WARC record", db, dc}
			case 71+len(b) <= n && n <= 75+len(b): // as large as both records
				want = []string{"a html ", dc}
				records[0].Content = nil
			case records[0].Skip == nil:
				// empty lines after the block
				records[0].Content = bytes.TrimRight(records[0].Content, "\r\n")
			}
			if check(t, records, want...); t.Failed() {
				t.Fatalf("with a Content-Length of %d", n)
			}
		}
	})
	t.Run("every record", func(t *testing.T) {
		for _, n := range []int{50, 80, 10_000} {
			file := strings.Repeat(withLength(response("a", page),
				fmt.Sprint("Content-Length: ", n)), 200)
			check(t, readString(t, Options{MaxDocument: 10_000}, file+b),
				append(slices.Repeat([]string{da}, 200), db)...)
		}
	})
	t.Run("a large length before small ones", func(t *testing.T) {
		file := withLength(a, "Content-Length: 150000") +
			strings.Repeat(withLength(a, "Content-Length: 1000"), 1000)
		check(t, readString(t, Options{}, file+b), append(slices.Repeat([]string{da}, 1001), db)...)
	})
	t.Run("a truncated record", func(t *testing.T) {
		for _, file := range []string{a + b[:len(b)-10], a + withLength(b[:len(b)-10], "X: y"),
			gzipped(a) + gzipped(b[:len(b)-10])} {
			records := readString(t, Options{}, file)
			check(t, records, da, "b lost truncated record")
			if brokenAmong(records) != 1 {
				t.Errorf("%d broken places", brokenAmong(records))
			}
		}
	})
}

// Reading is not quadratic if the Content-Length of each record covers the rest of the archive.
func TestWrongContentLengthIsNotSlow(t *testing.T) {
	one := withLength(response("a", page), "Content-Length: 1048576")
	in := &generator{fill: one, size: 16 << 20}
	r := newReader(t, Options{MaxDocument: 1 << 20, Stdin: in}, "-")
	if _, err := countUntilError(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	totals := r.Totals()
	if totals.Documents < 60 || totals.Records > totals.Documents+40 ||
		totals.Skipped["wrong Content-Length"] == 0 || r.Broken() == nil {
		t.Errorf("%+v, %v", totals, r.Broken())
	}
}

// Records of a crawler about pages and about itself are not pages.
func TestCrawlerRecords(t *testing.T) {
	db := "b html " + page
	for uri, want := range map[string]string{
		"urn:text:https://a.example/":                              "not a page: urn:text",
		"urn:textFinal:https://a.example/":                         "not a page: urn:textFinal",
		"urn:pageinfo:https://a.example/":                          "not a page: urn:pageinfo",
		"urn:thumbnail:https://a.example/":                         "not a page: urn:thumbnail",
		"urn:view:about:blank":                                     "not a page: urn:view",
		"urn:anything:https://a.example/":                          "not a page: urn:anything",
		"urn:X-wpull:log":                                          "not a page: urn:X-wpull",
		"metadata://gnu.org/software/wget/warc/wget_arguments.txt": "not a page: metadata",
		"screenshot:https://a.example/":                            "not a page: screenshot",
		"youtube-dl:00001:https://a.example/":                      "not a page: youtube-dl",
		"urn:uuid:9c2a5b1e-0000-4000-8000-000000000000":            "",
		"https://a.example/?u=urn:text:https://b.example/":         "",
		"http://a.example/":                                        "",
		"https://web.archive.org/web/2020/http://a.example/":       "",
		"doi:10.1000/182":                                          "",
	} {
		for _, kind := range []string{"resource", "conversion"} {
			record := record(kind, uri, "text/plain; charset=utf-8", "some words of the page")
			want := uri + " pass " + want
			if strings.HasSuffix(want, " ") {
				want = uri + " text some words of the page"
			}
			check(t, readString(t, Options{}, record+response("b", page)), want, db)
		}
	}
}

// A conversion of a page in the same archive is not a page. In a WET file, conversions are pages.
func TestConversions(t *testing.T) {
	text := func(uri string) string { return record("conversion", uri, "text/plain", "words") }
	check(t, readString(t, Options{}, text("a")+text("b")), "a text words", "b text words")
	check(t, readString(t, Options{}, response("a", page)+text("a")+text("b")), "a html "+page,
		"a pass not a page: conversion", "b text words")
	check(t, readString(t, Options{}, httpRecord("a", "HTTP/1.1 404 Not Found\r\n\r\n")+text("a")),
		"a pass status 404", "a text words")
}

// Code and data of a site without a declared type are not pages.
func TestRecordsOfUnknownType(t *testing.T) {
	for _, test := range []struct{ uri, content, want string }{
		{"http://a/x.css?v=3", "a text", "not text: text/css"},
		{"http://a/x.js", "a text", "not text: text/javascript"},
		{"http://a/x.js", page, ""},
		{"http://a/x", `{"a":1,"b":[2]}`, "not text: application/json"},
		{"http://a/x", `[{"a":1}]`, "not text: application/json"},
		{"http://a/x", "<?xml version='1.0'?><rss><channel/></rss>", "not text: application/xml"},
		{"http://a/x", "<svg xmlns='http://www.w3.org/2000/svg'/>", "not text: application/xml"},
		{"http://a/x", "<?xml version='1.0'?><html><p>words</html>", ""},
		{"http://a/x", "Some words: {a} and [b]; no more.", ""},
		{"http://a/x", "[1] A. Author, A Title", ""},
		{"http://a/x", "import duties rise: from \"today\" on", ""},
		{"http://a/x", "Let me say: it is a function of time {see below}", ""},
	} {
		want := test.uri + " lost " + test.want
		for _, header := range []string{"", "Content-Type: application/octet-stream\r\n"} {
			records := readString(t, Options{}, httpRecord(test.uri,
				"HTTP/1.1 200 OK\r\n"+header+"\r\n"+test.content))
			if test.want != "" {
				check(t, records, want)
			} else if records[0].Skip != nil {
				t.Errorf("%.40q: %v", test.content, records[0].Skip)
			}
		}
		if records := readString(t, Options{}, httpRecord(test.uri,
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"+
				test.content)); records[0].Skip != nil {
			t.Errorf("%.40q, declared as text: %v", test.content, records[0].Skip)
		}
	}
}

// Binary content is not a page, whatever its declared type is.
func TestBinaryCalledHTML(t *testing.T) {
	ole := "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00", 100)
	utf16 := "\xff\xfe<\x00p\x00>\x00w\x00o\x00r\x00d\x00"
	check(t,
		readString(t, Options{}, response("a", ole)+response("b", utf16)+
			response("c", gzipped(ole))),
		"a lost not text: application/x-ole-storage", "b html "+utf16,
		"c lost not text: application/x-ole-storage")
}

func TestBrokenArchives(t *testing.T) {
	a, b, c := response("a", page), response("b", page), response("c", page)
	da, db := "a html "+page, "b html "+page
	za, zb, zc := gzipped(a), gzipped(b), gzipped(c)
	flip := func(s string, i int) string { return s[:i] + string(s[i]^0x55) + s[i+1:] }
	for _, test := range []struct {
		name, file string
		want       []string
	}{
		{"rubbish between records", a + "rubbish\nand more\x00" + strings.Repeat("z", 100_000) +
			"\n" + b, []string{da, " lost not a WARC record", db}},
		{"rubbish at the end", a + b + "rubbish", []string{da, db, " lost not a WARC record"}},
		{"cut in a header", a + b[:40], []string{da, " lost truncated record header"}},
		{"cut in a block", a + b[:len(b)-20], []string{da, "b lost truncated record"}},
		{"cut in a member", za + zb[:len(zb)-20] + zc, []string{da, "b lost bad gzip"}},
		{"cut in the last member", za + zb[:len(zb)-20], []string{da, "b lost truncated gzip"}},
		{"cut in a member's header", za + zb[:5], []string{da, " lost truncated gzip"}},
		{"a bit of a member", za + flip(zb, len(zb)/2) + zc, []string{da, "LOST bad gzip"}},
		{"a bit of a checksum", za + flip(zb, len(zb)-6) + zc, []string{da, "b lost bad gzip"}},
		{"rubbish between members", za + "rubbish" + zb, []string{da, " lost bad gzip"}},
		{"empty members", gzipped("") + za + gzipped("") + gzipped("") + zb + gzipped(""),
			[]string{da, db}},
		{"a member without a record", za + gzipped("rubbish") + zb,
			[]string{da, " lost not a WARC record", db}},
		{"a record over two members", gzipped(a[:100]) + gzipped(a[100:]) + zb, []string{da, db}},
		{"a cut frame", zstded(a + b)[:60], []string{"LOST truncated zstd"}},
		{"rubbish between frames", zstded(a) + "rubbish" + zstded(b),
			[]string{da, " lost bad zstd"}},
		{"a bad dictionary", "\x5d\x2a\x4d\x18\x28\x00\x00\x00\x37\xa4\x30\xec" +
			strings.Repeat("rubb", 9) + zstded(a), []string{" lost bad zstd"}},
		{"a cut dictionary", "\x5d\x2a\x4d\x18\x08\x00\x00\x00\x37\xa4",
			[]string{" lost truncated zstd"}},
		{"a skippable frame", "\x5d\x2a\x4d\x18\x04\x00\x00\x00rubb" + zstded(a), []string{da}},
		{"nothing but empty lines", "\r\n\r\n", []string{" lost empty"}},
		{"a header without end", a + "WARC/1.0\r\n" + strings.Repeat("X: y\r\n", 300_000) +
			"\r\n\r\n" + b, []string{da, " lost record header too large", db}},
		{"a header line without end", a + "WARC/1.0\r\n" + strings.Repeat("X", 3_000_000) +
			"\r\n\r\n" + b, []string{da, " lost record header too large", db}},
		{"many folded lines", a + "WARC/1.0\r\nX:" + strings.Repeat("\n ", 400_000) + "\r\n\r\n" +
			b, []string{da, " lost no WARC-Type", db}},
	} {
		t.Run(test.name, func(t *testing.T) {
			records := readString(t, Options{Format: WARC}, test.file)
			got := brief(records)
			for i, want := range test.want {
				// the amount that was read of it may vary
				if reason, ok := strings.CutPrefix(want, "LOST "); ok && i < len(records) {
					if skip := records[i].Skip; skip == nil || skip.Reason != reason {
						t.Errorf("record %d: %v, want %s", i, skip, reason)
					}
					got = strings.Replace(got, brief(records[i:i+1]), want+"\n", 1)
				}
			}
			if want := strings.Join(test.want, "\n") + "\n"; got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func TestOffsets(t *testing.T) {
	a, b := response("a", page), response("b", page)
	for name, c := range map[string]struct {
		input  string
		second int // where the second record begins
	}{
		"plain":       {a + b, len(a)},
		"one member":  {gzipped(a + b), len(a)},
		"two members": {gzipped(a) + gzipped(b), len(gzipped(a))},
		"two frames":  {zstded(a) + zstded(b), len(a)},
	} {
		records := readString(t, Options{}, c.input)
		if len(records) != 2 || records[0].Offset != 0 || records[1].Offset != int64(c.second) {
			t.Errorf("%s: %+v, want 0 and %d", name, records, c.second)
		}
	}
}
