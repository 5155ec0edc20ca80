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
)

func writeFiles(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// inFolder is records in short, with paths below folder.
func inFolder(records []Record, folder string) string {
	return strings.ReplaceAll(brief(records), filepath.ToSlash(folder)+"/", "")
}

func TestFolder(t *testing.T) {
	folder := writeFiles(t, map[string]string{
		"b.html":       page,
		"a/z.txt":      "words",
		"a/c/y.html":   gzipped(page),
		"a/x.warc.gz":  gzipped(response("u", page)),
		"c.jsonl.zst":  zstded(`{"url":"v","text":"t"}`),
		"d":            "no name tells",
		"empty.html":   "",
		".hidden":      "x",
		".git/objects": "x",
		"photo.png":    "\x89PNG\r\n\x1a\n",
		"broken.gz":    gzipped("some words")[:15],
	})
	records, totals := readAll(t, Options{}, folder)
	want := `.git pass hidden file
.hidden pass hidden file
a/c/y.html html ` + page + `
u html ` + page + `
a/z.txt text words
b.html html ` + page + `
broken.gz lost truncated gzip
v text t
d text no name tells
empty.html lost empty
photo.png lost not text: image/png
`
	if got := inFolder(records, folder); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if totals.Files != 9 {
		t.Errorf("%d files", totals.Files)
	}
	// The same again, with a format forced on all: what is no archive is one skip.
	records, _ = readAll(t, Options{Format: WARC}, folder)
	for _, rec := range records {
		if rec.Skip == nil && rec.Key != "u" {
			t.Errorf("read as WARC, there is a document %q", rec.Key)
		}
	}
}

func TestKeyAsGiven(t *testing.T) {
	folder := writeFiles(t, map[string]string{"a/x.html": page})
	t.Chdir(folder)
	for input, key := range map[string]string{"a": "a/x.html", "./a": "./a/x.html", "a/": "a/x.html", ".": "./a/x.html", "a/x.html": "a/x.html", "./a/x.html": "./a/x.html"} {
		records, _ := readAll(t, Options{}, filepath.FromSlash(input))
		if len(records) != 1 || records[0].Key != key || records[0].Source != key {
			t.Errorf("%s: %q", input, brief(records))
		}
	}
}

func TestInputsThatAreNot(t *testing.T) {
	folder := writeFiles(t, map[string]string{"x.html": page})
	for _, input := range []string{"nothing", "x.html/", "x.html/y"} {
		_, err := New([]string{folder, filepath.Join(folder, "x.html"), folder + string(filepath.Separator) + input}, Options{})
		if err == nil || !strings.Contains(err.Error(), input) {
			t.Errorf("%s: %v", input, err)
		}
	}
	if _, err := New([]string{folder + "none"}, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not matched as fs.ErrNotExist: %v", err)
	}
	r, err := New([]string{filepath.Join(folder, "x.html")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(folder, "x.html"))
	for rec, err := range r.Records(context.Background()) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that went away: %+v, %v", rec, err)
		}
	}
	for _, opts := range []Options{{Format: "arc"}, {MaxDocument: -1}} {
		if _, err := New(nil, opts); err == nil {
			t.Errorf("%+v: no error", opts)
		}
	}
}

// TestUnreadable: what in a folder cannot be opened is a skip; what was named is an error.
func TestUnreadable(t *testing.T) {
	folder := writeFiles(t, map[string]string{"a/x.html": page, "b/x.html": page, "c.html": page})
	denied := func(path string) error {
		if name := filepath.Base(path); name == "a" || name == "c.html" {
			return &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
		}
		return nil
	}
	// A disk of its own, since root may open everything.
	opts := Options{disk: disk{
		open: func(path string) (*os.File, error) {
			if err := denied(path); err != nil {
				return nil, err
			}
			return os.Open(path)
		},
		readDir: func(path string) ([]fs.DirEntry, error) {
			if err := denied(path); err != nil {
				return nil, err
			}
			return os.ReadDir(path)
		},
	}}
	records, totals := readAll(t, opts, folder)
	if got, want := inFolder(records, folder), "a lost cannot be opened\nb/x.html html "+page+"\nc.html lost cannot be opened\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if n := brokenAmong(records); n != 2 || totals.Documents != 1 {
		t.Errorf("%d broken places, want 2, of %+v", n, totals)
	}
	for _, input := range []string{"a", "c.html"} {
		r, err := New([]string{filepath.Join(folder, input)}, opts)
		if err != nil {
			t.Fatal(err)
		}
		failed := false
		for _, err := range r.Records(context.Background()) {
			if failed = errors.Is(err, fs.ErrPermission); !failed {
				t.Errorf("%s: got %v", input, err)
			}
		}
		if !failed {
			t.Errorf("%s: no error", input)
		}
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

// TestLinks: a link in a folder is a skip, whatever it leads to; one that is named is
// followed.
func TestLinks(t *testing.T) {
	folder := writeFiles(t, map[string]string{"secret/x.html": page, "in/a.html": page})
	for name, to := range map[string]string{"file.html": "../secret/x.html", "folder": "../secret", "loop": ".", "self": "self", "nowhere": "none"} {
		if err := os.Symlink(to, filepath.Join(folder, "in", name)); err != nil {
			t.Skipf("skipped: no links here: %v", err)
		}
	}
	records, _ := readAll(t, Options{}, filepath.Join(folder, "in"))
	want := "a.html html " + page + "\nfile.html lost link\nfolder lost link\nloop lost link\nnowhere lost link\nself lost link\n"
	if got := inFolder(records, folder+"/in"); got != want || brokenAmong(records) != 0 {
		t.Errorf("got, with %d broken places,\n%swant\n%s", brokenAmong(records), got, want)
	}
	for _, name := range []string{"file.html", "folder"} {
		records, _ := readAll(t, Options{}, filepath.Join(folder, "in", name))
		if len(records) != 1 || string(records[0].Content) != page {
			t.Errorf("%s, named: %s", name, brief(records))
		}
	}
}

func TestProgress(t *testing.T) {
	folder := writeFiles(t, map[string]string{"a.html": strings.Repeat(page, 10_000), "b/c.warc.gz": gzipped(response("u", page)), ".x": "y"})
	size := int64(len(page)*10_000 + len(gzipped(response("u", page))))
	r, err := New([]string{folder, filepath.Join(folder, "a.html")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if read, total := r.Progress(); read != 0 || total != -1 {
		t.Errorf("before: %d of %d", read, total)
	}
	if err := r.Measure(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Records(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	size += int64(len(page) * 10_000)
	if read, total := r.Progress(); read != size || total != size {
		t.Errorf("after: %d of %d, want %d", read, total, size)
	}
	byInput := r.Totals()
	if len(byInput) != 2 || byInput[0].Records != 3 || byInput[0].Files != 2 || byInput[1].Documents != 1 {
		t.Errorf("%+v", byInput)
	}
	r, _ = New([]string{"-", folder}, Options{})
	if err := r.Measure(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, total := r.Progress(); total != -1 {
		t.Errorf("standard input has %d bytes", total)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := New([]string{"-", "-"}, Options{Stdin: strings.NewReader(strings.Repeat(response("u", page), 10_000))})
	if err != nil {
		t.Fatal(err)
	}
	n, ended := 0, false
	for _, err := range r.Records(ctx) {
		if ended {
			t.Fatal("more after the error")
		}
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			ended = true
			continue
		}
		if n++; n == 10 {
			cancel()
		}
	}
	if n != 10 || !ended {
		t.Errorf("%d records, error %v", n, ended)
	}
	if totals := totalsOf(r); totals.Records != 10 {
		t.Errorf("%+v", totals)
	}
	// Inside one endless record, too.
	ctx, cancel = context.WithCancel(context.Background())
	endless := &generator{size: 1 << 62, at: func(n int64) { cancel() }}
	r, _ = New([]string{"-"}, Options{Stdin: endless, Format: JSONL})
	for rec, err := range r.Records(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v, %v", rec, err)
		}
	}
}

func TestBreak(t *testing.T) {
	folder := writeFiles(t, map[string]string{"a.txt": "a", "b.txt": "b", ".c": "", "d.jsonl": `{"text":"a"}` + "\n" + `{"text":"a"}`})
	for stop := 1; stop <= 4; stop++ {
		r, err := New([]string{folder, folder}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range r.Records(context.Background()) {
			if n++; n == stop {
				break
			}
		}
		if totals := totalsOf(r); n != stop || totals.Records != int64(stop) {
			t.Errorf("stopped after %d: %+v", stop, totals)
		}
	}
}

// failing gives some bytes and then an error.
type failing struct {
	io.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("the disk is broken")
	for format, input := range map[Format]string{
		WARC: response("u", page) + response("v", page)[:100], JSONL: `{"text":"a"}` + "\n" + `{"te`, TextFile: "words", U64LE: "12345678abc",
		Fingerprints: "1\n2", Detect: "",
	} {
		for _, input := range []string{input, gzipped(input)[:max(1, len(gzipped(input))-12)]} {
			r, err := New([]string{"-"}, Options{Format: format, Stdin: failing{strings.NewReader(input), broken}})
			if err != nil {
				t.Fatal(err)
			}
			var records []Record
			for rec, err := range r.Records(context.Background()) {
				if err != nil {
					t.Fatal(err)
				}
				records = append(records, rec)
			}
			checkTotals(t, records, totalsOf(r))
			last := records[len(records)-1]
			if last.Skip == nil || last.Skip.Reason != "read error" || !errors.Is(last.Skip.Err, broken) || !last.Skip.Document {
				t.Errorf("%q: %v", format, brief(records))
			}
		}
	}
}

// Reasons quote the input; they are counted apart up to a limit.
func TestReasonsAreBounded(t *testing.T) {
	var file strings.Builder
	for i := range 3 * maxReasons {
		file.WriteString(record("resource", "u", fmt.Sprintf("x/y%d", i), "x"))
	}
	records := readString(t, Options{}, file.String())
	var totals Totals
	for _, rec := range records {
		totals.count(&rec)
	}
	if len(totals.Skipped) != maxReasons+1 || totals.Skipped[otherReasons] != 2*maxReasons {
		t.Errorf("%d reasons, %d others", len(totals.Skipped), totals.Skipped[otherReasons])
	}
}

func TestSkipString(t *testing.T) {
	if got := (&Skip{Reason: "too large", Detail: "9 bytes"}).String(); got != "too large: 9 bytes" {
		t.Error(got)
	}
	if got := (&Skip{Reason: "revisit"}).String(); got != "revisit" {
		t.Error(got)
	}
}

// Broken tells of the first broken place of all inputs, and wraps what is wrong there.
func TestBroken(t *testing.T) {
	folder := writeFiles(t, map[string]string{"a.html": page, "b.warc": response("u", page)})
	r, err := New([]string{folder, "-"}, Options{Stdin: failing{strings.NewReader(response("v", page)[:100]), fs.ErrInvalid}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Broken(); err != nil {
		t.Errorf("before reading: %v", err)
	}
	for _, err := range r.Records(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	err = r.Broken()
	if want := "broken input: - byte 0: read error: at byte 100: invalid argument; nothing could be read behind it"; !errors.Is(err, ErrBroken) || !errors.Is(err, fs.ErrInvalid) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if totals := r.Totals(); totals[0].Input != folder || totals[1].Input != "-" {
		t.Errorf("%+v", totals)
	}
}
