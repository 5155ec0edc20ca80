package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/documents"
)

// TestCrawlAsExpected deduplicates testdata/crawl. Each line of
// testdata/crawl-expected.tsv has a document, its group of pages that a person would call the
// same, and its expected result. The results are new, duplicate (of its group), confused (a
// duplicate of another group) and no-page (without a text of its own).
//
// README.md shows lines that dedup must print. In these lines, "..." stands for any text.
func TestCrawlAsExpected(t *testing.T) {
	t.Parallel()
	const crawl = "../../testdata/crawl"
	code, out, diagnostics := runHere("", "dedup", crawl)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, diagnostics)
	}
	root, err := filepath.Abs(crawl)
	must(t, err)
	name := func(key string) string {
		return strings.TrimPrefix(key, filepath.ToSlash(root)+"/")
	}
	verdicts := make(map[string]documents.Line)
	for _, line := range linesOf(t, out) {
		verdicts[name(line.Key)] = line
	}
	groups := make(map[string]string)
	for row := range strings.Lines(readFile(t, crawl+"-expected.tsv")) {
		if strings.HasPrefix(row, "#") {
			continue
		}
		columns := strings.Split(strings.TrimRight(row, "\n"), "\t")
		key, group, want := columns[0], columns[1], columns[2]
		groups[key] = group
		line, found := verdicts[key]
		got := line.Verdict
		switch {
		case !found || got == documents.Skipped:
			got = "no-page"
		case got == "duplicate" && groups[name(line.Of.Key)] != group:
			got = "confused"
		}
		if got != want {
			t.Errorf("%s of %s (%s): %s, want %s: %+v", key, group, columns[3], got, want, line)
		}
	}
	if len(groups) < 60 {
		t.Errorf("%d documents have an expected result", len(groups))
	}

	shown := regexp.MustCompile(
		`(?m)^    (\{"key":.*"verdict":.*\}|\d+ records in .*)$`).FindAllStringSubmatch(
		readFile(t, "../../README.md"), -1)
	if len(shown) != 3 {
		t.Errorf("README.md shows %d lines", len(shown))
	}
	for _, line := range shown {
		pattern := "(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line[1]), `\.\.\.`, ".*") + "$"
		if !regexp.MustCompile(pattern).MatchString(out + diagnostics) {
			t.Errorf("not printed: %s", line[1])
		}
	}
}
