package original

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

var must = testenv.Must

// readAll reads the records of a file.
func readAll(t *testing.T, content string) (records []corpus.Record) {
	t.Helper()
	r, err := corpus.New([]string{"-"}, corpus.Options{Originals: true,
		Stdin: strings.NewReader(content)})
	must(t, err)
	for raw, err := range r.RawRecords(context.Background()) {
		must(t, err)
		held := raw.Bytes()
		rec := raw.Parse()
		if o := rec.Original; o != nil && held < len(o.Header)+len(o.Body) {
			t.Errorf("Bytes of record %d returns %d", rec.Number, held)
		}
		records = append(records, rec)
	}
	return records
}

// written returns the output of a writer for the originals of records.
func written(t *testing.T, records []corpus.Record) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(bufio.NewWriterSize(&out, 16))
	for _, rec := range records {
		if rec.Original != nil {
			w.Write(rec.Original)
		}
	}
	must(t, w.Flush())
	return out.String()
}

func warcRecord(kind, newline, fields, block string) string {
	return strings.Join([]string{"WARC/1.0", "warc-type:  " + kind,
		"Content-Type: application/http; msgtype=response", "X-Own: \xff a",
		fmt.Sprint("Content-Length: ", len(block)), fields, ""}, newline) + block + "\r\n\r\n"
}

const message = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"

var (
	info  = warcRecord("warcinfo", "\r\n", "", "software: a crawler")
	small = warcRecord("response", "\n", "WARC-Target-URI: <http://a.example/>\n",
		message+"8\r\n<p>small\r\n0\r\n\r\n")
	large = warcRecord("response", "\r\n", "WARC-Target-URI: http://a.example/large\r\nFolded: "+
		"a\r\n  b\r\n", message+"200000\r\n"+strings.Repeat("<p>large", 1<<18)+"\r\n0\r\n\r\n")
	other = warcRecord("request", "\r\n", "", "GET / HTTP/1.1\r\n\r\n") +
		warcRecord("response", "\r\n", "", "HTTP/1.1 404 Not Found\r\n\r\n<p>nothing") +
		warcRecord("response", "\r\n", "", message+"0\r\n\r\n") +
		warcRecord(
			"response", "\r\n", "", "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n\x89PNG")
)

var gzipped, zstded = testgen.Gzip, testgen.Zstd

// stored returns a gzip member with a level and a header that the writer does not use.
func stored(t *testing.T, content string) string {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.StatelessCompression)
	must(t, err)
	z.Name = "x"
	z.Write([]byte(content))
	must(t, z.Close())
	return b.String()
}

// The writer does not change records. It copies a gzip member that consists of one record, and
// compresses all other records of a compressed archive.
func TestRecordsAreUnchanged(t *testing.T) {
	const lines = `{"id":1,"text":"\u00e9 a"}` + "\r\n \t" + `{ "id" : 2, "text":"b` + "\xff" +
		`"} ` + "\n\n\nno object\n" + `{"id":3,"text":"c"}`
	keptLines := strings.Replace(lines, "\n\nno object\n", "", 1) + "\n"
	archive, kept := info+small+other+large, info+small+large
	i, s, l := stored(t, info), stored(t, small), stored(t, large)
	withLines, cut := stored(t, small+"\r\n\r\n"), large[:len(large)-100]
	halves := stored(t, small[:200]) + stored(t, small[200:])
	for name, test := range map[string]struct {
		input, output string
		members       int    // of the output; 0 if it is not compressed
		copied        string // the first members of the output
	}{
		"lines":                        {lines, keptLines, 0, ""},
		"lines with a byte order mark": {"\xef\xbb\xbf" + lines, keptLines, 0, ""},
		"lines gzipped":                {gzipped(lines), keptLines, 0, ""},
		"archive":                      {archive, kept, 0, ""},
		"truncated archive":            {info + small + cut, info + small, 0, ""},
		"archive of one member":        {gzipped(archive), kept, 3, ""},
		"archive in Zstandard":         {zstded(archive), kept, 3, ""},
		"archive of members":           {i + s + stored(t, other) + l, kept, 3, i + s + l},
		"two records in a member": {i + stored(t, small+small) + s,
			info + small + small + small, 4, i},
		"a record in two members":       {halves, small, 1, ""},
		"an empty line before a record": {stored(t, "\r\n"+small) + i, small + info, 2, ""},
		"empty lines after a record": {withLines + i, small + "\r\n\r\n" + info, 2,
			withLines + i},
		"empty members": {gzipped("") + s + gzipped("") + i, small + info, 2,
			s + i},
	} {
		output, members := written(t, readAll(t, test.input)), 0
		if !strings.HasPrefix(output, test.copied) {
			t.Errorf("%s: the members are not copied", name)
		}
		if test.members > 0 {
			output, members = gunzipped(t, output)
		}
		if output != test.output || members != test.members {
			t.Errorf("%s: %d members of %d bytes, want %d of %d:\n%.1200q", name, members,
				len(output), test.members, len(test.output), output)
		}
	}
	lied := strings.Replace(small, "Content-Length: ", "Content-Length: 1", 1)
	output := written(t, readAll(t, stored(t, lied)+i))
	if content, members := gunzipped(t, output); members != 2 ||
		strings.Contains(content, lied[:200]) {
		t.Errorf("a wrong Content-Length: %q", content)
	}
	plain := readAll(t, info)
	if output := written(t, append(plain, readAll(t, s)...)); output != info+small {
		t.Errorf("after a record that is not compressed: %q", output)
	}
}

// gunzipped returns the content and the number of gzip members, each of which begins with a record.
func gunzipped(t *testing.T, s string) (content string, members int) {
	t.Helper()
	in := bufio.NewReader(strings.NewReader(s))
	for z := new(gzip.Reader); z.Reset(in) == nil; members++ {
		z.Multistream(false)
		part, err := io.ReadAll(z)
		if err != nil || !bytes.HasPrefix(part, []byte("WARC/1.")) {
			t.Fatalf("%v: %.40q", err, part)
		}
		content += string(part)
	}
	return content, members
}

// A file of another format is an error of CheckOriginals and of RawRecords.
func TestOtherFormats(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		name = filepath.Join(dir, name)
		must(t, os.WriteFile(name, []byte(content), 0o666))
		return name
	}
	lines, archive := write("a.jsonl", `{"id":1,"text":"a"}`), write("b.warc", small)
	page, array := write("c.html", "<p>page"), write("d.json", "[{\"id\":1,\n\"text\":\"a\"}]")
	for _, test := range []struct {
		inputs  []string
		refused bool
	}{
		{[]string{lines, lines}, false}, {[]string{archive, archive}, false},
		{[]string{lines, archive}, true}, {[]string{archive, lines}, true},
		{[]string{dir}, true}, {[]string{page}, true}, {[]string{array}, true},
	} {
		r, err := corpus.New(test.inputs, corpus.Options{Originals: true})
		must(t, err)
		before, found := r.CheckOriginals(t.Context(), nil), error(nil)
		for raw, err := range r.RawRecords(t.Context()) {
			if found = err; err == nil {
				raw.Parse()
			}
		}
		if errors.Is(before, corpus.ErrNoOriginals) != test.refused ||
			errors.Is(found, corpus.ErrNoOriginals) != test.refused {
			t.Errorf("%q: %v before, then %v", test.inputs, before, found)
		}
	}
}
