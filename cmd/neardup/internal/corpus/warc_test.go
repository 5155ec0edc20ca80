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
		"warcinfo": "u pass warcinfo", "request": "u pass request", "metadata": "u pass metadata", "revisit": "u pass revisit",
		"continuation": "u pass continuation", "x-own": "u pass unknown WARC-Type", "": "u lost no WARC-Type",
		"resource": "u html " + page, "conversion": "u html " + page, "RESPONSE": "u html " + page,
	} {
		check(t, readString(t, Options{}, record(kind, "u", "text/html", page)), want)
	}
}

func TestVersions(t *testing.T) {
	for _, version := range []string{"WARC/0.17", "WARC/0.18", "WARC/1.0", "WARC/1.1"} {
		file := strings.ReplaceAll(response("a", page)+response("b", page), "WARC/1.0", version)
		check(t, readString(t, Options{}, file), "a html "+page, "b html "+page)
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
		{"line feeds only", strings.ReplaceAll(withLength(a, "Content-Length: 68")+withLength(b, "Content-Length: 68"), "\r\n", "\n"), ab},
		{"no empty lines after a record", strings.TrimRight(a, "\r\n") + b, ab},
		{"no empty lines at the end", a + strings.TrimRight(b, "\r\n"), ab},
		{"one empty line", strings.TrimSuffix(a, "\r\n") + b, ab},
		{"many empty lines", "\r\n\n" + a + strings.Repeat("\r\n", 5000) + b + "\n\n\n", ab},
		{"a byte order mark", byteOrderMark + a + b, ab},
		{"URI in angle brackets", response("<a>", page) + b, ab},
		{"names in any case", strings.ReplaceAll(strings.ReplaceAll(a, "WARC-Type", "warc-type"), "Content-Length", "CONTENT-length") + b, ab},
		{"folded line", strings.Replace(a, "WARC-Type: ", "WARC-Type:\r\n  ", 1) + b, ab},
		{"line without a colon", strings.Replace(a, "WARC-Type", "nonsense\r\nWARC-Type", 1) + b, ab},
		{"a field twice", strings.Replace(a, "WARC-Target-URI: a", "WARC-Target-URI: a\r\nWARC-Target-URI: z", 1) + b, ab},
		{"spaces around a length", withLength(a, "Content-Length:  \t 71  ") + b, ab},
		{"segments", record("response", "a", "application/http", "x", "WARC-Segment-Number: 1") + b, []string{"a lost segmented record", ab[1]}},
		{"a DNS lookup", record("response", "dns:x", "text/dns", "20080430204825\nx. 589 IN A 1.2.3.4") + b, []string{"dns:x pass not text: text/dns", ab[1]}},
		{"no URI", record("resource", "", "text/html", page) + b, []string{" html " + page, ab[1]}},
		{"empty resource", record("resource", "a", "text/html", "") + b, []string{"a lost empty", ab[1]}},
		{"a page that holds a record", record("resource", "a", "text/plain", "see\r\n\r\n"+b) + b,
			[]string{"a text see\r\n\r\n" + b, ab[1]}},
		{"an image", record("resource", "a", "image/png", "x") + b, []string{"a lost not text: image/png", ab[1]}},
		{"an image called a page", record("resource", "a", "text/html", "\x89PNG\r\n\x1a\nx") + b, []string{"a lost not text: image/png", ab[1]}},
		{"a page called nothing", record("resource", "a", "", page) + b, ab},
		{"a page called a stream", record("resource", "a", "application/octet-stream", page) + b, ab},
		{"a strange media type", record("resource", "a", "\"\x01, what/", page) + b, ab},
		{"words that begin as bitmaps do", record("resource", "a", "text/plain", "BMW and others") + b, []string{"a text BMW and others", ab[1]}},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, readString(t, Options{}, test.file), test.want...)
		})
	}
}

// What a crawler appends to an archive while it is read is read too.
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

// A record whose Content-Length lies is a skip. What the length reaches into is lost with it,
// and what begins behind that is read.
func TestLengthsThatLie(t *testing.T) {
	a, b, c := response("a", page), response("b", page), response("c", page)
	if n := len("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page); n != 71 {
		t.Fatalf("the lengths below are made for a block of 71 bytes, not %d", n)
	}
	long := response("a", strings.Repeat(page, 3000))
	wrong, db, dc := "a lost wrong Content-Length", "b html "+page, "c html "+page
	for _, test := range []struct {
		name, file string
		want       []string // one after the other
		members    []string // a gzip member each
	}{
		{"missing", withLength(a, "X: "), []string{wrong, db, dc}, []string{wrong, db, dc}},
		{"negative", withLength(a, "Content-Length: -5"), []string{wrong, db, dc}, []string{wrong, db, dc}},
		{"not a number", withLength(a, "Content-Length: many"), []string{wrong, db, dc}, []string{wrong, db, dc}},
		{"over 64 bits", withLength(a, "Content-Length: 99999999999999999999"), []string{wrong, db, dc}, []string{wrong, db, dc}},
		{"huge", withLength(a, "Content-Length: 9223372036854775807"), []string{"a lost truncated record"}, []string{wrong, db, dc}},
		{"zero", withLength(a, "Content-Length: 0"), []string{wrong, db, dc}, []string{wrong, db, dc}},
		{"too small", withLength(a, "Content-Length: 50"), []string{wrong, db, dc}, []string{wrong, db, dc}},
		{"too small by a bit", withLength(a, "Content-Length: 70"), []string{wrong, db, dc}, []string{wrong, db, dc}},
		{"into the next header", withLength(a, "Content-Length: 100"), []string{wrong, dc}, []string{wrong, db, dc}},
		{"beyond the next record", withLength(a, "Content-Length: 300"), []string{wrong}, []string{wrong, db, dc}},
		{"one too many, as wget has it", withLength(a, "Content-Length: 72"), []string{"a html " + page + "\r", db, dc}, []string{"a html " + page + "\r", db, dc}},
		{"too small, large record", withLength(long, "Content-Length: 70"), []string{wrong, db, dc}, []string{wrong, db, dc}},
		{"of an image", withLength(record("response", "a", "image/png", "x"), "Content-Length: 0"), []string{wrong, db, dc}, []string{wrong, db, dc}},
		{"of a request", withLength(record("request", "a", "application/http", "GET"), "Content-Length: 0"),
			[]string{"a pass wrong Content-Length", db, dc}, []string{"a pass wrong Content-Length", db, dc}},
		{"of a request, into the next record", withLength(record("request", "a", "application/http", "GET"), "Content-Length: 150"),
			[]string{wrong, dc}, []string{wrong, db, dc}},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, readString(t, Options{}, test.file+b+c), test.want...)
			check(t, readString(t, Options{}, gzipped(test.file+b+c)), test.want...)
			check(t, readString(t, Options{}, zstded(test.file+b+c)), test.want...)
			check(t, readString(t, Options{}, gzipped(test.file)+gzipped(b)+gzipped(c)), test.members...)
		})
	}
	t.Run("beyond the end of a file", func(t *testing.T) {
		folder := writeFiles(t, map[string]string{"x.warc": withLength(a, "Content-Length: 9223372036854775807") + b + c})
		records := readFiles(t, Options{}, folder)
		check(t, records, wrong, db, dc)
		if want := "it says 9223372036854775807, and no record follows there; went on 75 bytes behind the header"; records[0].Skip.Detail != want {
			t.Errorf("%s, want %s", records[0].Skip.Detail, want)
		}
	})
	t.Run("every length", func(t *testing.T) {
		behind := a[strings.Index(a, "\r\n\r\n")+4:] + b + c
		for n := range 400 {
			want := []string{wrong, db, dc}
			ends := 71 <= n && n <= 75 || 71+len(b) <= n && n <= 75+len(b)
			if !ends && strings.HasPrefix(behind[n:], "\r\n\r\n") {
				continue // looks like the end of a record: that of a header
			}
			switch {
			case 71+len(b) <= n && n <= 75+len(b): // as large as both
				want = []string{"a html ", dc}
			case 71 <= n && n <= 75:
				want[0] = "a html " + page
			case n > 75+len(b):
				want = want[:1]
			case n > 75:
				want = []string{wrong, dc}
			}
			records := readString(t, Options{}, withLength(a, fmt.Sprint("Content-Length: ", n))+b+c)
			if n >= 71 && records[0].Skip == nil {
				records[0].Content = bytes.TrimRight(records[0].Content, "\r\n") // empty lines behind the block
				if n > 75 {
					records[0].Content = nil
				}
			}
			if check(t, records, want...); t.Failed() {
				t.Fatalf("with a Content-Length of %d", n)
			}
		}
	})
	t.Run("every record", func(t *testing.T) {
		file := strings.Repeat(withLength(response("a", page), "Content-Length: 50"), 200)
		check(t, readString(t, Options{MaxDocument: 100}, file+b), append(slices.Repeat([]string{wrong}, 200), db)...)
	})
	t.Run("of the last record", func(t *testing.T) {
		for _, file := range []string{a + withLength(b, "Content-Length: 400"), gzipped(a) + gzipped(withLength(b, "Content-Length: 400"))} {
			records := readString(t, Options{}, file)
			check(t, records, "a html "+page, "b lost truncated record")
			if brokenAmong(records) != 1 {
				t.Errorf("%d broken places", brokenAmong(records))
			}
		}
	})
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
		{"rubbish between records", a + "rubbish\nand more\x00" + strings.Repeat("z", 100_000) + "\n" + b, []string{da, " lost no WARC record", db}},
		{"rubbish at the end", a + b + "rubbish", []string{da, db, " lost no WARC record"}},
		{"cut in a header", a + b[:40], []string{da, " lost truncated record header"}},
		{"cut in a block", a + b[:len(b)-20], []string{da, "b lost truncated record"}},
		{"cut in a member", za + zb[:len(zb)-20] + zc, []string{da, "b lost bad gzip"}},
		{"cut in the last member", za + zb[:len(zb)-20], []string{da, "b lost truncated gzip"}},
		{"cut in a member's header", za + zb[:5], []string{da, " lost truncated gzip"}},
		{"a bit of a member", za + flip(zb, len(zb)/2) + zc, []string{da, "LOST bad gzip"}},
		{"a bit of a checksum", za + flip(zb, len(zb)-6) + zc, []string{da, "b lost bad gzip"}},
		{"rubbish between members", za + "rubbish" + zb, []string{da, " lost bad gzip"}},
		{"zeros between members", za + strings.Repeat("\x00", 1000) + zb + "\x00\x00", []string{da, db}},
		{"empty members", gzipped("") + za + gzipped("") + gzipped("") + zb + gzipped(""), []string{da, db}},
		{"a member that is no record", za + gzipped("rubbish") + zb, []string{da, " lost no WARC record", db}},
		{"a record over two members", gzipped(a[:100]) + gzipped(a[100:]) + zb, []string{da, db}},
		{"a cut frame", zstded(a + b)[:60], []string{"LOST truncated zstd"}},
		{"rubbish between frames", zstded(a) + "rubbish" + zstded(b), []string{da, " lost bad zstd"}},
		{"a bad dictionary", "\x5d\x2a\x4d\x18\x28\x00\x00\x00\x37\xa4\x30\xec" + strings.Repeat("rubb", 9) + zstded(a), []string{" lost bad zstd"}},
		{"a cut dictionary", "\x5d\x2a\x4d\x18\x08\x00\x00\x00\x37\xa4", []string{" lost truncated zstd"}},
		{"a frame to be passed over", "\x5d\x2a\x4d\x18\x04\x00\x00\x00rubb" + zstded(a), []string{da}},
		{"nothing but empty lines", "\r\n\r\n", []string{" lost empty"}},
		{"a header without end", a + "WARC/1.0\r\n" + strings.Repeat("X: y\r\n", 300_000) + "\r\n\r\n" + b, []string{da, " lost record header too large", db}},
		{"a header line without end", a + "WARC/1.0\r\n" + strings.Repeat("X", 3_000_000) + "\r\n\r\n" + b, []string{da, " lost record header too large", db}},
		{"folds without end", a + "WARC/1.0\r\nX:" + strings.Repeat("\n ", 400_000) + "\r\n\r\n" + b, []string{da, " lost wrong Content-Length", db}},
	} {
		t.Run(test.name, func(t *testing.T) {
			records := readString(t, Options{Format: WARC}, test.file)
			got := brief(records)
			for i, want := range test.want {
				if reason, ok := strings.CutPrefix(want, "LOST "); ok && i < len(records) { // how much was read of it may vary
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
