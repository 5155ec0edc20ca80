package corpus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However one record is damaged, all others are read as they are; but where nothing is
// compressed, a record that has become shorter takes the next ones with it that its length
// reaches into, and is then a skip, or the last record.
func TestOneDamagedRecord(t *testing.T) {
	for name, wrap := range map[string]func(string) string{
		"plain": func(s string) string { return s }, "gzip": gzipped,
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { damageOne(t, rt, wrap) }) })
	}
}

func damageOne(t *testing.T, rt *rapid.T, wrap func(string) string) {
	n := rapid.IntRange(1, 6).Draw(rt, "records")
	victim := rapid.IntRange(0, n-1).Draw(rt, "victim")
	var file strings.Builder
	want, bodies := map[string]string{}, map[string]string{}
	compressed := wrap("") != ""
	missing := 0 // bytes of the victim, and of what its length reaches into
	for i := range n {
		key := fmt.Sprintf("http://%d/", i)
		body := page + rapid.StringMatching(`[a-z \r\n]{0,200}`).Draw(rt, "body") + "."
		stored := wrap(response(key, body))
		bodies[key] = body
		switch {
		case i == victim:
			from := 0
			switch {
			case !compressed: // a header that is cut may run into the next one
				from = strings.Index(stored, "\r\n\r\n") + 4
			case i == 0: // else the file is not known for what it is
				from = len(gzipMagic)
			}
			whole := len(stored)
			stored = stored[:from] + damageString(rt, stored[from:])
			missing = whole - len(stored)
		case !compressed && missing > 0:
			missing -= len(stored)
		default:
			want[key] = body
		}
		file.WriteString(stored)
	}
	records := readString(t, Options{Format: WARC}, file.String())
	for _, rec := range records {
		if body, ok := want[rec.Key]; ok && rec.Skip == nil && string(rec.Content) == body {
			delete(want, rec.Key)
		} else if rec.Skip == nil && rec.Key != fmt.Sprintf("http://%d/", victim) && string(rec.Content) != bodies[rec.Key] {
			rt.Errorf("a record too many: %s", brief([]Record{rec}))
		}
	}
	if len(want) > 0 {
		rt.Errorf("lost %v of\n%q\n%s", want, file.String(), brief(records))
	}
}

// damageString changes a byte or cuts some out.
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

// An archive, and lines, that end at any byte: what is whole is read, and the rest counted.
func TestTruncatedAnywhere(t *testing.T) {
	a, b := response("a", page), response("b", page)
	lines := `{"url":"u","text":"t"}` + "\n" + `{"url":"v","text":"\u00e9 t"}` + "\n"
	for name, whole := range map[string]string{
		"archive": a + b, "gzip": gzipped(a) + gzipped(b), "zstd": zstded(a) + zstded(b), "lines": lines, "lines in gzip": gzipped(lines),
	} {
		step := 1
		if testing.Short() {
			step = 7
		}
		for n := 0; n < len(whole); n += step {
			records := readString(t, Options{}, whole[:n])
			if name == "archive" && n > len(a) && (len(records) == 0 || records[0].Key != "a" || records[0].Skip != nil) {
				t.Errorf("%s cut at %d: %s", name, n, brief(records))
			}
		}
	}
}

// The bzip2 of a JSON line, of two behind each other, cut off and damaged.
func TestBzip2(t *testing.T) {
	const line = "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\xe2\x42\x04\xfa\x00\x00\x0a\xd9\x80\x00\x10\x10\x04\x00\x10\x02\x04\x16\x4a\x20\x00\x22\x26\x99\x36\x89\xfa\x84\x0d\x03\x40\xcc\xb4\x9c\x9b\xe3\xfd\x12\xcc\x1d\xd1\x77\x24\x53\x85\x09\x0e\x24\x20\x4f\xa0"
	check(t, readString(t, Options{}, line+line), "u text t", "u text t")
	check(t, readString(t, Options{}, line+line[:len(line)-20]), "u text t", " lost truncated bzip2")
	check(t, readString(t, Options{}, line+flipped(line, len(line)-2)), "u text t", "u text t", " lost bad bzip2")
	folder := writeFiles(t, map[string]string{"x.jsonl.bz2": line, "y.u64le.bz2": line})
	r := newReader(t, Options{}, folder)
	if records := readAll(t, r); len(records) < 2 || records[0].Key != "u" || records[1].Kind != Fingerprint {
		t.Errorf("%s", brief(records))
	}
}
