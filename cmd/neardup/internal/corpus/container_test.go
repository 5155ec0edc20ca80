package corpus

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// files are names and contents, by turns.
func zipped(files ...string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err != nil {
			panic(err)
		}
		w.Write([]byte(files[i+1]))
	}
	z.Close()
	return b.String()
}

// zippedAs makes a zip file of one that is not a regular file.
func zippedAs(mode fs.FileMode, name, content string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: name}
	h.SetMode(mode | 0o777)
	w, err := z.CreateHeader(h)
	if err != nil {
		panic(err)
	}
	w.Write([]byte(content))
	z.Close()
	return b.String()
}

func tarred(files ...string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o600})
		w.Write([]byte(files[i+1]))
	}
	w.Close()
	return b.String()
}

// What a folder would give, an archive of its files gives.
func TestContainers(t *testing.T) {
	files := []string{"a.html", page, "b/c.jsonl.gz", gzipped(`{"url":"u","text":"x"}`), "d.warc.gz", gzipped(response("r", page)) + gzipped(response("s", page)), ".hidden", "x", "e.png", "\x89PNG\r\n\x1a\n"}
	want := func(at func(name string) string) []string {
		return []string{at("a.html") + " html " + page, "u text x", "r html " + page, "s html " + page, at(".hidden") + " pass hidden file", at("e.png") + " lost not text: image/png"}
	}
	for name, content := range map[string]string{
		"x.zip": zipped(files...), "unnamed": zipped(files...), "x.tar": tarred(files...), "x.tar.gz": gzipped(tarred(files...)), "x.tgz": gzipped(tarred(files...)), "other": zstded(tarred(files...)),
	} {
		t.Run(name, func(t *testing.T) {
			folder := writeFiles(t, map[string]string{name: content})
			path := filepath.Join(folder, name)
			check(t, readFiles(t, Options{}, path), want(func(name string) string { return filepath.ToSlash(path) + "/" + name })...)
			if strings.Contains(name, "tar") {
				check(t, readString(t, Options{}, content), want(func(string) string { return "" })...)
			}
		})
	}
	folder := writeFiles(t, map[string]string{
		"a.wacz":    zipped("datapackage.json", "{}", "archive/data.warc.gz", gzipped(response("r", page)), "pages/pages.jsonl", `{"url":"r","text":"again"}`),
		"b.zip":     zipped("in.zip", zipped("a.html", page), "in.tar", tarred("a.html", page)),
		"c.zip":     zipped("a.html", page)[:60],
		"d.tar":     tarred("a.html", page, "b.html", page)[:1540],
		"e.zip.gz":  gzipped(zipped("a.html", page)),
		"f.zip":     flipped(zipped("a.html", page), 50),
		"g.zip":     zipped(),
		"h.tar":     tarred("a.html", page) + "rubbish",
		"i.tar.gz":  gzipped(tarred("a.html", page, "b.html", strings.Repeat(page, 1000)))[:150],
		"j/x.u64le": zipped("12345678", "")[:96],
		"l.docx":    zipped("[Content_Types].xml", "<Types/>", "word/document.xml", "<w:document><w:t>some words</w:t></w:document>"),
		"m.odt":     zipped("mimetype", "application/vnd.oasis.opendocument.text", "content.xml", "<office:body>some words</office:body>"),
		"n.tar":     tarred("a.html", page) + tarred("b.html", page),
		"o.tar.gz":  flipped(gzipped(tarred("a.html", page)), len(gzipped(tarred("a.html", page)))-6), // the checksum
		"p.tar.gz":  gzipped(tarred("./a.html", page, "./.b/c.html", page)),
		"q.zip":     zipped("./a.html", page, "../b.html", page, "c/./.d", page),
		"r.zip":     zippedAs(fs.ModeSymlink, "a.html", "b.html"),
		"s.zip":     zippedAs(fs.ModeNamedPipe, "a.html", ""),
		"k.tar":     "a.html" + tarred("a.html", page)[6:600] + strings.Repeat("x", 3000),
	})
	at := func(name string) string { return filepath.ToSlash(filepath.Join(folder, name)) }
	for name, want := range map[string][]string{
		"a.wacz":   {at("a.wacz") + "/datapackage.json pass no archive of the WACZ", "r html " + page, at("a.wacz") + "/pages/pages.jsonl pass no archive of the WACZ"},
		"b.zip":    {at("b.zip") + "/in.zip lost archive within an archive", at("b.zip") + "/in.tar lost archive within an archive"},
		"c.zip":    {at("c.zip") + " lost bad zip"},
		"d.tar":    {at("d.tar") + "/a.html html " + page, at("d.tar") + "/b.html lost read error", " lost bad tar"},
		"e.zip.gz": {at("e.zip.gz") + " lost zip that is not a file"},
		"f.zip":    {at("f.zip") + "/a.html lost read error"},
		"l.docx":   {at("l.docx") + " lost not supported: office document"},
		"h.tar":    {at("h.tar") + "/a.html html " + page, " lost data after the end of a tar"},
		"n.tar":    {at("n.tar") + "/a.html html " + page, " lost data after the end of a tar"},
		"o.tar.gz": {at("o.tar.gz") + "/a.html html " + page, " lost bad gzip"},
		"p.tar.gz": {at("p.tar.gz") + "/a.html html " + page, at("p.tar.gz") + "/.b/c.html pass hidden file"},
		"q.zip":    {at("q.zip") + "/a.html html " + page, at("q.zip") + "/b.html html " + page, at("q.zip") + "/c/.d pass hidden file"},
		"r.zip":    {at("r.zip") + "/a.html lost link"},
		"s.zip":    {at("s.zip") + "/a.html pass not a regular file"},
		"m.odt":    {at("m.odt") + " lost not supported: office document"},
	} {
		check(t, readFiles(t, Options{}, at(name)), want...)
	}
	if got := brief(readFiles(t, Options{}, at("g.zip"))); got != "" {
		t.Errorf("an empty zip: %s", got)
	}
	for _, name := range []string{"h.tar", "i.tar.gz", "k.tar", "o.tar.gz"} {
		r := newReader(t, Options{}, at(name))
		readAll(t, r)
		if broken := r.Broken() != nil; broken != (name != "h.tar") {
			t.Errorf("%s: broken is %v", name, r.Broken())
		}
	}
	check(t, readString(t, Options{}, zipped("a.html", page)), " lost zip that is not a file")
}

// TestSlowTar: a tar file is known as one however little of it comes at once.
func TestSlowTar(t *testing.T) {
	for _, format := range []Format{Detect, TextFile} {
		for _, first := range []int{1, 6, 100, 261} {
			content := tarred("a.html", page)
			in := io.MultiReader(strings.NewReader(content[:first]), strings.NewReader(content[first:]))
			got := readFiles(t, Options{Stdin: in, Format: format}, "-")
			if format == TextFile && first < 7 {
				continue // it may be the text that was asked for
			}
			if len(got) != 1 || got[0].Source != "-/a.html" || got[0].Key != "" {
				t.Errorf("%s, %d bytes first: %s", format, first, brief(got))
			}
		}
	}
}

// Entries that overlap are one bomb; holes of a tar file are another.
func TestContainerBombs(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x.zip")
	overlapping := zipped("a.html", strings.Repeat("x", 1000), "b.html", strings.Repeat("x", 1000))
	for at := strings.Index(overlapping, "PK\x01\x02"); at >= 0; { // in the directory
		overlapping = overlapping[:at+20] + string([]byte{byte(2 * len(overlapping) / 3), 0}) + overlapping[at+22:]
		next := strings.Index(overlapping[at+1:], "PK\x01\x02")
		if next < 0 {
			break
		}
		at += 1 + next
	}
	for name, c := range map[string]struct{ content, want string }{
		"overlapping":           {overlapping, "bad zip: its entries are larger"},
		"a directory too large": {zipped(manyNames(300)...), "its directory is too large"},
		"one letter":            {zipped("a.html", strings.Repeat("x", 64<<20), "b.html", page), "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			os.WriteFile(path, []byte(c.content), 0o600)
			c.content = ""
			runtime.GC()
			var records []Record
			peak := testenv.PeakHeap(func() { records = readFiles(t, Options{MaxDocument: 1 << 20}, path) })
			if len(records) == 0 || records[0].Skip == nil || !strings.Contains(records[0].Skip.Error(), c.want) {
				t.Errorf("%d records: %.200s", len(records), brief(records))
			}
			if peak > 80<<20 {
				t.Errorf("%d bytes", peak)
			}
		})
	}
	h := &tar.Header{Name: "a.html", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"GNU.sparse.map": "0,0"}}
	if skip := passOverTar(h); skip == nil || skip.Reason != "sparse file" {
		t.Errorf("%v", skip)
	}
}

// TestZipOfManyEntries: memory is not made for as many entries as a large file says that it has.
func TestZipOfManyEntries(t *testing.T) {
	path, size, entries := filepath.Join(t.TempDir(), "x.zip"), int64(8<<30), uint64(256<<20)
	le := binary.LittleEndian
	end := le.AppendUint64([]byte("PK\x06\x06"), 44)
	end = append(end, make([]byte, 12)...)
	end = le.AppendUint64(le.AppendUint64(end, entries), entries)
	end = append(end, make([]byte, 16)...)
	end = le.AppendUint64(append(end, "PK\x06\x07\x00\x00\x00\x00"...), uint64(size))
	end = append(end, "\x01\x00\x00\x00PK\x05\x06\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"...)
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	file.WriteString("PK\x03\x04")
	if _, err := file.WriteAt(end, size); err != nil { // all before it is a hole
		t.Skip(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	check(t, readFiles(t, Options{}, path), filepath.ToSlash(path)+" lost bad zip")
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 64<<20 {
		t.Errorf("%d bytes were allocated", made)
	}
}

func flipped(s string, at int) string { return s[:at] + string(s[at]^0x10) + s[at+1:] }

func manyNames(n int) (files []string) {
	for i := range n {
		files = append(files, fmt.Sprintf("%060000d", i), "")
	}
	return files
}

func FuzzContainers(f *testing.F) {
	for _, files := range [][]string{{"a.html", page}, {"a/b.jsonl", `{"text":"t"}`, "c.warc", response("a", page)}, {"a.tar", tarred("b", "c")}, {}} {
		f.Add([]byte(zipped(files...)))
		f.Add([]byte(tarred(files...)))
		f.Add([]byte(gzipped(tarred(files...))))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		path := filepath.Join(t.TempDir(), "x")
		must(t, os.WriteFile(path, input, 0o600))
		for _, rec := range readFiles(t, Options{MaxDocument: 1000}, path) {
			if len(rec.Content) > 1000 {
				t.Fatalf("a document of %d bytes", len(rec.Content))
			}
		}
	})
}
