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
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// zipped returns a zip file of files, which are names and contents in turn. A name with a prefix
// "link:" is a link.
func zipped(files ...string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for file := range slices.Chunk(files, 2) {
		name, isLink := strings.CutPrefix(file[0], "link:")
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if isLink {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			panic(err)
		}
		io.WriteString(w, file[1])
	}
	z.Close()
	return b.String()
}

func tarred(files ...string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for file := range slices.Chunk(files, 2) {
		w.WriteHeader(&tar.Header{Name: file[0], Size: int64(len(file[1])), Mode: 0o600})
		io.WriteString(w, file[1])
	}
	w.Close()
	return b.String()
}

// A tar file is recognized if its first bytes come in pieces.
func TestSlowTar(t *testing.T) {
	for _, format := range []Format{Detect, TextFile} {
		for _, first := range []int{1, 6, 100, 261} {
			content := tarred("a.html", page)
			in := io.MultiReader(strings.NewReader(content[:first]),
				strings.NewReader(content[first:]))
			got := readFiles(t, Options{Stdin: in, Format: format}, "-")
			if format == TextFile && first < 7 {
				continue // it may be a text
			}
			if len(got) != 1 || got[0].Source != "-/a.html" || got[0].Key != "" {
				t.Errorf("%s, %d bytes first: %s", format, first, brief(got))
			}
		}
	}
}

// The global header that git archive writes is not an entry. The skip of an entry names the entry.
func TestTarOfGit(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header",
		PAXRecords: map[string]string{"comment": "f93dd614154c"}}),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "pages/", Mode: 0o700}),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "pages/link", Linkname: "a.html"}),
		w.WriteHeader(&tar.Header{Name: "pages/a.html", Size: int64(len(page)), Mode: 0o600}))
	io.WriteString(w, page)
	must(t, w.Close())
	got := readFiles(t, Options{Stdin: &b}, "-")
	if len(got) != 2 || got[0].Source != "-/pages/link" || got[0].Skip == nil ||
		got[1].Source != "-/pages/a.html" || got[1].Skip != nil {
		t.Errorf("%s", brief(got))
	}
}

// Overlapping entries, large directories, large entries and sparse files take little memory.
func TestContainerBombs(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x.zip")
	parts := strings.Split(zipped("a.html", strings.Repeat("x", 1000), "b.html",
		strings.Repeat("x", 1000)), "PK\x01\x02")
	for i, entry := range parts[1:] { // of the directory: each is as large as most of the file
		parts[i+1] = entry[:16] + "\xff\x00" + entry[18:]
	}
	overlapping := strings.Join(parts, "PK\x01\x02")
	for name, c := range map[string]struct{ content, want string }{
		"overlapping":           {overlapping, "bad zip: its entries are larger"},
		"a directory too large": {zipped(manyNames(300)...), "its directory is too large"},
		"one letter": {zipped("a.html", strings.Repeat("x", 64<<20), "b.html", page),
			"too large"},
	} {
		t.Run(name, func(t *testing.T) {
			os.WriteFile(path, []byte(c.content), 0o600)
			c.content = ""
			runtime.GC()
			var records []Record
			peak := testenv.PeakHeap(func() {
				records = readFiles(t, Options{MaxDocument: 1 << 20}, path)
			})
			if len(records) == 0 || records[0].Skip == nil ||
				!strings.Contains(records[0].Skip.Error(), c.want) {
				t.Errorf("%d records: %.200s", len(records), brief(records))
			}
			if peak > 80<<20 {
				t.Errorf("%d bytes", peak)
			}
		})
	}
	h := &tar.Header{Name: "a.html", Typeflag: tar.TypeReg,
		PAXRecords: map[string]string{"GNU.sparse.map": "0,0"}}
	if skip := passOverTar(h); skip == nil || skip.Reason != "sparse file" {
		t.Errorf("%v", skip)
	}
}

// No memory is allocated for the number of entries that the directory of a large file declares.
func TestZipOfManyEntries(t *testing.T) {
	path, size, entries := filepath.Join(t.TempDir(), "x.zip"), int64(8<<30), uint64(256<<20)
	le := binary.LittleEndian
	end := le.AppendUint64([]byte("PK\x06\x06"), 44)
	end = append(end, make([]byte, 12)...)
	end = le.AppendUint64(le.AppendUint64(end, entries), entries)
	end = append(end, make([]byte, 16)...)
	end = le.AppendUint64(append(end, "PK\x06\x07\x00\x00\x00\x00"...), uint64(size))
	end = append(end,
		"\x01\x00\x00\x00PK\x05\x06\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"...)
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	file.WriteString("PK\x03\x04")
	if _, err := file.WriteAt(end, size); err != nil { // a sparse file
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
	for _, files := range [][]string{{"a.html", page},
		{"a/b.jsonl", `{"text":"t"}`, "c.warc", response("a", page)},
		{"a.tar", tarred("b", "c")}, {}} {
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
