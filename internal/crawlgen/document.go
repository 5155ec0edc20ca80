package crawlgen

import (
	"fmt"
	"strings"
)

// Expect says what becomes of a document when the crawl is deduplicated in the
// order of a sorted walk as "neardup dedup" does it unless it is told otherwise:
// visible text, k = 6, and the other limits of dedup.
type Expect string

const (
	// New: the first of its group, and unlike all before it.
	New Expect = "new"
	// Duplicate: found to be a near-duplicate of a document of its group.
	Duplicate Expect = "duplicate"
	// Missed: comes out new, though a person would call it a near-duplicate of
	// an earlier document of its group.
	Missed Expect = "missed"
	// Confused: found to be a near-duplicate of a document of another group.
	Confused Expect = "confused"
	// NoPage: has no text of its own (an empty page, a redirect, a picture, a
	// revisit record). It says nothing about near-duplicates.
	NoPage Expect = "no-page"
)

// Document is one document of the crawl and what is known about it.
type Document struct {
	// Key is the path of the file, relative to the crawl folder and parted by
	// slashes; for WARC records the target URI, for JSON lines the id.
	Key string
	// Group is shared by documents that a person would call the same page.
	// Documents of different groups are different pages.
	Group string
	// Expect is checked by a test against the fingerprints.
	Expect Expect
	// Note says what was changed, or why the pipeline goes wrong.
	Note string
}

const expectedHeader = "# Written by internal/crawlgen, which says what the columns mean.\n# key\tgroup\texpect\tnote\n"

// FormatExpected writes documents as lines of key, group, expect and note,
// parted by tabs.
func FormatExpected(docs []Document) []byte {
	var b strings.Builder
	b.WriteString(expectedHeader)
	for _, d := range docs {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", d.Key, d.Group, d.Expect, d.Note)
	}
	return []byte(b.String())
}

// ParseExpected reads what FormatExpected wrote. Lines that begin with # are
// comments.
func ParseExpected(data []byte) ([]Document, error) {
	var docs []Document
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("crawlgen: expectations, line %d: %d fields, want key, group, expect, note", number, len(fields))
		}
		expect := Expect(fields[2])
		switch expect {
		case New, Duplicate, Missed, Confused, NoPage:
		default:
			return nil, fmt.Errorf("crawlgen: expectations, line %d: unknown expectation %q", number, fields[2])
		}
		docs = append(docs, Document{fields[0], fields[1], expect, fields[3]})
	}
	return docs, nil
}
