package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// process returns the command as a separate process, for tests that kill it, signal it or bound
// its resources. The test binary acts as the command: see TestMain.
func process(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "NEARDUP_TEST_MAIN=1")
	return cmd
}

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

var must = testenv.Must

// writeFile writes a file. If the name has no directory, it creates a temporary one.
func writeFile(t *testing.T, name, content string) (path string) {
	t.Helper()
	if path = name; !filepath.IsAbs(name) {
		path = filepath.Join(t.TempDir(), name)
	}
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// listed returns the stored documents as lines of a fingerprint, a tab and a key.
func listed(t *testing.T, dir string) string {
	t.Helper()
	list, err := list(dir)
	must(t, err)
	return list
}

// exported returns the stored documents in a fixed order.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(listed(t, dir)), "\n")
	slices.Sort(lines)
	return lines
}

// writeCopies writes JSON lines in which pages occur repeatedly under other keys, sometimes with
// a word changed.
func writeCopies(t *testing.T, path string, pages, copies int, r *rand.Rand) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for c := range copies {
		for p := range pages {
			words := rand.New(rand.NewPCG(uint64(p), 1))
			var text strings.Builder
			for range 300 {
				fmt.Fprintf(&text, "w%d ", words.IntN(3000))
			}
			if r.IntN(3) == 0 {
				fmt.Fprintf(&text, "changed%d", c)
			}
			must(t, encoder.Encode(
				map[string]string{"url": fmt.Sprintf("http://%d.example/%d", c, p),
					"text": text.String()}))
		}
	}
	writeFile(t, path, out.String())
}

// TestKillAndRerun tests that everything that dedup has printed or passed through survives kill
// -9. No key occurs twice in the input, so a second run must end with the same documents as one
// clean run.
func TestKillAndRerun(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 2))
	kills, pages := 5, 800
	if testing.Short() {
		kills, pages = 2, 200
	}
	if os.Getenv("NEARDUP_LONG") != "" {
		kills = 60
	}
	dir := t.TempDir()
	input := filepath.Join(dir, "docs.jsonl")
	writeCopies(t, input, pages, 4, r)
	clean, records := filepath.Join(dir, "clean"), filepath.Join(dir, "records")
	mustRun(t, "dedup", "--index", clean, "--emit", "new", "-o", records, input)
	want, whole := exported(t, clean), readFile(t, records)

	for n := range kills {
		killed := filepath.Join(dir, fmt.Sprint("killed", n))
		printed := runAndKill(t, r.IntN(pages*7/2), "dedup", "--index", killed, "--emit", "new",
			"-o", records, input)
		stored := make(map[string]bool)
		for _, line := range exported(t, killed) {
			_, key, _ := strings.Cut(line, "\t")
			stored[key] = true
		}
		checkPassed(t, readFile(t, records), whole, printed, stored)
		for _, line := range printed {
			if (line.Verdict == "new" || line.Verdict == "unchanged") && !stored[line.Key] {
				t.Fatalf("%s was printed as %s and is lost", line.Key, line.Verdict)
			}
			if line.Of != nil && !stored[line.Of.Key] {
				t.Fatalf("%s was printed as a duplicate of %s, which is lost",
					line.Key, line.Of.Key)
			}
		}
		mustRun(t, "dedup", "--index", killed, input)
		if got := exported(t, killed); !slices.Equal(got, want) {
			t.Fatalf("after a kill behind line %d: %d documents, a clean run has %d", len(printed),
				len(got), len(want))
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return string(content)
}

// checkPassed checks the records that a killed dedup has passed through. They must be the first
// ones of whole, and must be stored. They must include the records of all printed verdicts, and
// all stored records except one batch.
func checkPassed(
	t *testing.T, passed, whole string, printed []documents.Line, stored map[string]bool,
) {
	t.Helper()
	if !strings.HasPrefix(whole, passed) {
		t.Fatal("the records are not the first ones of all")
	}
	keys := make(map[string]bool)
	for line := range strings.Lines(passed) {
		var record struct{ URL string }
		if json.Unmarshal([]byte(line), &record) == nil { // otherwise the line is truncated
			keys[record.URL] = true
		}
	}
	for key := range keys {
		if !stored[key] {
			t.Fatalf("%s was passed through and is lost", key)
		}
	}
	for _, line := range printed {
		if line.Verdict == "new" && !keys[line.Key] {
			t.Fatalf("%s was printed as new and not passed through", line.Key)
		}
	}
	if missing := len(stored) - len(keys); missing > maxBatch {
		t.Fatalf("%d records are stored and were not passed through", missing)
	}
}

// runAndKill kills the process after it has printed some lines, and returns all printed lines.
func runAndKill(t *testing.T, lines int, args ...string) (printed []documents.Line) {
	t.Helper()
	cmd := process(args...)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
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

// TestImportPipes tests that import reads a pipe completely after it has detected the format. A
// pipe cannot be opened again. Compressed input must be recognized.
func TestImportPipes(t *testing.T) {
	dir := t.TempDir()
	made, docs := filepath.Join(dir, "made"), filepath.Join(dir, "docs.jsonl")
	writeCopies(t, docs, 100, 1, rand.New(rand.NewPCG(testenv.Seed(t), 3)))
	mustRun(t, "dedup", "--index", made, docs)
	export := mustRun(t, "export", "--index", made)
	list := listed(t, made)
	inputs := map[string]string{
		"list": list + strings.Repeat("\n", 70<<10), "export": export,
		"gzip": testgen.Gzip(export), "zstd": testgen.Zstd(export),
	}
	for name, input := range inputs {
		for _, argument := range []string{"-", "/dev/fd/"} {
			r, w, err := os.Pipe()
			must(t, err)
			index := filepath.Join(dir, name+filepath.Base(argument))
			if argument != "-" {
				argument += fmt.Sprint(r.Fd())
			}
			go func() {
				io.WriteString(w, input)
				w.Close()
			}()
			var stderr bytes.Buffer
			if code := run(t.Context(), []string{"import", "--index", index, argument},
				&streams{r, io.Discard, &stderr}); code != exitDone {
				t.Errorf("%s from %s: %d\n%s", name, argument, code, &stderr)
				continue
			}
			r.Close()
			want, got := export, mustRun(t, "export", "--index", index)
			if name == "list" {
				want, got = list, listed(t, index)
			}
			if got != want {
				t.Errorf("%s from %s: %d bytes are stored, %d were given\n%s", name, argument,
					len(got), len(want), &stderr)
			}
		}
	}
}
