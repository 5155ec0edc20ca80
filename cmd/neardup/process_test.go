package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var must = testenv.Must

// process returns the command as a separate process, for tests that kill it, signal it or bound
// its resources.
func process(args ...string) *exec.Cmd { return exec.Command("neardup", args...) }

// mustRun runs the command in this process, and fails the test if the command fails.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	code, out, diagnostics := runHere("", args...)
	if code != exitDone {
		t.Fatalf("neardup %s: %d\n%s", strings.Join(args, " "), code, diagnostics)
	}
	return out
}

// runHere runs the command in this process.
func runHere(in string, args ...string) (code int, out, diagnostics string) {
	var stdout, stderr bytes.Buffer
	code = run(context.Background(), args, &streams{strings.NewReader(in), &stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

// writeFile writes a file in a temporary directory.
func writeFile(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return string(content)
}

// exported returns the stored documents in a fixed order, as lines of a fingerprint, a tab and a
// key.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	text, err := list(dir)
	must(t, err)
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(text), "\n"))
}

// linesOf parses the output of dedup.
func linesOf(t *testing.T, out string) (lines []documents.Line) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var line documents.Line
		must(t, d.Decode(&line))
		lines = append(lines, line)
	}
	return lines
}

// copies returns JSON lines in which pages occur repeatedly under other keys, sometimes with a
// word changed.
func copies(pages, copies int, r *rand.Rand) string {
	var out strings.Builder
	for c := range copies {
		for p := range pages {
			words := rand.New(rand.NewPCG(uint64(p), 1))
			fmt.Fprintf(&out, `{"url":"http://%d.example/%d","text":"`, c, p)
			for range 300 {
				fmt.Fprintf(&out, "w%d ", words.IntN(3000))
			}
			if r.IntN(3) == 0 {
				fmt.Fprintf(&out, "changed%d", c)
			}
			out.WriteString("\"}\n")
		}
	}
	return out.String()
}

// TestKillAndRerun tests that everything that dedup has printed or passed through survives kill
// -9. No key occurs twice in the input, so a second run must end with the same documents as one
// clean run.
func TestKillAndRerun(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	pages := testenv.Number(200, 800, 800, 800)
	input := writeFile(t, "docs.jsonl", copies(pages, 4, r))
	dir := t.TempDir()
	clean, records := filepath.Join(dir, "clean"), filepath.Join(dir, "records")
	mustRun(t, "dedup", "--index", clean, "--emit", "new", "-o", records, input)
	want, whole := exported(t, clean), readFile(t, records)

	for n := range testenv.Number(2, 5, 5, 60) {
		killed := filepath.Join(dir, fmt.Sprint("killed", n))
		printed := runAndKill(t, r.IntN(pages*7/2), "dedup", "--index", killed, "--emit", "new",
			"-o", records, input)
		stored := make(map[string]bool)
		for _, line := range exported(t, killed) {
			_, key, _ := strings.Cut(line, "\t")
			stored[key] = true
		}
		passed := checkPassed(t, readFile(t, records), whole, stored)
		for _, line := range printed {
			switch {
			case line.Verdict == "new" && !passed[line.Key]:
				t.Fatalf("%s was printed as new and not passed through", line.Key)
			case line.Verdict != "duplicate" && !stored[line.Key]:
				t.Fatalf("%s was printed as %s and is lost", line.Key, line.Verdict)
			case line.Of != nil && !stored[line.Of.Key]:
				t.Fatalf("%s was printed as a duplicate of %s, which is lost",
					line.Key, line.Of.Key)
			}
		}
		mustRun(t, "dedup", "--index", killed, input)
		if got := exported(t, killed); !slices.Equal(got, want) {
			t.Fatalf("after a kill at line %d: %d documents, a clean run has %d", len(printed),
				len(got), len(want))
		}
	}
}

// checkPassed checks the records that a killed dedup has passed through, and returns their keys.
// They must be the first ones of whole, and must be stored. They must include all stored records
// except one batch.
func checkPassed(
	t *testing.T, records, whole string, stored map[string]bool,
) (passed map[string]bool) {
	t.Helper()
	if !strings.HasPrefix(whole, records) {
		t.Fatal("the records are not the first ones of all")
	}
	passed = make(map[string]bool)
	for line := range strings.Lines(records) {
		var record struct{ URL string }
		if json.Unmarshal([]byte(line), &record) != nil {
			continue // truncated by the kill
		}
		if passed[record.URL] = true; !stored[record.URL] {
			t.Fatalf("%s was passed through and is lost", record.URL)
		}
	}
	if missing := len(stored) - len(passed); missing > maxBatch {
		t.Fatalf("%d records are stored and were not passed through", missing)
	}
	return passed
}

// runAndKill kills the process after it has printed some lines, and returns all printed lines.
func runAndKill(t *testing.T, lines int, args ...string) (printed []documents.Line) {
	t.Helper()
	cmd := process(args...)
	stdout, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() {
		var line documents.Line
		if json.Unmarshal(scanner.Bytes(), &line) != nil {
			break // truncated by the kill
		}
		if printed = append(printed, line); len(printed) == lines {
			cmd.Process.Kill()
		}
	}
	cmd.Wait()
	return printed
}
