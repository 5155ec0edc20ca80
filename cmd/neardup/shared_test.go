package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestDocumentsTwice reads archives and pages, both generated and real. Every record must be
// counted, and every document must get one verdict. A second run with the same index must
// recognize the stored documents and find the same duplicates.
func TestDocumentsTwice(t *testing.T) {
	t.Parallel()
	t.Run("samples",
		func(t *testing.T) { dedupTwice(t, "internal/corpus/testdata", "../../testdata/crawl") })
	t.Run("real", func(t *testing.T) {
		if testenv.Race {
			t.Skip("the samples have all kinds of inputs")
		}
		data := testgen.Shared(t, "")
		folders := []string{filepath.Join(data, "warc"), filepath.Join(data, "recrawls"),
			filepath.Join(data, "pages")}
		dedupTwice(t, folders[:testenv.Number(1, 2, 3, 3)]...)
	})
}

func dedupTwice(t *testing.T, folders ...string) {
	dir := filepath.Join(t.TempDir(), "ix")
	args := append([]string{"dedup", "--index", dir}, folders...)
	first := verdictsOf(t, args...)
	stored := exported(t, dir)
	second := verdictsOf(t, args...)
	if again := exported(t, dir); !slices.Equal(stored, again) {
		t.Errorf("the second run changed the documents: %d, then %d", len(stored), len(again))
	}
	if len(first) != len(second) {
		t.Fatalf("%d verdicts, then %d", len(first), len(second))
	}
	changed := make(map[string]bool) // keys with several texts in the corpus
	for _, v := range first {
		changed[v.Key] = changed[v.Key] || v.Verdict == "changed"
	}
	for i, f := range first {
		s := second[i]
		want := f.Verdict
		switch {
		case want == "new" && changed[f.Key]:
			want = "changed"
		case want == "new":
			want = "unchanged"
		}
		if s.Key != f.Key || s.Verdict != want {
			t.Fatalf("line %d: %s is %s, then %s is %s", i, f.Key, f.Verdict, s.Key, s.Verdict)
		}
	}
}

var (
	accountLine = regexp.MustCompile(`(?m)^(\d+) records? in \d+ files?: ` +
		`(\d+) new, (\d+) changed, (\d+) unchanged, (\d+) duplicate, (\d+) skipped(?: \((.*)\))?$`)
	countOfReason = regexp.MustCompile(` (\d+)(?:, |$)`)
)

// verdictsOf runs dedup, checks that its summary adds up, and returns its lines.
func verdictsOf(t *testing.T, args ...string) []documents.Line {
	t.Helper()
	code, stdout, stderr := runHere("", args...)
	account := accountLine.FindStringSubmatch(stderr)
	if code != exitDone || account == nil {
		t.Fatalf("exit code %d, want a summary of the records:\n%s", code, stderr)
	}
	number := func(digits string) int {
		n, err := strconv.Atoi(digits)
		must(t, err)
		return n
	}
	lines := linesOf(t, stdout)
	counts := make(map[string]int)
	for _, line := range lines {
		counts[line.Verdict]++
	}
	compared := 0
	for i, verdict := range []string{"new", "changed", "unchanged", "duplicate"} {
		compared += counts[verdict]
		if n := number(account[2+i]); counts[verdict] != n {
			t.Errorf("%d lines are %s, want %d", counts[verdict], verdict, n)
		}
	}
	skips, byReason := number(account[6]), 0
	for _, reason := range countOfReason.FindAllStringSubmatch(account[7], -1) {
		byReason += number(reason[1])
	}
	if compared+skips != number(account[1]) || byReason != skips {
		t.Errorf("does not add up: %s", account[0])
	}
	return lines
}
