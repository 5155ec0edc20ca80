package corpus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However one record is damaged, all others are read as they are.
func TestOneDamagedRecord(t *testing.T) {
	for name, wrap := range map[string]func(string) string{
		"plain": func(s string) string { return s }, "gzip": gzipped,
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { damageOne(t, wrap) }) })
	}
}

func damageOne(t *rapid.T, wrap func(string) string) {
	n := rapid.IntRange(1, 6).Draw(t, "records")
	victim := rapid.IntRange(0, n-1).Draw(t, "victim")
	var file strings.Builder
	want := map[string]string{}
	compressed := wrap("") != ""
	for i := range n {
		key := fmt.Sprintf("http://%d/", i)
		body := page + rapid.StringMatching(`[a-z \r\n]{0,200}`).Draw(t, "body") + "."
		stored := wrap(response(key, body))
		if i != victim {
			want[key] = body
		} else {
			from := 0
			switch {
			case !compressed: // a header that is cut may run into the next one
				from = strings.Index(stored, "\r\n\r\n") + 4
			case i == 0: // else the file is not known for what it is
				from = len(gzipMagic)
			}
			stored = stored[:from] + damageString(t, stored[from:])
		}
		file.WriteString(stored)
	}
	r, err := New([]string{"-"}, Options{Format: WARC, Stdin: strings.NewReader(file.String())})
	if err != nil {
		t.Fatal(err)
	}
	var records []Record
	for rec, err := range r.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
		if body, ok := want[rec.Key]; ok && rec.Skip == nil && string(rec.Content) == body {
			delete(want, rec.Key)
		} else if rec.Skip == nil && rec.Key != fmt.Sprintf("http://%d/", victim) && rec.Repaired == "" {
			t.Errorf("a record too many: %s", brief([]Record{rec}))
		}
	}
	checkTotals(t, records, r.Totals())
	if len(want) > 0 {
		t.Errorf("lost %v of\n%q\n%s", want, file.String(), brief(records))
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
