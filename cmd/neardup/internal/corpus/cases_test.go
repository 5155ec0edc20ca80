package corpus

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/cockroachdb/datadriven"
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
	"record": func(kind, uri, contentType, block string, fields ...string) string {
		return record(kind, uri, contentType, block, fields...)
	},
	"length": func(line, file string) string { return withLength(file, line) },
	"gzip":   gzipped, "zstd": zstded, "br": brotlied, "zlib": zlibbed, "deflate": deflated,
	"xz": xzed,
	"bz2": func() (string, error) {
		b, err := os.ReadFile("testdata/lines.jsonl.bz2")
		return string(b), err
	},
	"zip": zipped, "tar": tarred, "link": zippedLink,
	"chunk":   func(n int, s string) string { return chunked(s, n) },
	"repeat":  func(n int, s string) string { return strings.Repeat(s, n) },
	"replace": func(old, new, s string) string { return strings.ReplaceAll(s, old, new) },
	"cut":     func(n int, s string) string { return s[:position(n, s)] },
	"from":    func(n int, s string) string { return s[position(n, s):] },
	"flip":    func(n int, s string) string { return flipped(s, position(n, s)) },
}

// position returns n, which counts from the end of s if it is negative.
func position(n int, s string) int {
	if n < 0 {
		n += len(s)
	}
	return n
}

// escapes matches the escapes in a line, and the templates, which may have escapes of their own.
var escapes = regexp.MustCompile(`\{\{.*?\}\}|\\(x..|[nrt])`)

// expand returns the input that a line stands for.
func expand(t *testing.T, line string, escaped bool) string {
	t.Helper()
	if escaped {
		line = escapes.ReplaceAllStringFunc(line, func(part string) string {
			if part[0] == '\\' {
				part, _ = strconv.Unquote(`"` + part + `"`)
			}
			return part
		})
	}
	var b strings.Builder
	parsed, err := template.New("").Funcs(caseFuncs).Parse(line)
	must(t, err)
	must(t, parsed.Execute(&b, nil))
	return b.String()
}

// TestCases reads the inputs in testdata/cases, one per line, and returns a line per input. With
// -rewrite it rewrites the results.
func TestCases(t *testing.T) {
	datadriven.Walk(t, "testdata/cases", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			read, ok := caseReaders[d.Cmd]
			if !ok {
				t.Fatalf("%s: there is no command %q", d.Pos, d.Cmd)
			}
			var results []string
			for line := range strings.SplitSeq(d.Input, "\n") {
				records := read(t, expand(t, line, !strings.HasPrefix(d.Cmd, "json")))
				for i, record := range records {
					record = strconv.Quote(strings.ReplaceAll(record, page, "PAGE"))
					records[i] = strings.TrimLeft(record[1:len(record)-1], " ")
				}
				results = append(results, cmp.Or(strings.Join(records, "; "), "no records"))
			}
			if len(results) > 1 && len(slices.Compact(slices.Clone(results))) == 1 {
				return "each: " + results[0]
			}
			return strings.Join(results, "\n")
		})
	})
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
	"list": func(t *testing.T, input string) []string {
		records := readString(t, Options{Format: Fingerprints}, input)
		all, skips, _ := readChunks(t, Options{}, "-", strings.NewReader(input))
		if len(all)+len(skips) != len(records) {
			t.Errorf("%d fingerprints and %d skips in chunks", len(all), len(skips))
		}
		return describe(records)
	},
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
		result := readInput(t, Options{}, path)
		for i := range result {
			result[i] = strings.ReplaceAll(result[i], filepath.ToSlash(path), "@")
		}
		return result
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
