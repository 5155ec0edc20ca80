package corpus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestOneDamagedRecord tests that damage to one record affects no other record. In a compressed
// file, only the records before it must be read, and the file is broken if records are missing. In
// a file that is not compressed, a byte of a block changes.
func TestOneDamagedRecord(t *testing.T) {
	for name, compressed := range map[string]bool{"plain": false, "gzip": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { damageOne(t, rt, compressed) })
		})
	}
}

func damageOne(t *testing.T, rt *rapid.T, compressed bool) {
	var file string
	var want, all []string
	n := rapid.IntRange(1, 6).Draw(rt, "records")
	victim := rapid.IntRange(0, n-1).Draw(rt, "victim")
	for i := range n {
		key := fmt.Sprintf("http://%d/", i)
		body := page + rapid.StringMatching(`[a-z \r\n]{0,200}`).Draw(rt, "body") + "."
		stored := response(key, body)
		from := strings.Index(stored, "\r\n\r\n") + 4
		if compressed {
			stored = gzipped(stored)
			from = len(gzipMagic) // or else the file is not recognized
		}
		if i == victim {
			stored = stored[:from] + damageString(rt, stored[from:], compressed)
		} else {
			all = append(all, key+" html "+body)
		}
		if i < victim || i > victim && !compressed {
			want = append(want, key+" html "+body)
		}
		file += stored
	}
	records := readString(t, Options{Format: WARC}, file)
	got := describe(records)
	for i, rec := range records {
		if rec.Skip == nil && !slices.Contains(all, got[i]) &&
			rec.Key != fmt.Sprintf("http://%d/", victim) {
			rt.Errorf("an unexpected record: %s", got[i])
		}
	}
	for _, document := range want {
		if !slices.Contains(got, document) {
			rt.Errorf("lost %s of\n%q\n%q", document, file, got)
		}
	}
	if compressed && len(records) != n && brokenAmong(records) == 0 {
		rt.Errorf("%d of %d records, and the file is not broken\n%q", len(records), n, got)
	}
}

// damageString changes a byte. If remove is set, it may also remove bytes or truncate s.
func damageString(t *rapid.T, s string, remove bool) string {
	at := rapid.IntRange(1, len(s)-2).Draw(t, "at")
	if remove && rapid.Bool().Draw(t, "cut") {
		return s[:at]
	}
	b := []byte(s)
	b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
	if to := rapid.IntRange(at, len(b)-1).Draw(t, "to"); remove && rapid.Bool().Draw(t, "hole") {
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
