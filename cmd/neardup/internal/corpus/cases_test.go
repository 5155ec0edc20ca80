package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// caseFuncs are the functions of the templates in testdata/cases.
var caseFuncs = template.FuncMap{
	"page": func() string { return page },
	"a":    func() string { return response("a", page) },
	"b":    func() string { return response("b", page) },
	"c":    func() string { return response("c", page) },
	"html": func(fields ...string) string {
		fields = append([]string{"HTTP/1.1 200 OK", "Content-Type: text/html"}, fields...)
		return strings.Join(fields, "\r\n") + "\r\n\r\n"
	},
	"response": response,
	"record":   record,
	"length":   func(line, file string) string { return withLength(file, line) },
	"gzip":     gzipped, "zstd": zstded, "br": brotlied, "zlib": zlibbed, "deflate": deflated,
	"xz": xzed,
	"bz2": func() (string, error) {
		b, err := os.ReadFile("testdata/lines.jsonl.bz2")
		return string(b), err
	},
	"zip":   func(files ...any) string { return zipped(flatten(files)...) },
	"tar":   func(files ...any) string { return tarred(flatten(files)...) },
	"crawl": crawlFiles,
	"samples": func() []string {
		return []string{"a.html", page, "b/c.jsonl.gz", gzipped(`{"url":"u","text":"x"}`),
			"d.warc.gz", gzipped(response("r", page)) + gzipped(response("s", page)),
			".hidden", "x", "e.png", "\x89PNG\r\n\x1a\n"}
	},
	"chunk":   func(n int, s string) string { return chunked(s, n) },
	"repeat":  func(n int, s string) string { return strings.Repeat(s, n) },
	"replace": func(old, new, s string) string { return strings.ReplaceAll(s, old, new) },
	"cut":     func(n int, s string) string { return s[:position(n, s)] },
	"from":    func(n int, s string) string { return s[position(n, s):] },
	"flip":    func(n int, s string) string { return flipped(s, position(n, s)) },
}

// crawlFiles returns names and contents of the files of a crawl with the pages u and v in a
// folder.
func crawlFiles(folder string) []string {
	return []string{
		folder + "archive/rec-1.warc.gz", gzipped(response("u", page)) +
			gzipped(record("resource", "urn:text:https://u/", "text/plain", "A page.")),
		folder + "archive/rec-2.warc.gz", gzipped(response("v", page)),
		folder + "datapackage.json",
		`{"profile":"data-package","resources":[],"text":"about the crawl"}`,
		folder + "datapackage-digest.json", `{"path":"datapackage.json"}`,
		folder + "indexes/index.cdxj", "com,example)/ 20260101000000 {\"url\":\"u\"}\n",
		folder + "logs/crawl.log", `{"logLevel":"info","text":"it went well"}` + "\n",
		folder + "pages/extraPages.jsonl", `{"url":"w","text":"A page."}` + "\n",
		folder + "pages/pages.jsonl", `{"format":"json-pages-1.0","id":"pages"}` + "\n" +
			`{"url":"u","text":"A page."}` + "\n",
	}
}

// flatten returns strings, and the elements of slices of strings.
func flatten(all []any) (flat []string) {
	for _, one := range all {
		if files, ok := one.([]string); ok {
			flat = append(flat, files...)
		} else {
			flat = append(flat, one.(string))
		}
	}
	return flat
}

// position returns n, which counts from the end of s if it is negative.
func position(n int, s string) int {
	if n < 0 {
		n += len(s)
	}
	return n
}

// TestCases reads the inputs in testdata/cases.
func TestCases(t *testing.T) {
	commands := testenv.Commands{
		"folder":      readFolder(Detect),
		"warc-folder": readFolder(WARC),
		"lists": func(t *testing.T, in []string) []string {
			return describeList(readChunks(t, Options{}, folderOf(t, in), nil))
		},
	}
	for name, read := range caseReaders {
		commands[name] = testenv.Each(func(t *testing.T, input string) []string {
			return abbreviated(read(t, input), page, "PAGE")
		})
	}
	testenv.Cases(t, "testdata/cases", caseFuncs, commands)
}

// abbreviated replaces old by new in texts, and removes the space after an empty key.
func abbreviated(texts []string, old, new string) []string {
	for i := range texts {
		texts[i] = strings.TrimLeft(strings.ReplaceAll(texts[i], old, new), " ")
	}
	return texts
}

// folderOf returns a folder of files. Each line is a name and a content.
func folderOf(t *testing.T, lines []string) string {
	files := make(map[string]string)
	for _, line := range lines {
		name, content, _ := strings.Cut(line, " ")
		files[name] = content
	}
	return writeFiles(t, files)
}

// readFolder returns a command that reads a folder.
func readFolder(format Format) func(*testing.T, []string) []string {
	return func(t *testing.T, lines []string) []string {
		folder := folderOf(t, lines)
		texts := readInput(t, Options{Format: format}, folder)
		texts = abbreviated(abbreviated(texts, page, "PAGE"), filepath.ToSlash(folder), "@")
		return testenv.Quoted(texts)
	}
}

// describeList returns the number, the fingerprint and the key of each line of a list, and then the
// skips.
func describeList(all []listed, skips []Record, broken error) (texts []string) {
	for _, l := range all {
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%d %v %.20s", l.number, l.fp, l.key)))
	}
	for _, rec := range skips {
		texts = append(texts, fmt.Sprintf("%d %s at %d", rec.Number, rec.Skip.Reason, rec.Offset))
	}
	if broken != nil {
		texts = append(texts, "broken")
	}
	return texts
}

// readList returns a command that reads a list as chunks, in pieces of two sizes, and as records.
func readList(format Format) func(*testing.T, string) []string {
	return func(t *testing.T, input string) []string {
		opts := Options{Format: format}
		var results [][]string
		for _, size := range []int{1000, 1 << 30} {
			all, skips, broken := readChunks(t, opts, "-", pieces{strings.NewReader(input), size})
			checkRecords(t, opts, input, all, len(skips))
			results = append(results, describeList(all, skips, broken))
		}
		return same(t, results...)
	}
}

// caseReaders are the commands in testdata/cases. Each returns a text per record of an input.
var caseReaders = map[string]func(t *testing.T, input string) []string{
	"warc": func(t *testing.T, input string) []string {
		return readInput(t, Options{Format: WARC, Stdin: strings.NewReader(input)}, "-")
	},
	"read": func(t *testing.T, input string) []string {
		return readInput(t, Options{Stdin: strings.NewReader(input)}, "-")
	},
	"explain": func(t *testing.T, input string) []string {
		return []string{readString(t, Options{}, input)[0].Skip.Error()}
	},
	"http": func(t *testing.T, input string) []string {
		return readRecord(t, httpRecord("u", input))
	},
	"chunked": func(t *testing.T, body string) []string {
		return readBody(t, "u", "Content-Type: text/html\r\nTransfer-Encoding: chunked\r\n", body)
	},
	"encoded": func(t *testing.T, input string) []string {
		encoding, body, _ := strings.Cut(input, ": ")
		fields := "Content-Type: text/html\r\nContent-Encoding: " + encoding + "\r\n"
		return readBody(t, "u", fields, body)
	},
	"untyped": func(t *testing.T, input string) []string {
		uri, body, _ := strings.Cut(input, " ")
		declared := readBody(t, uri, "Content-Type: text/plain\r\n", body)
		if strings.Contains(declared[0], " lost ") {
			t.Errorf("declared as text: %s", declared)
		}
		return same(t, readBody(t, uri, "", body),
			readBody(t, uri, "Content-Type: application/octet-stream\r\n", body))
	},
	"url": func(t *testing.T, uri string) []string {
		return same(t, readRecord(t, record("resource", uri, "text/plain", "words")),
			readRecord(t, record("conversion", uri, "text/plain", "words")))
	},
	"jsonl": func(t *testing.T, input string) []string {
		var results [][]string
		for _, end := range []string{"\n", "\r\n"} {
			text := input + end + `{"url":"last","text":"t"}`
			for _, text := range []string{text, gzipped(text + end)} {
				records := readString(t, Options{Format: JSONL}, text)
				results = append(results, withoutLast(t, records))
			}
		}
		return same(t, results...)
	},
	"json": func(t *testing.T, input string) []string {
		var results [][]string
		for _, size := range []int{1, 2, 3, 1 << 20} {
			opts := Options{Format: JSON, MaxDocument: 40_000,
				Stdin: pieces{strings.NewReader(input), size}}
			results = append(results, readInput(t, opts, "-"))
		}
		return same(t, results...)
	},
	"list": readList(Fingerprints), "decimal": readList(Decimal), "words": readList(U64LE),
	"detect": func(t *testing.T, input string) []string {
		name, head, _ := strings.Cut(input, " ")
		format, problem := detectFormat(name, []byte(head))
		if problem != nil {
			return []string{problem.Reason}
		}
		return []string{string(format)}
	},
	"file": func(t *testing.T, input string) []string {
		name, content, _ := strings.Cut(input, " ")
		path := filepath.Join(writeFiles(t, map[string]string{name: content}), name)
		return abbreviated(readInput(t, Options{}, path), filepath.ToSlash(path), "@")
	},
}

// readInput describes the records of an input. It adds "broken" if the input is broken.
func readInput(t *testing.T, opts Options, input string) []string {
	r := newReader(t, opts, input)
	texts := describe(readAll(t, r))
	if r.Broken() != nil {
		texts = append(texts, "broken")
	}
	return texts
}

// readBody reads a response with the given fields.
func readBody(t *testing.T, uri, fields, body string) []string {
	return readRecord(t, httpRecord(uri, "HTTP/1.1 200 OK\r\n"+fields+"\r\n"+body))
}

// readRecord reads a WARC record, and another one after it.
func readRecord(t *testing.T, one string) []string {
	return withoutLast(t, readString(t, Options{MaxDocument: 40_000}, one+response("last", page)))
}

// withoutLast describes the records before the last one, which must be the document "last".
func withoutLast(t *testing.T, records []Record) []string {
	t.Helper()
	before := len(records) - 1
	if before < 0 || records[before].Key != "last" || records[before].Skip != nil {
		t.Fatalf("the last document is not read: %s", brief(records))
	}
	return describe(records[:before])
}

// same returns the first of several results, which must be equal.
func same(t *testing.T, results ...[]string) []string {
	t.Helper()
	for _, other := range results[1:] {
		if !slices.Equal(other, results[0]) {
			t.Errorf("the results differ: %q and %q", results[0], other)
		}
	}
	return results[0]
}
