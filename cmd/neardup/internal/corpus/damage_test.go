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
		"xz": xzed(28) + xzed(28), "lines": lines, "lines in gzip": gzipped(lines),
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
