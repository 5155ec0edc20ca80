package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
		if testing.Short() {
			folders = folders[:1]
		} else if os.Getenv("NEARDUP_CI") == "" {
			folders = folders[:2]
		}
		dedupTwice(t, folders...)
	})
}

func dedupTwice(t *testing.T, folders ...string) {
	dir := filepath.Join(t.TempDir(), "ix")
	args := append([]string{"dedup", "--index", dir}, folders...)
	first := verdictsOf(t, args)
	stored := exported(t, dir)
	second := verdictsOf(t, args)
	again := exported(t, dir)

	if len(first) != len(second) {
		t.Fatalf("%d verdicts, then %d", len(first), len(second))
	}
	if !slices.Equal(stored, again) {
		t.Errorf("the second run changed the documents: %d, then %d", len(stored), len(again))
	}
	changed := make(map[string]bool) // keys with several texts in the corpus
	for _, v := range first {
		changed[v.Key] = changed[v.Key] || v.Verdict == "changed"
	}
	for i, f := range first {
		s := second[i]
		if f.Key != s.Key {
			t.Fatalf("line %d is of %s, then of %s", i, f.Key, s.Key)
		}
		want := f.Verdict
		switch {
		case want == "new" && changed[f.Key]:
			want = "changed"
		case want == "new":
			want = "unchanged"
		}
		if s.Verdict != want {
			t.Errorf("%s: %s, then %s", f.Key, f.Verdict, s.Verdict)
		}
	}
}

var accountLine = regexp.MustCompile(
	`(?m)^(\d+) records in \d+ files: (\d+) new, (\d+) changed, (\d+) unchanged, (\d+) duplicate, (\d+) skipped(?: \((.*)\))?$`)

// verdictsOf runs dedup, checks that its summary adds up, and returns its lines.
func verdictsOf(t *testing.T, args []string) []documents.Line {
	t.Helper()
	code, stdout, stderr := runHere("", args...)
	account := accountLine.FindStringSubmatch(stderr)
	if code != exitDone || account == nil {
		t.Fatalf("exit code %d, want a summary of the records:\n%s", code, stderr)
	}
	records, compared, skips, byReason := atoi(t, account[1]), 0, atoi(t, account[6]), 0
	for _, n := range account[2:6] {
		compared += atoi(t, n)
	}
	for reason := range strings.SplitSeq(account[7], ", ") {
		if reason != "" {
			byReason += atoi(t, reason[strings.LastIndexByte(reason, ' ')+1:])
		}
	}
	if compared+skips != records || byReason != skips {
		t.Errorf("does not add up: %s", account[0])
	}
	var lines []documents.Line
	decoder := json.NewDecoder(strings.NewReader(stdout))
	verdicts := 0
	for decoder.More() {
		var line documents.Line
		must(t, decoder.Decode(&line))
		if line.Verdict != documents.Skipped {
			verdicts++
		}
		lines = append(lines, line)
	}
	if verdicts != compared {
		t.Errorf("%d documents, and verdicts on %d", compared, verdicts)
	}
	return lines
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	must(t, err)
	return n
}
