package corpus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestOneDamagedRecord damages one record. In a compressed file, all records before it are read,
// and the file is broken. In a file that is not compressed, all records are read, except the
// records that the length of a shortened record covers.
func TestOneDamagedRecord(t *testing.T) {
	for name, wrap := range map[string]func(string) string{
		"plain": func(s string) string { return s }, "gzip": gzipped,
	} {
		t.Run(name,
			func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { damageOne(t, rt, wrap) }) })
	}
}

func damageOne(t *testing.T, rt *rapid.T, wrap func(string) string) {
	n := rapid.IntRange(1, 6).Draw(rt, "records")
	victim := rapid.IntRange(0, n-1).Draw(rt, "victim")
	var file strings.Builder
	want, bodies := map[string]string{}, map[string]string{}
	compressed := wrap("") != ""
	missing := 0 // bytes that the length of the victim covers in other records
	for i := range n {
		key := fmt.Sprintf("http://%d/", i)
		body := page + rapid.StringMatching(`[a-z \r\n]{0,200}`).Draw(rt, "body") + "."
		stored := wrap(response(key, body))
		bodies[key] = body
		switch {
		case i == victim:
			from := 0
			switch {
			case !compressed: // a truncated header could include the next header
				from = strings.Index(stored, "\r\n\r\n") + 4
			case i == 0: // or else the file is not recognized
				from = len(gzipMagic)
			}
			whole := len(stored)
			stored = stored[:from] + damageString(rt, stored[from:])
			missing = whole - len(stored)
		case !compressed && missing > 0:
			missing -= len(stored)
		case compressed && i > victim: // the records after the damage are lost
		default:
			want[key] = body
		}
		file.WriteString(stored)
	}
	records := readString(t, Options{Format: WARC}, file.String())
	for _, rec := range records {
		if body, ok := want[rec.Key]; ok && rec.Skip == nil && string(rec.Content) == body {
			delete(want, rec.Key)
		} else if rec.Skip == nil && rec.Key != fmt.Sprintf("http://%d/", victim) &&
			string(rec.Content) != bodies[rec.Key] {
			rt.Errorf("an unexpected record: %s", brief([]Record{rec}))
		}
	}
	if len(want) > 0 {
		rt.Errorf("lost %v of\n%q\n%s", want, file.String(), brief(records))
	}
	if compressed && len(records) != n && brokenAmong(records) == 0 {
		rt.Errorf("%d of %d records, and the file is not broken\n%s", len(records), n,
			brief(records))
	}
}

// damageString changes a byte, removes bytes or truncates s.
func damageString(t *rapid.T, s string) string {
	at := rapid.IntRange(1, len(s)-2).Draw(t, "at")
	if rapid.Bool().Draw(t, "cut") {
		return s[:at]
	}
	b := []byte(s)
	b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
	if to := rapid.IntRange(at, len(b)-1).Draw(t, "to"); rapid.Bool().Draw(t, "hole") {
		b = slices.Delete(b, at, to)
	}
	return string(b)
}

// Files that are truncated at any byte are read up to that byte.
func TestTruncatedAnywhere(t *testing.T) {
	a, b := response("a", page), response("b", page)
	lines := `{"url":"u","text":"t"}` + "\n" + `{"url":"v","text":"\u00e9 t"}` + "\n"
	for name, whole := range map[string]string{
		"archive": a + b, "gzip": gzipped(a) + gzipped(b), "zstd": zstded(a) + zstded(b),
		"xz": xzed(a, 0) + xzed(b, 0), "lines": lines, "lines in gzip": gzipped(lines),
	} {
		step := 1
		if testing.Short() {
			step = 7
		}
		for n := 0; n < len(whole); n += step {
			records := readString(t, Options{}, whole[:n])
			if name == "archive" && n > len(a) && (len(records) == 0 || records[0].Key != "a" ||
				records[0].Skip != nil) {
				t.Errorf("%s cut at %d: %s", name, n, brief(records))
			}
		}
	}
}

// TestBzip2 reads one and two streams of bzip2, also truncated and damaged.
func TestBzip2(t *testing.T) {
	const line = "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\xe2\x42\x04\xfa\x00\x00\x0a\xd9\x80\x00\x10\x10\x04\x00\x10\x02\x04\x16\x4a\x20\x00\x22\x26\x99\x36\x89\xfa\x84\x0d\x03\x40\xcc\xb4\x9c\x9b\xe3\xfd\x12\xcc\x1d\xd1\x77\x24\x53\x85\x09\x0e\x24\x20\x4f\xa0"
	check(t, readString(t, Options{}, line+line), "u text t", "u text t")
	check(t, readString(t, Options{}, line+line[:len(line)-20]), "u text t",
		" lost truncated bzip2")
	check(t, readString(t, Options{}, line+flipped(line, len(line)-2)), "u text t", "u text t",
		" lost bad bzip2")
	folder := writeFiles(t, map[string]string{"x.jsonl.bz2": line, "y.u64le.bz2": line})
	r := newReader(t, Options{}, folder)
	if records := readAll(t, r); len(records) < 2 || records[0].Key != "u" ||
		records[1].Kind != Fingerprint {
		t.Errorf("%s", brief(records))
	}
}

// TestUnsupportedZstd reads files of zstd --long=31 and of zstd -D.
func TestUnsupportedZstd(t *testing.T) {
	for file, want := range map[string]string{
		"\x00\xa8\x01\x00\x00": "at byte 6: its window is over 128 MiB: decompress it, zstd " +
			"-dc --long=31 FILE | neardup dedup -",
		"\x21\x07\x00\x01\x00\x00": "at byte 7: its dictionary is not in it: decompress it, zstd " +
			"-dc -D DICTIONARY FILE | neardup dedup -",
	} {
		if records := readString(t, Options{}, string(zstdMagic)+file); len(records) != 1 ||
			records[0].Skip == nil || !strings.HasPrefix(records[0].Skip.Detail, want) {
			t.Errorf("%s, want %s", brief(records), want)
		}
	}
}

// TestXZ reads an output of xz -9, and streams with padding between them, also truncated and
// damaged.
func TestXZ(t *testing.T) {
	const six = "\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x1c\x00\x00\x00\x10\xcf\x58\xcc\xe0\x00\x89\x00\x1c\x5d\x00\x3d\x88\x8a\xa7\x63\xe0\x76\x07\xc5\xb7\x8f\x6a\x54\x39\xa0\x98\xe6\x65\xdf\x65\x77\x98\xa4\x8a\x05\xb3\xc0\x00\x00\xc5\xf4\xb7\x96\x0d\x6b\x01\x0f\x00\x01\x38\x8a\x01\x00\x00\x00\x4b\x9e\x96\x68\xb1\xc4\x67\xfb\x02\x00\x00\x00\x00\x04\x59\x5a"
	check(t, readString(t, Options{}, six), slices.Repeat([]string{"u text t"}, 6)...)
	line := xzed(`{"url":"u","text":"t"}`+"\n", 0)
	check(t, readString(t, Options{}, line+"\x00\x00\x00\x00"+line), "u text t", "u text t")
	check(t, readString(t, Options{}, line+line[:len(line)-20]), "u text t", "u text t",
		" lost truncated xz")
	check(t, readString(t, Options{}, line+flipped(line, len(line)-9)), "u text t", "u text t",
		" lost bad xz")
	check(t, readString(t, Options{}, line+"rubbish, more than a header has"), "u text t",
		" lost bad xz")
	check(t, readString(t, Options{}, string(xzMagic)), " lost truncated xz")
	folder := writeFiles(t, map[string]string{"x.jsonl.xz": line,
		"y.tar.xz": xzed(tarred("x.html", page), 0), "y.u64le.xz": line})
	if records := readFiles(t, Options{}, folder); len(records) < 3 || records[0].Key != "u" ||
		string(records[1].Content) != page || records[2].Kind != Fingerprint {
		t.Errorf("%s", brief(records))
	}
}
