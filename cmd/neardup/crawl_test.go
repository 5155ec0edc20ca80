package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCrawlAsExpected deduplicates testdata/crawl. Each line of
// testdata/crawl-expected.tsv has a document, its group of pages that a person would call the
// same, and its expected result. The results are new, duplicate (of its group), confused (a
// duplicate of another group) and no-page (without a text of its own).
func TestCrawlAsExpected(t *testing.T) {
	t.Parallel()
	const crawl = "../../testdata/crawl"
	expected, err := os.ReadFile(crawl + "-expected.tsv")
	must(t, err)
	code, out, diagnostics := runHere("", "dedup", crawl)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, diagnostics)
	}
	root, err := filepath.Abs(crawl)
	must(t, err)
	type line struct {
		Key, Verdict string
		Of           struct{ Key string }
	}
	verdicts := make(map[string]line)
	for lines := json.NewDecoder(strings.NewReader(out)); lines.More(); {
		var l line
		must(t, lines.Decode(&l))
		verdicts[strings.TrimPrefix(l.Key, filepath.ToSlash(root)+"/")] = l
	}
	groups := make(map[string]string)
	counts := make(map[string]int)
	for row := range strings.Lines(string(expected)) {
		if strings.HasPrefix(row, "#") {
			continue
		}
		columns := strings.Split(strings.TrimRight(row, "\n"), "\t")
		key, group, want := columns[0], columns[1], columns[2]
		counts[want]++
		groups[key] = group
		l, found := verdicts[key]
		got := l.Verdict
		switch of := strings.TrimPrefix(l.Of.Key, filepath.ToSlash(root)+"/"); {
		case !found || got == "skipped":
			got = "no-page"
		case got == "duplicate" && groups[of] != group:
			got = "confused"
		}
		if got != want {
			t.Errorf("%s of %s (%s): %s, want %s: %+v", key, group, columns[3], got, want, l)
		}
	}
	if counts["new"] < 40 || counts["duplicate"] < 20 || counts["confused"] == 0 ||
		counts["no-page"] == 0 {
		t.Errorf("the crawl has %v", counts)
	}
	t.Logf("%v", counts)
}

// TestREADMELines tests that dedup prints the lines that README.md shows for testdata/crawl.
// "..." stands for any text.
func TestREADMELines(t *testing.T) {
	t.Parallel()
	_, out, diagnostics := runHere("", "dedup", "../../testdata/crawl")
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
