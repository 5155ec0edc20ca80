package corpus

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Records that a crawler appends to an archive while it is read are also read.
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
// lost. The block of each record has 71 bytes.
func TestWrongContentLength(t *testing.T) {
	a, b, c := response("a", page), response("b", page), response("c", page)
	da, db, dc := "a html "+page, "b html "+page, "c html "+page
	wraps := []func(string) string{func(s string) string { return s }, gzipped, zstded}
	sized := func(n int) string { return withLength(a, fmt.Sprint("Content-Length: ", n)) }
	for _, file := range []string{withLength(a, "X: "), withLength(a, "Content-Length: many"),
		withLength(a, "Content-Length: 99999999999999999999"), sized(-5), sized(math.MaxInt64),
		sized(0), sized(50), sized(70), sized(78), sized(100), sized(300)} {
		path := filepath.Join(writeFiles(t, map[string]string{"x.warc": file + b + c}), "x.warc")
		check(t, readFiles(t, Options{}, path), da, db, dc)
		for _, wrap := range wraps {
			check(t, readString(t, Options{}, wrap(file+b+c)), da, db, dc)
			check(t, readString(t, Options{}, wrap(file)+wrap(b)+wrap(c)), da, db, dc)
			records := readString(t, Options{}, wrap(b)+wrap(file)) // as the last record
			if len(records) != 2 || brief(records[1:]) != da+"\n" && brokenAmong(records[1:]) != 1 {
				t.Errorf("the last record: %s", brief(records))
			}
		}
		r := newReader(t, Options{Originals: true, Stdin: strings.NewReader(file + b + c)}, "-")
		original := readAll(t, r)[0].Original // a correct record
		if repaired := r.Totals().Repaired; repaired != 1 {
			t.Errorf("%d records are counted as repaired", repaired)
		}
		check(t, readString(t, Options{}, string(original.Header)+string(original.Body)+
			"\r\n\r\n"+b), da, db)
	}
	t.Run("too large, at the end of the file", func(t *testing.T) {
		for _, n := range []int{72, 74, 76, 80, 1000} {
			for _, wrap := range wraps {
				records := readString(t, Options{}, wrap(b)+wrap(sized(n)))
				if len(records) != 2 || records[1].Skip != nil ||
					strings.TrimSpace(string(records[1].Content)) != page {
					t.Errorf("%d: %s", n, brief(records))
				}
			}
		}
	})
	t.Run("every length", func(t *testing.T) {
		for n := range 400 {
			records := readString(t, Options{}, sized(n)+b+c)
			want := []string{da, db, dc}
			switch {
			case n == 40: // the empty line after the HTTP header is read as the end of the record
				want = []string{"a lost empty", " lost not a WARC record", db, dc}
			case 71+len(b) <= n && n <= 75+len(b): // as large as both records
				want = []string{"a html ", dc}
				records[0].Content = nil
			case records[0].Skip == nil: // without the empty lines after the block
				records[0].Content = bytes.TrimRight(records[0].Content, "\r\n")
			}
			if check(t, records, want...); t.Failed() {
				t.Fatalf("with a Content-Length of %d", n)
			}
		}
	})
	t.Run("many records", func(t *testing.T) {
		for _, file := range []string{strings.Repeat(sized(50), 200),
			strings.Repeat(sized(80), 200), strings.Repeat(sized(10_000), 200),
			sized(150_000) + strings.Repeat(sized(1000), 1000)} {
			want := slices.Repeat([]string{da}, strings.Count(file, "WARC/"))
			check(t, readString(t, Options{}, file+b), append(want, db)...)
		}
	})
}

// Reading is not quadratic if the Content-Length of each record covers the rest of the archive.
func TestWrongContentLengthIsNotSlow(t *testing.T) {
	one := withLength(response("a", page), "Content-Length: 1048576")
	r := newReader(t, Options{MaxDocument: 1 << 20, Stdin: long("", one, 16<<20, "")}, "-")
	if _, err := countUntilError(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	totals := r.Totals()
	if totals.Documents < 60 || totals.Records > totals.Documents+40 ||
		totals.Skipped["wrong Content-Length"] == 0 || r.Broken() == nil {
		t.Errorf("%+v, %v", totals, r.Broken())
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
