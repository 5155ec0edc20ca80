package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// The key of a file that is one document is its absolute path, also for a relative input path.
func TestPathsAreKeys(t *testing.T) {
	one, two := writeFiles(t, map[string]string{"a/x.html": page}),
		writeFiles(t, map[string]string{"a/x.html": page})
	for _, folder := range []string{one, two} {
		t.Chdir(folder)
		working, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		key := filepath.ToSlash(filepath.Join(working, "a", "x.html"))
		for _, input := range []string{"a", "./a", "a/", ".", "../" + filepath.Base(working),
			"a/x.html", "./a/x.html", "a/../a/x.html", filepath.Join(working, "a")} {
			records := readFiles(t, Options{}, filepath.FromSlash(input))
			if len(records) != 1 || records[0].Key != key {
				t.Errorf("%s: %q, want the key %s", input, brief(records), key)
			}
		}
	}
	for _, stdin := range []string{page, tarred("x.html", page)} {
		records := readString(t, Options{}, stdin)
		if len(records) != 1 || records[0].Key != "" || records[0].Skip != nil {
			t.Errorf("standard input: %q", brief(records))
		}
	}
}

func TestMissingInputs(t *testing.T) {
	folder := writeFiles(t, map[string]string{"x.html": page})
	for _, input := range []string{"nothing", "x.html/", "x.html/y"} {
		_, err := New([]string{folder, filepath.Join(folder, "x.html"),
			folder + string(filepath.Separator) + input}, Options{})
		if err == nil || !strings.Contains(err.Error(), input) {
			t.Errorf("%s: %v", input, err)
		}
	}
	if _, err := New([]string{folder + "none"}, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	r := newReader(t, Options{}, filepath.Join(folder, "x.html"))
	os.Remove(filepath.Join(folder, "x.html"))
	if n, err := countUntilError(t.Context(), r); n != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed file: %d records, %v", n, err)
	}
}

// A file in a folder that cannot be opened is a skip and a broken place. Not even root can open
// paths that are too long for the system.
func TestUnreadable(t *testing.T) {
	folder := writeFiles(t, map[string]string{"b.html": page})
	t.Chdir(folder)
	long := strings.Repeat("x", 250)
	for range 20 {
		if err := os.Mkdir(long, 0o777); err != nil {
			t.Skipf("skipped: %v", err)
		}
		must(t, os.WriteFile(long+".html", []byte(page), 0o666))
		t.Chdir(long)
	}
	r := newReader(t, Options{}, folder)
	records := readAll(t, r)
	lost := strings.Count(brief(records), "lost cannot be opened")
	if documents := int(r.Totals().Documents); documents < 5 || lost < 1 ||
		documents+lost != len(records) || brokenAmong(records) != lost || r.Broken() == nil {
		t.Errorf("%d documents, %d cannot be opened, of %d; %v", documents, lost, len(records),
			r.Broken())
	}
}

func brokenAmong(records []Record) (n int) {
	for _, rec := range records {
		if rec.Skip != nil && rec.Skip.Broken {
			n++
		}
	}
	return n
}

// A link in a folder is a skip. A link that is an input is followed.
func TestLinks(t *testing.T) {
	folder := writeFiles(t, map[string]string{"secret/x.html": page, "in/a.html": page})
	for name, to := range map[string]string{"file.html": "../secret/x.html", "folder": "../secret",
		"loop": ".", "self": "self", "nowhere": "none"} {
		if err := os.Symlink(to, filepath.Join(folder, "in", name)); err != nil {
			t.Skipf("skipped: %v", err)
		}
	}
	records := readFiles(t, Options{}, filepath.Join(folder, "in"))
	want := "a.html html " + page + "\nfile.html lost link\nfolder lost link\nloop lost " +
		"link\nnowhere lost link\nself lost link\n"
	got := strings.ReplaceAll(brief(records), filepath.ToSlash(folder)+"/in/", "")
	if got != want || brokenAmong(records) != 0 {
		t.Errorf("got, with %d broken places,\n%swant\n%s", brokenAmong(records), got, want)
	}
	for _, name := range []string{"file.html", "folder"} {
		records := readFiles(t, Options{}, filepath.Join(folder, "in", name))
		if len(records) != 1 || string(records[0].Content) != page {
			t.Errorf("%s, named: %s", name, brief(records))
		}
	}
}

func TestProgress(t *testing.T) {
	folder := writeFiles(t, map[string]string{"a.html": strings.Repeat(page, 10_000),
		"b/c.warc.gz": gzipped(response("u", page)), ".x": "y"})
	size := int64(len(page)*10_000 + len(gzipped(response("u", page))))
	r := newReader(t, Options{}, folder, filepath.Join(folder, "a.html"))
	if read, total := r.Progress(); read != 0 || total != -1 {
		t.Errorf("before: %d of %d", read, total)
	}
	must(t, r.Measure(context.Background()))
	if _, err := countUntilError(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	size += int64(len(page) * 10_000)
	if read, total := r.Progress(); read != size || total != size {
		t.Errorf("after: %d of %d, want %d", read, total, size)
	}
	if totals := r.Totals(); totals.Records != 4 || totals.Files != 3 || totals.Documents != 3 {
		t.Errorf("%+v", totals)
	}
	r = newReader(t, Options{}, "-", folder)
	must(t, r.Measure(context.Background()))
	if _, total := r.Progress(); total != -1 {
		t.Errorf("standard input has %d bytes", total)
	}
}

// countUntilError returns the number of records, and the error that ended them.
func countUntilError(ctx context.Context, r *Reader) (n int, failed error) {
	for u, err := range r.RawRecords(ctx) {
		if failed != nil {
			return n, errors.New("more after the error")
		}
		if failed = err; err == nil {
			u.Parse()
			n++
		}
	}
	return n, failed
}

// readerFunc is a function that is a reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestCancel(t *testing.T) {
	for name, text := range map[string]string{"between records": response("u", page),
		"in one record": "{  "} {
		ctx, cancel := context.WithCancel(t.Context())
		endless := &repeated{text: text}
		in := io.MultiReader(io.LimitReader(endless, 1<<20),
			readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }), endless)
		r := newReader(t, Options{Stdin: in}, "-", "-")
		n, err := countUntilError(ctx, r)
		if !errors.Is(err, context.Canceled) || r.Totals().Records != int64(n) || n > 20_000 {
			t.Errorf("%s: %d records, %v; counted %+v", name, n, err, r.Totals())
		}
	}
}

// failing returns a reader of input that ends with an error.
func failing(input string, err error) io.Reader {
	return io.MultiReader(strings.NewReader(input), iotest.ErrReader(err))
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("the disk is broken")
	for format, input := range map[Format]string{
		WARC:  response("u", page) + response("v", page)[:100],
		JSONL: `{"text":"a"}` + "\n" + `{"te`, TextFile: "words", U64LE: "12345678abc",
		Fingerprints: "1\n2", Detect: "",
	} {
		for _, input := range []string{input, gzipped(input)[:max(1, len(gzipped(input))-12)]} {
			records := readFiles(t, Options{Format: format, Stdin: failing(input, broken)}, "-")
			last := records[len(records)-1]
			if last.Skip == nil || last.Skip.Reason != "read error" ||
				!errors.Is(last.Skip.Err, broken) || !last.Skip.Document {
				t.Errorf("%q: %v", format, brief(records))
			}
		}
	}
}

// The number of reasons that are counted separately is bounded.
func TestReasonsAreBounded(t *testing.T) {
	var file strings.Builder
	for i := range 3 * maxReasons {
		file.WriteString(record("resource", "u", fmt.Sprintf("x/y%d", i), "x"))
	}
	r := newReader(t, Options{Stdin: strings.NewReader(file.String())}, "-")
	readAll(t, r)
	if totals := r.Totals(); len(totals.Skipped) != maxReasons+1 ||
		totals.Skipped[otherReasons] != 2*maxReasons {
		t.Errorf("%d reasons, %d others", len(totals.Skipped), totals.Skipped[otherReasons])
	}
}

// Broken returns the first broken place of all inputs, and wraps its error.
func TestBroken(t *testing.T) {
	folder := writeFiles(t, map[string]string{"a.html": page, "b.warc": response("u", page)})
	r := newReader(t, Options{Stdin: failing(response("v", page)[:100], fs.ErrInvalid)}, folder,
		"-")
	if err := r.Broken(); err != nil {
		t.Errorf("before reading: %v", err)
	}
	readAll(t, r)
	err := r.Broken()
	if want := "broken input: - byte 0: read error: at byte 100: invalid argument; the rest of " +
		"the file was not read"; !errors.Is(err, ErrBroken) || !errors.Is(err, fs.ErrInvalid) ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A record of a slow input is yielded as soon as its end is known.
func TestSlowInput(t *testing.T) {
	const start = "WARC/1.0\r\nWARC-Type: response\r\nWARC"
	line := `{"url":"u","text":"` + strings.Repeat("word ", 10) + "\"}\n"
	one := response("u", page)
	rest := strings.TrimPrefix(one, start)
	for _, c := range []struct {
		first, next string // each with a record and the beginning of the next one
		format      Format
	}{
		{line, line, JSONL}, {line, line, Detect},
		{one + start, rest + start, WARC}, {one + start, rest + start, Detect},
	} {
		given, seen := 0, 0
		in := readerFunc(func(p []byte) (int, error) {
			if seen < given {
				t.Errorf("%q: %d records of %d pieces, and another read", c.format, seen, given)
			}
			if given++; given > 20 {
				return 0, io.EOF
			} else if given > 1 {
				return copy(p, c.next), nil
			}
			return copy(p, c.first), nil
		})
		r := newReader(t, Options{Format: c.format, Stdin: in}, "-")
		for u, err := range r.RawRecords(t.Context()) {
			must(t, err)
			u.Parse()
			seen++
		}
		if seen < 20 {
			t.Errorf("%q: %d records", c.format, seen)
		}
	}
}
